"""PyTorch's own kernels: they compute what `step` says, or do not run."""

import dataclasses
import types

import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("kernels of PyTorch", allow_module_level=True)

import torch

from kerasseq.kernels.torch import derived, native

pytestmark = pytest.mark.everywhere("kernels differ between backends")

B, T, D, H = 3, 7, 5, 2
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
LAYERS = {
    "elman tanh": (layers.ElmanRNN, {"activation": "tanh"}),
    "elman relu": (layers.ElmanRNN, {"activation": "relu"}),
    "lstm": (layers.LSTM, {}),
    "gru": (layers.GRU, {}),
}


@pytest.fixture
def runs(monkeypatch):
    """The names of the native kernels that ran."""
    found = []

    def noting(name, it, states, run=native.run):
        found.append(name)
        return run(name, it, states)

    monkeypatch.setattr(native, "run", noting)
    return found


def pair(name, **options):
    """A layer that may run natively, and the same step by step."""
    cls, own = LAYERS[name]
    both = [
        cls(H, return_sequences=True, unroll=u, **own, **options) for u in (False, True)
    ]
    for layer in both:
        layer.build(X.shape)
        rng = np.random.default_rng(1)
        layer.set_weights([rng.normal(size=w.shape) for w in layer.get_weights()])
    return both


def gradients(layer):
    x = torch.tensor(X, requires_grad=True)
    layer(x).sin().sum().backward()
    weights = [v.value for v in layer.trainable_variables]
    found = [x.grad, *(w.grad for w in weights)]
    for w in weights:
        w.grad = None
    return found


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_native_kernels_compute_what_step_says(name, bias, monkeypatch, runs):
    monkeypatch.setattr(derived, "can_run", lambda *_: False)  # as without llvmlite
    fast, slow = pair(name, use_bias=bias)
    torch.testing.assert_close(fast(X), slow(X), atol=1e-5, rtol=1e-5)
    for a, b in zip(gradients(fast), gradients(slow), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    assert len(runs) == 3  # the trial, and two calls


def rounded(x):
    """Factors of TF32, which has 10 bits behind the point."""
    bits = x.contiguous().view(torch.int32) + 2**12
    return (bits & -(2**13)).view(torch.float32)


@pytest.mark.parametrize("name", LAYERS)
def test_products_rounded_to_tf32_pass_the_trial(name, monkeypatch, runs):
    """cuDNN rounds so by default; the loop instead took 25 to 46 times as long."""

    def run(name, it, states, run=native.run):
        parts = {
            key: getattr(it, key)
            for key in ("inputs", "kernel", "recurrent_kernel", "bias")
        }
        parts = {key: rounded(x.detach()) for key, x in parts.items()}
        return run(name, dataclasses.replace(it, **parts), states)

    monkeypatch.setattr(native, "run", run)
    monkeypatch.setattr(derived, "can_run", lambda *_: False)
    cls, own = LAYERS[name]
    layer = cls(509, **own)
    x = np.random.default_rng(0).normal(size=(2, 3, 257)).astype("float32")
    layer(x)
    assert len(runs) == 2  # the trial, and the call

    def step(self, *args):
        h, states = type(self).step(self, *args)
        return 0.999 * h, [0.999 * h, *states[1:]]

    layer.cell.step = types.MethodType(step, layer.cell)
    layer(x)
    assert len(runs) == 3  # the trial alone


def test_an_edited_step_does_not_run_natively(runs):
    fast, _ = pair("lstm")
    fast(X)
    assert runs == ["lstm", "lstm"]
    runs.clear()
    fast.cell.step = lambda z, states, training=False: (0 * states[0], states)
    assert not fast(X).any()
    assert not runs
    fast.cell.step = lambda z, states, training=False: (states[0], states)
    assert not fast(X).any()
    assert runs == ["lstm"]  # the trial


class Clipped(layers.LSTMCell):
    """Differs where a cell state is large."""

    def step(self, projected, states, training=False):
        _, (h, c) = super().step(projected, states, training)
        return h, [h, ops.clip(c, -4, 4)]


class Leaking(layers.LSTMCell):
    """Differs by little at each step."""

    def step(self, projected, states, training=False):
        h, c = states
        return super().step(projected, [h, 0.999 * c], training)


class WithoutGradient(layers.LSTMCell):
    """Differs in its gradients alone."""

    def step(self, projected, states, training=False):
        h, c = states
        return super().step(projected, [ops.stop_gradient(h), c], training)


class OtherOutput(layers.LSTMCell):
    """Differs in the output, which is the cell state."""

    def step(self, projected, states, training=False):
        h, (_, c) = super().step(projected, states, training)
        return c, [h, c]


class ThirdState(layers.LSTMCell):
    """Has one more state than the kernel."""

    state_names = ("hidden_state", "cell_state", "mean")

    def step(self, projected, states, training=False):
        h, (_, c) = super().step(projected, states[:2], training)
        return h, [h, c, 0.9 * states[2] + 0.1 * h]


class InTraining(layers.LSTMCell):
    """Differs in training alone."""

    def step(self, projected, states, training=False):
        h, states = super().step(projected, states, training)
        return (h / 2 if training else h), states


class InputsInTraining(layers.LSTMCell):
    """Differs in what it makes of the inputs, in training alone."""

    def project(self, inputs, training=False):
        z = super().project(inputs, training)
        return z / 2 if training else z


class ClippedInputs(layers.LSTMCell):
    """Differs where an input is large."""

    def project(self, inputs, training=False):
        return super().project(ops.clip(inputs, -9, 9), training)


class SmallActivation(layers.ElmanCell):
    """Differs where a state is large, and has as many branches as the kernel."""

    def step(self, projected, states, training=False):
        z = projected + self.recurrent_product(states[0])
        h = ops.clip(z, 0, 10)
        return h, [h]


SLIGHTLY = [Clipped, Leaking, WithoutGradient, OtherOutput, ThirdState]
SLIGHTLY += [InTraining, InputsInTraining, ClippedInputs, SmallActivation]


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("cls", SLIGHTLY)
def test_a_step_that_differs_slightly_does_not_run_natively(
    cls, dtype, monkeypatch, runs
):
    """Not even where a trial on a few numbers near 1 would find the same."""
    if dtype == "float32":
        monkeypatch.setattr(derived, "can_run", lambda *_: False)
    layer = layers.RNN(cls(H, dtype=dtype), return_sequences=True, dtype=dtype)
    layer(X)  # a trial, which may find the same in inference
    runs.clear()
    layer(X, training=True)
    assert runs in ([], [layer.cell.native])  # the trial alone
    runs.clear()
    layer(X, training=True)
    assert not runs


@pytest.mark.parametrize(
    ("name", "steps", "learns", "wanted"),
    [
        ("lstm", 7, True, True),
        ("lstm", native.LONG, True, True),
        ("lstm", native.LONG + 1, True, False),
        ("lstm", native.LONG + 1, False, True),
        ("gru", 7, True, False),
        ("elman tanh", 7, False, False),
    ],
)
def test_native_kernels_run_where_they_are_faster(name, steps, learns, wanted, runs):
    pytest.importorskip("llvmlite")
    layer, _ = pair(name)
    x = torch.zeros(2, steps, D)
    with torch.set_grad_enabled(learns):
        layer(x)
    assert bool(runs) is wanted


@pytest.mark.parametrize("dtype", ["float64", "mixed_bfloat16"])
def test_other_types(dtype, runs):
    fast, slow = pair("lstm", dtype=dtype)
    tolerance = 1e-5 if dtype == "float64" else 0.05
    torch.testing.assert_close(fast(X), slow(X), atol=tolerance, rtol=tolerance)
    assert runs == ["lstm", "lstm"]  # the trial, and the call


def test_dropout(runs):
    layer, _ = pair("lstm", recurrent_dropout=0.3)
    layer(X, training=True)
    assert not runs
    layer(X)
    assert runs


def test_a_mask_runs_derived(runs):
    layer, _ = pair("lstm")
    layer(X, mask=np.ones((B, T), bool))
    assert not runs


@pytest.mark.parametrize("name", LAYERS)
def test_transformed_by_vmap_the_steps_run(name, runs):
    layer, steps = pair(name)
    both = torch.tensor(np.stack([X, 2 * X]))
    found = torch.vmap(layer)(both)
    for y, x in zip(found, both, strict=True):
        torch.testing.assert_close(y, steps(x), atol=1e-5, rtol=1e-5)
    assert not runs

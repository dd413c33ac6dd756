"""The LSTM on PyTorch: all ways it multiplies and computes, and long sequences."""

import numpy as np
import pytest

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("PyTorch's own way", allow_module_level=True)

import torch

import kerasseq
from kerasseq.kernels import torch_lstm, torch_native, torch_product
from kerasseq.kernels.equations import Equation
from kerasseq.kernels.torch_recurrence import _without_denormals
from tests.kernels.test_recurrence import B, T, assert_same, case, dropout_for

MASK = np.array([[0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 1, 1], [0, 1, 0]], bool)
DROPOUTS = {"none": None, "one": lambda e: dropout_for(e)[0], "each": dropout_for}


def by_mkl(monkeypatch):
    monkeypatch.setattr(torch_product, "on_intel", lambda: True)


def by_onednn(monkeypatch):
    monkeypatch.setattr(torch_product, "on_intel", lambda: False)


def by_mkl_and_large(monkeypatch):
    by_mkl(monkeypatch)
    monkeypatch.setattr(torch_product, "LARGE", 1)


def without_numpy(monkeypatch):
    by_mkl(monkeypatch)
    monkeypatch.setattr(torch_lstm, "library_for", lambda like: (torch, lambda a: a))


@pytest.mark.parametrize("dropout", DROPOUTS)
@pytest.mark.parametrize("peephole", [None, "diagonal"])
@pytest.mark.parametrize("way", [by_mkl, by_onednn, by_mkl_and_large, without_numpy])
def test_all_ways_give_the_equation(way, peephole, dropout, monkeypatch):
    way(monkeypatch)
    equation = Equation("lstm", "tanh", peephole=peephole)
    masks = DROPOUTS[dropout] and DROPOUTS[dropout](equation)
    for mask in (None, MASK):
        assert_same(equation, case(equation), mask, masks)


def test_oneDNN_multiplies_where_it_is_the_faster_one(monkeypatch):
    U = torch.ones(4, 3, 3)
    for way, at_once in ((by_mkl, False), (by_onednn, True), (by_mkl_and_large, True)):
        way(monkeypatch)
        product = torch_product.GateProduct(U, None, B)
        assert product.at_once is at_once
        assert not torch_product.GateProduct(U, torch.ones(B, 3), B).at_once


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("backwards", [True, False])
@pytest.mark.parametrize("way", [by_mkl, by_onednn])
def test_layer_is_the_one_that_goes_step_by_step(way, backwards, use_bias, monkeypatch):
    way(monkeypatch)
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(B, 11, 5)).astype("float32"), requires_grad=True)
    options = {
        "use_bias": use_bias,
        "return_state": True,
        "go_backwards": backwards,
        "bias_initializer": "normal",
        "peephole_initializer": "normal",
    }
    fast = kerasseq.layers.PeepholeLSTM(7, **options)
    slow = kerasseq.layers.PeepholeLSTM(7, unroll=True, **options)
    fast.build(x.shape)
    slow.build(x.shape)
    slow.set_weights(fast.get_weights())

    def run(layer):
        outputs = layer(x)
        loss = sum((k + 1) * (y**2).sum() for k, y in enumerate(outputs))
        weights = [v.value for v in layer.trainable_variables]
        return [*outputs, *torch.autograd.grad(loss, [x, *weights])]

    for a, b in zip(run(fast), run(slow), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), atol=1e-5, rtol=1e-4)


def test_inputs_stay_as_they_were():
    layer = kerasseq.layers.PeepholeLSTM(7)
    x = torch.randn(B, T, 5)
    kept = x.clone()
    first = layer(x)
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_array_equal(layer(x).detach(), first.detach())


def test_exported_program_computes_the_same():
    layer = kerasseq.layers.PeepholeLSTM(7)
    x = torch.randn(B, T, 5)
    wanted = layer(x)
    program = torch.export.export(torch.nn.Sequential(layer), (x,)).module()
    np.testing.assert_allclose(program(x).detach(), wanted.detach(), atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler about itself
def test_compiled_layer_computes_the_same():
    layer = kerasseq.layers.PeepholeLSTM(7, peephole_initializer="normal")
    x = torch.randn(B, 3, 5)
    wanted = layer(x)
    compiled = torch.compile(layer, backend="aot_eager")
    weights = [v.value for v in layer.trainable_variables]
    for _ in range(2):
        found = compiled(x)
        np.testing.assert_allclose(found.detach(), wanted.detach(), atol=1e-6)
        gradients = [
            torch.autograd.grad((y**2).sum(), weights, retain_graph=True)
            for y in (found, wanted)
        ]
        for a, b in zip(*gradients, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


def test_gradients_that_vanish_are_zero_and_no_denormals():
    tiny = torch.finfo(torch.float32).tiny
    d = torch.tensor([0.0, tiny, -tiny / 4, 1e-20, -1.0, float("inf"), float("nan")])
    wanted = [0, 0, 0, 1e-20, -1, float("inf"), float("nan")]
    np.testing.assert_array_equal(_without_denormals(d), np.float32(wanted))
    half = torch.tensor([torch.finfo(torch.float16).tiny / 4], dtype=torch.float16)
    np.testing.assert_array_equal(_without_denormals(half), half)
    double = torch.tensor([1e-300, 1e-305], dtype=torch.float64)
    np.testing.assert_array_equal(_without_denormals(double), [1e-300, 0])


def test_gradients_vanish_over_a_thousand_steps():
    layer = kerasseq.layers.PeepholeLSTM(7, unit_forget_bias=False)
    x = torch.randn(B, 1009, 5, requires_grad=True)
    (dx,) = torch.autograd.grad(layer(x).sum(), [x])
    size = dx.abs().amax((0, 2))
    assert size[-1] > 1e-3
    assert size[0] == 0
    assert not ((size > 0) & (size < torch.finfo(torch.float32).tiny))[:512].any()


@pytest.mark.parametrize(
    ("steps", "units", "learns", "intel", "native"),
    [
        (5, 7, True, True, True),
        (torch_native.LONG + 1, 7, True, True, False),
        (torch_native.LONG + 1, 7, False, True, True),
        (5, 512, True, True, False),
        (5, 512, True, False, True),
        (5, 512, False, True, True),
    ],
)
def test_pytorch_has_the_lstm_where_it_is_faster(
    steps, units, learns, intel, native, monkeypatch
):
    monkeypatch.setattr(torch_native, "on_intel", lambda: intel)
    x = torch.zeros(steps, 1, 1)
    with torch.set_grad_enabled(learns):
        found = torch_native._faster_on_cpu("lstm", x, 4 * units**2)
    assert found is native

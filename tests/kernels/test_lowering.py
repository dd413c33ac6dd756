"""What each operation of Keras is made of, and its derivative: those of the backend."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels
from kerasseq.kernels.derived.derive import derive
from kerasseq.kernels.derived.evaluate import evaluate, leaves
from kerasseq.kernels.derived.graph import NotDerivable
from kerasseq.kernels.derived.lowering import _FORMULAS, _LOWERED

pytestmark = pytest.mark.everywhere("Keras' operations differ between backends")

B, H = 11, 7
a = keras.activations
ACTIVATIONS = {
    **{name: getattr(a, name) for name in ("relu", "relu6", "elu", "selu", "celu")},
    **{name: getattr(a, name) for name in ("silu", "gelu", "softplus", "softsign")},
    **{name: getattr(a, name) for name in ("tanh", "sigmoid", "exponential")},
    **{name: getattr(a, name) for name in ("leaky_relu", "log_sigmoid", "squareplus")},
    **{name: getattr(a, name) for name in ("hard_sigmoid", "hard_tanh", "tanh_shrink")},
    **{name: getattr(a, name) for name in ("soft_shrink", "hard_shrink", "softmax")},
    **{name: getattr(a, name) for name in ("sparse_sigmoid", "log_softmax", "linear")},
    "hard_silu": ops.hard_silu,
    "gelu tanh": lambda x: a.gelu(x, approximate=True),
    "relu of all options": lambda x: a.relu(x, 0.1, 0.5, 0.2),
    "threshold": lambda x: ops.threshold(x, 0.3, 0.1),
    "relu of ops": ops.relu,
    "leaky relu of ops": lambda x: ops.leaky_relu(x, 0.3),
}
OTHERS = {
    "sums": lambda x: x - ops.sum(x, axis=-1, keepdims=True) / 7,
    "mean": lambda x: x * ops.mean(x, axis=-1, keepdims=True),
    "max": lambda x: x + ops.max(x, axis=-1, keepdims=True),
    "var": lambda x: x * ops.var(x, axis=-1, keepdims=True),
    "std": lambda x: x / ops.std(x, axis=-1, keepdims=True),
    "layer norm": lambda x: ops.layer_normalization(x, epsilon=0.01),
    "rms norm": lambda x: ops.rms_normalization(x, epsilon=0.01),
    "clip": lambda x: ops.clip(x, -0.4, 0.6),
    "powers": lambda x: x**3 + ops.abs(x) ** 1.5 + ops.square(x),
    "extremes": lambda x: ops.maximum(x, ops.sin(x)) - ops.minimum(x, 0.2),
    "logarithms": lambda x: ops.log(1.1 + ops.abs(x)) + ops.log1p(ops.abs(x)),
    "exponentials": lambda x: ops.exp(-x) + ops.expm1(x) + ops.exp2(x),
    "roots": lambda x: ops.sqrt(1 + x * x) * ops.rsqrt(2 + x * x),
    "waves": lambda x: ops.sin(x) * ops.cos(x) + ops.erf(x),
    "quotients": lambda x: x / (2 + x * x) - ops.reciprocal(3 + ops.sign(x) * x),
    "choices": lambda x: ops.where((x > 0.1) & (x <= 0.9), x, -x),
    "not": lambda x: ops.where(ops.logical_not((x < -1) | (x >= 1)), x, 2 * x),
    "equal": lambda x: ops.where(ops.equal(x, 0) | ops.not_equal(x, x), 1.0, x),
    "stop": lambda x: x * ops.stop_gradient(x),
    "parts": lambda x: ops.concatenate([x[:, 3:], x[..., :3]], axis=-1),
    "split": lambda x: ops.concatenate(ops.split(x, [2, 5], axis=-1)[::-1], axis=1),
    "ones": lambda x: x * (ops.ones_like(x) + ops.zeros_like(x)),
    "cast": lambda x: x * ops.cast(x > 0, x.dtype) + ops.convert_to_tensor(x),
}


class Cell(keras.layers.Layer):
    """Its state goes through one operation."""

    def __init__(self, function):
        super().__init__()
        self.function, self.state_size = function, H

    def step(self, x, states):
        h = self.function(x + states[0])
        return h, [h]


def one_step(function, x, h, d):
    """The state after a step and the gradients of x and h, from the graph."""
    found = derive(Cell(function), Cell.step_of, width=H, states=[H], whole=True)
    back = found.backward
    values = [*found.new_states, back.input, *back.states]
    known = leaves(values, x, [h], [], gradients=[d])
    return evaluate(values, known, x)


Cell.step_of = staticmethod(lambda cell, x, states: cell.step(x, states))


@pytest.mark.parametrize("name", [*ACTIVATIONS, *OTHERS])
def test_values_and_gradients_are_those_of_the_backend(name):
    function = {**ACTIVATIONS, **OTHERS}[name]
    rng = np.random.default_rng(3)
    x, h, d = (
        ops.convert_to_tensor(rng.normal(size=(B, H)).astype("float32")) for _ in "xhd"
    )
    found = one_step(function, x, h, d)
    d_x = kernels.gradients(lambda x: ops.sum(d * function(x + h)), x)
    for got, wanted in zip(found, [function(x + h), d_x, d_x], strict=True):
        got, wanted = map(ops.convert_to_numpy, (got, wanted))
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.once("the table is one for all backends")
def test_every_formula_is_tested(monkeypatch):
    met = set()
    for name in _LOWERED:
        lowered = _LOWERED[name]

        def noting(*args, name=name, lowered=lowered, **kwargs):
            met.add(name)
            return lowered(*args, **kwargs)

        monkeypatch.setitem(_LOWERED, name, noting)
    for function in (*ACTIVATIONS.values(), *OTHERS.values()):
        derive(Cell(function), Cell.step_of, width=H, states=[H], whole=True)
    assert not _FORMULAS.keys() - met


@pytest.mark.once("messages")
@pytest.mark.parametrize("name", ["mish", "hard_silu", "sparsemax"])
def test_activations_that_take_no_symbolic_tensors(name):
    with pytest.raises(NotDerivable, match="symbolic"):
        one_step(getattr(a, name), *3 * [ops.ones((B, H))])

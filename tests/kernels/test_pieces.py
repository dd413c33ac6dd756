"""Recurrences in pieces of the sequence."""

import importlib

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers
from tests.layer_checks import compiled_on_jax

pytestmark = pytest.mark.everywhere("a loop of the backend around other loops")

SCAN = importlib.import_module(
    "kerasseq.kernels.scan"
)  # `kernels.scan` is its function
X = np.random.default_rng(0).normal(size=(2, 11, 5)).astype("float32")
MASK = np.arange(11) < np.array([[11], [7]])
BUILDERS = {
    "s4d": lambda: layers.S4D(4, time_step_min=0.05),
    "mamba": lambda: layers.Mamba(3, time_step_min=0.1, time_step_max=1.0),
}


@pytest.mark.everywhere("a loop of the backend around other loops", cases=1)
@pytest.mark.parametrize("name", BUILDERS)
def test_values_and_gradients_are_those_of_the_whole(name, monkeypatch):
    layer = BUILDERS[name]()
    layer.build((None, None, 5))

    def outputs(x):
        y, states = layer.advance(x, mask=MASK)
        return [ops.sum(y**2), *map(ops.sum, states)]

    def both():
        slopes = compiled_on_jax(
            lambda x: kernels.gradients(lambda x: sum(outputs(x)), x)
        )
        values = kernels.compiled(outputs)(X)
        return [ops.convert_to_numpy(v) for v in (*values, slopes(X))]

    whole = both()
    monkeypatch.setattr(SCAN, "PIECE", 3)
    for found, expected in zip(both(), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_compiled_training_step(monkeypatch):
    """Also where the batch size is not known."""
    monkeypatch.setattr(SCAN, "PIECE", 3)
    model = keras.Sequential([keras.Input((11, 5)), BUILDERS["mamba"]()])
    jit = keras.backend.backend() != "torch"
    model.compile("sgd", "mse", jit_compile=jit)
    before = ops.convert_to_numpy(model(X))
    model.fit(X, X, verbose=0)
    assert np.abs(ops.convert_to_numpy(model(X)) - before).max() > 1e-6

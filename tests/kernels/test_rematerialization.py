"""What is computed again in the backward pass, on TensorFlow without a private name."""

import sys

import keras
import numpy as np
import pytest

from kerasseq import kernels

pytestmark = pytest.mark.everywhere("each backend has its own")
PRIVATE = "tensorflow.python.eager.record.stop_recording"


@pytest.mark.parametrize("mode", kernels.MODES)
@pytest.mark.parametrize("known", [True, False])
def test_gradients_are_those_of_the_function(mode, known, monkeypatch):
    if not known:
        monkeypatch.setitem(sys.modules, PRIVATE.rpartition(".")[0], None)
    w = np.arange(15.0, dtype="float32").reshape(5, 3) / 7
    x = np.ones((2, 5), "float32") / 3

    def gelu_of_product(inputs, weights):
        product = kernels.matmul(inputs[0], weights[0])
        return [keras.ops.gelu(product)], []

    def total(function):
        def value(given):
            (y,), _ = function([given["x"]], [given["w"]])
            return keras.ops.sum(y**2)

        return kernels.gradients(value, {"x": x, "w": w})

    found = total(kernels.rematerialized(gelu_of_product, mode))
    for name, expected in total(gelu_of_product).items():
        values = map(keras.ops.convert_to_numpy, (found[name], expected))
        np.testing.assert_allclose(*values, rtol=1e-6)

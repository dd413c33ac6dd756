"""Convolution of each channel: its sum in NumPy, also compiled, and without rows."""

import keras
import numpy as np
import pytest

from kerasseq import kernels

pytestmark = pytest.mark.everywhere("another computation on each backend")

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("rows", [2, 0])
def test_equals_the_sum_over_the_taps(rows, jit):
    x = keras.ops.array(RNG.normal(size=(rows, 7, 5)), "float32")
    kernel = keras.ops.array(RNG.normal(size=(3, 5)), "float32")
    expected = sum(x[:, j : j + 5] * kernel[j] for j in range(3))

    def run(x):
        return kernels.depthwise_convolution(x, kernel)

    function = kernels.compiled(run, jit=jit) if jit else run
    y = keras.ops.convert_to_numpy(function(x))
    assert y.shape == (rows, 5, 5)
    np.testing.assert_allclose(y, keras.ops.convert_to_numpy(expected), atol=1e-6)

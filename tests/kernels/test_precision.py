import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels
from tests.layer_checks import float64_is_there
from tests.processes import run_python

pytestmark = pytest.mark.everywhere("kernels differ between backends")

A = np.random.default_rng(0).normal(size=(2, 3, 5))
B = np.random.default_rng(1).normal(size=(5, 7))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_other_types_are_left_to_keras(dtype):
    a, b = ops.cast(A, dtype), ops.cast(B, dtype)
    for actual, expected in (
        (kernels.matmul(a, b), ops.matmul(a, b)),
        (kernels.precise(keras.activations.tanh)(a), ops.tanh(a)),
    ):
        assert actual.dtype == expected.dtype
        actual, expected = (
            ops.convert_to_numpy(ops.cast(x, "float32")) for x in (actual, expected)
        )
        np.testing.assert_array_equal(actual, expected)


def check_float64_in_full():
    a, b = ops.convert_to_tensor(A), ops.convert_to_tensor(B)
    product = ops.convert_to_numpy(kernels.matmul(a, b))
    assert product.dtype == "float64"
    np.testing.assert_allclose(product, A @ B, rtol=0, atol=1e-14)
    tanh = kernels.precise(keras.activations.tanh)
    wide = np.array([-800.0, -3.0, -1e-9, 0.0, 1e-9, 0.3, 3.0, 800.0])
    actual = ops.convert_to_numpy(tanh(ops.convert_to_tensor(wide)))
    assert actual.dtype == "float64"
    np.testing.assert_allclose(actual, np.tanh(wide), rtol=0, atol=1e-15)


def test_float64_is_computed_in_full():
    if float64_is_there():
        check_float64_in_full()
    else:
        run_python(
            "from tests.kernels.test_precision import check_float64_in_full as check\n"
            "check()",
            JAX_ENABLE_X64="1",
        )


def test_activations_other_than_tanh_are_themselves():
    for name in ("relu", "sigmoid", "softmax", "linear"):
        function = keras.activations.get(name)
        assert kernels.precise(function) is function

"""Functions that are compiled: weights, shapes, structures."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels


def test_weights_are_read_at_each_call():
    layer = keras.layers.Dense(3, kernel_initializer="ones")
    layer.build((None, 2))
    call = kernels.compiled(lambda x: {"y": layer(x["x"])})
    x = {"x": ops.ones((5, 2))}
    np.testing.assert_array_equal(
        ops.convert_to_numpy(call(x)["y"]), np.full((5, 3), 2)
    )
    layer.kernel.assign(np.full((2, 3), 7))
    np.testing.assert_array_equal(
        ops.convert_to_numpy(call(x)["y"]), np.full((5, 3), 14)
    )


def test_a_weight_that_only_another_shape_needs_is_read_at_each_call():
    layers = [keras.layers.Dense(3, kernel_initializer="ones") for _ in range(2)]
    for layer in layers:
        layer.build((None, 2))
    call = kernels.compiled(lambda x: layers[x.shape[0] > 5](x))
    assert float(call(ops.ones((5, 2)))[0, 0]) == 2
    assert float(call(ops.ones((7, 2)))[0, 0]) == 2
    layers[1].kernel.assign(np.full((2, 3), 11))
    assert float(call(ops.ones((7, 2)))[0, 0]) == 22


def test_specs_of_outputs():
    def function(x, state):
        return ops.matmul(x, ops.ones((2, 3))), {"n": state["n"] + 1}

    x, state = ops.ones((5, 2)), {"n": ops.ones((7,), "int32")}
    y, after = kernels.output_specs(function, x, state)
    assert tuple(y.shape) == (5, 3)
    assert tuple(after["n"].shape) == (7,)
    assert "int32" in str(after["n"].dtype)


@pytest.mark.parametrize("k", [1, 19, 53])
def test_equal_values_come_in_order(k):
    x = np.tile([1.0, 3.0, 2.0], 71)[:211].astype("float32")
    values, indices = kernels.top_k(ops.convert_to_tensor(np.stack([x, -x])), k)
    for row, signed in enumerate((x, -x)):
        expected = np.argsort(-signed, kind="stable")[:k]
        np.testing.assert_array_equal(ops.convert_to_numpy(indices)[row], expected)
        np.testing.assert_array_equal(
            ops.convert_to_numpy(values)[row], signed[expected]
        )
    assert keras.backend.standardize_dtype(indices.dtype) == "int32"

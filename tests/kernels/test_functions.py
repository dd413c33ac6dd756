"""Functions that are compiled: weights, shapes, structures."""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import kernels

pytestmark = pytest.mark.everywhere("kernels differ between backends")


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


CALLS = 12  # more than PyTorch makes before it records


def test_called_often_it_gives_the_same():
    layer = keras.layers.Dense(3)
    layer.build((None, 2))
    rng = np.random.default_rng(0)

    def function(state, x):
        y = layer(x) + state["b"][0][:, None]
        return {"y": y, "state": {"b": [state["b"][0] + 1], "a": state["a"]}}

    call = kernels.compiled(function)
    state = {"b": [np.zeros(5, "float32")], "a": np.arange(5, dtype="int32")}
    for n in range(CALLS):
        layer.kernel.assign(rng.normal(size=(2, 3)))
        x = rng.normal(size=(5, 2)).astype("float32")
        found = keras.tree.map_structure(ops.convert_to_numpy, call(state, x))
        y = ops.convert_to_numpy(layer(x)) + n
        np.testing.assert_allclose(found["y"], y, rtol=1e-5, atol=1e-5)
        state = found["state"]
    assert found["state"]["b"][0].tolist() == [CALLS] * 5
    assert found["state"]["a"].tolist() == list(range(5))
    assert ops.shape(call(state, np.ones((1, 2), "float32"))["y"]) == (5, 3)


@pytest.mark.parametrize("kind", ["ElmanRNN", "LSTM", "PeepholeLSTM", "GRU"])
@pytest.mark.parametrize("steps", [1, 7])
def test_recurrent_layers_called_often(kind, steps):
    inputs, mask = keras.Input((steps, 3)), keras.Input((steps,), dtype="bool")
    layer = getattr(kerasseq.layers, kind)(5, return_sequences=True)
    model = keras.Model([inputs, mask], layer(inputs, mask=mask))
    call, rng = kernels.inference(model), np.random.default_rng(0)
    for _ in range(CALLS):
        for weight in layer.weights:
            weight.assign(rng.normal(size=weight.shape))
        x = rng.normal(size=(2, steps, 3)).astype("float32")
        real = rng.uniform(size=(2, steps)) > 0.3
        found, wanted = call([x, real]), model([x, real])
        np.testing.assert_allclose(
            *map(ops.convert_to_numpy, (found, wanted)), rtol=1e-5, atol=1e-5
        )


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

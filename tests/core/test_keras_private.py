"""What needs a private name of Keras works without it, too."""

import keras
import numpy as np
import pytest

from kerasseq import layers, models, tracing
from kerasseq.core import keras_private, sublayers
from kerasseq.tracing import listeners

pytestmark = pytest.mark.once("names of Keras are the same on each backend")


class InContainers(keras.layers.Layer):
    """A layer with others in a dictionary and in lists, one of them twice."""

    def __init__(self):
        super().__init__()
        first, second, third = (keras.layers.Dense(units) for units in (2, 3, 5))
        self.parts = {"first": first, "others": [second, (third, first)]}
        self.last = second

    def build(self, shape):
        for layer in (*self.parts["others"][1], self.last):
            layer.build(shape)

    def call(self, x):
        return self.last(x)


def containers():
    return keras.Sequential([keras.Input((6,)), InContainers()])


def encoder():
    return keras.Sequential([keras.Input((7, 6)), layers.TransformerEncoder(7, 2)])


def gpt():
    sizes = {"num_layers": 2, "num_heads": 1, "hidden_dim": 6}
    return models.GPT(vocabulary_size=7, max_sequence_length=8, **sizes)


def recurrent():
    both = keras.layers.Bidirectional(layers.LSTM(3, return_sequences=True))
    cells = [layers.GRUCell(3), keras.layers.LSTMCell(5)]
    return keras.Sequential([keras.Input((7, 6)), both, layers.RNN(cells)])


def wrapped():
    inner = keras.layers.TimeDistributed(layers.TransformerDecoder(7, 2))
    return keras.Sequential([keras.Input((5, 7, 6)), inner])


@pytest.mark.everywhere("each backend keeps the attributes of layers in its own way")
@pytest.mark.parametrize("build", [containers, encoder, gpt, recurrent, wrapped])
def test_children_are_those_that_keras_keeps(build, monkeypatch):
    model = build()
    kept = _without_inputs(sublayers.flatten(model))
    paths, settings = listeners.located(model), sublayers.settings_of(model)
    assert len(kept) > 2
    children = {id(one): keras_private.children(one) for one in kept[1:]}
    monkeypatch.delattr(keras.Layer, "_flatten_layers")
    assert _without_inputs(sublayers.flatten(model)) == kept
    assert listeners.located(model) == paths
    assert sublayers.settings_of(model) == settings
    for one in kept[1:]:  # not found in the list of Keras alone
        shown = {name: part for name, part in vars(one).items() if name != "_layers"}
        found = keras_private._layers_in(shown)
        assert {*map(id, found)} == {*map(id, children[id(one)])}


def _without_inputs(found):
    return [one for one in found if not isinstance(one, keras.layers.InputLayer)]


def test_settings_and_traces_need_no_private_name(monkeypatch):
    both = keras.layers.Bidirectional(layers.GRU(3, name="gru"), name="both")
    model = keras.Sequential([keras.Input((7, 5)), both])
    x = np.ones((2, 7, 5), "float32")
    plain = keras.ops.convert_to_numpy(model(x))
    model.layers[0].forward_layer.cell.trainable = False
    settings = sublayers.settings_of(model)
    monkeypatch.delattr(keras.Layer, "_flatten_layers")
    assert sublayers.settings_of(model) == settings != {}
    with tracing.trace(model) as inside:
        y = model(x)
    assert "both/forward_gru/update_gate" in inside
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(y), plain)


@pytest.mark.parametrize("name", ["_keras_history", "_inbound_nodes"])
def test_without_the_history_of_tensors_the_steps_run_one_by_one(name, monkeypatch):
    x = np.random.default_rng(0).normal(size=(3, 7, 5)).astype("float32")
    layer = layers.GRU(2, return_sequences=True)
    expected = keras.ops.convert_to_numpy(layer(x))
    layer.cell.activation = keras.ops.tanh  # it is derived again
    monkeypatch.setattr(
        keras_private,
        "getattr",
        lambda of, n, *other: other[0] if n == name else getattr(of, n, *other),
        raising=False,
    )
    assert "Keras does not say" in layer.explain().reason
    found = keras.ops.convert_to_numpy(layer(x))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_without_the_scope_around_it_a_call_is_not_for_shapes(monkeypatch):
    with keras.SymbolicScope():
        assert keras_private.infers_shapes()
        monkeypatch.setattr(
            keras_private,
            "getattr",
            lambda of, name, *other: other[0],
            raising=False,
        )
        assert not keras_private.infers_shapes()


def test_a_dense_layer_loses_its_kernel(monkeypatch):
    """Without `"_kernel"` it stays."""
    layer = keras.layers.Dense(3)
    layer.build((None, 5))
    keras_private.remove_kernel(layer)
    assert [w.name for w in layer.weights] == ["bias"] and layer.kernel is None
    monkeypatch.delattr(keras.layers.Dense, "kernel")
    keras_private.remove_kernel(layer)
    assert len(layer.weights) == 1


def test_a_built_layer_gets_parts_and_loses_them():
    """Without `"_tracker"` Keras refuses new parts, and old ones stay."""
    layer = keras.layers.Dense(3)
    layer.build((None, 5))
    with pytest.raises(ValueError, match="already built"):
        layer.dropout = keras.layers.Dropout(0.5)
    with keras_private.open_to_parts(layer):
        layer.dropout = keras.layers.Dropout(0.5)
    assert len(layer.variables) == 3  # the state of the seed
    keras_private.remove_part(layer, layer.dropout)
    assert len(layer.variables) == 2
    with pytest.raises(ValueError, match="already built"):
        layer.other = keras.layers.Dropout(0.5)
    bare = InContainers()
    tracker = vars(bare).pop("_tracker")
    with keras_private.open_to_parts(bare):
        keras_private.remove_part(bare, bare.last)
    vars(bare)["_tracker"] = tracker
    assert bare.last in sublayers.flatten(bare)


@pytest.mark.everywhere("each backend keeps the attributes of layers in its own way")
@pytest.mark.parametrize("known", [True, False])
def test_a_built_layer_loses_a_weight(known, monkeypatch):
    """Without `"_untrack_variable"` Keras' own `del` takes it out."""
    layer = keras.layers.Dense(3)
    layer.build((None, 5))
    if not known:
        monkeypatch.setattr(
            keras_private, "getattr", lambda of, name, other: other, raising=False
        )
    keras_private.remove_weight(layer, "bias")
    assert layer.weights == layer.trainable_weights == [layer.kernel]
    assert not hasattr(layer, "bias")


def test_without_the_raw_value_of_a_variable_it_is_rounded(monkeypatch):
    """Without `"_value"` mixed precision casts it."""
    dense = keras.layers.Dense(2, dtype="mixed_bfloat16")
    dense.build((None, 3))
    kernel, found = dense.kernel, []
    read = keras_private.raw_value
    dense.call = lambda x: found.append(read(kernel).dtype) or x
    dense(np.ones((1, 3), "float32"))
    monkeypatch.setattr(keras_private, "getattr", lambda *_: None, raising=False)
    dense(np.ones((1, 3), "float32"))
    dtypes = [keras.backend.standardize_dtype(dtype) for dtype in found]
    assert dtypes == ["float32", "bfloat16"]

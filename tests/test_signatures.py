"""Compares the arguments of layers with those of Keras and KerasHub."""

import inspect
import warnings

import keras
import pytest

from kerasseq import layers

pytestmark = pytest.mark.once("signatures")

# Name in kerasseq, name in Keras, and defaults that differ.
SAME = [
    ("ElmanRNN", "SimpleRNN", {"activation": "relu"}),
    ("SimpleRNN", "SimpleRNN", {}),
    ("ElmanCell", "SimpleRNNCell", {"activation": "relu"}),
    ("LSTM", "LSTM", {}),
    ("LSTMCell", "LSTMCell", {}),
    ("GRU", "GRU", {}),
    ("GRUCell", "GRUCell", {}),
    ("MultiHeadAttention", "MultiHeadAttention", {}),
    ("RNN", "RNN", {}),
]


@pytest.mark.parametrize(("name", "keras_name", "differ"), SAME)
@pytest.mark.parametrize("function", ["__init__", "call"])
def test_same_arguments_in_the_same_order(name, keras_name, differ, function):
    actual = parameters(getattr(layers, name), function)
    expected = parameters(getattr(keras.layers, keras_name), function)
    compare(actual, expected, function, differ)


def compare(actual, expected, function, differ=()):
    """Expected parameters come first, and additional ones are keyword-only."""
    for before, (name, kind, default) in zip(actual, expected, strict=False):
        if name in differ and function == "__init__":
            default = differ[name]
        name = "inputs" if name == "sequence" else name  # in SimpleRNNCell only
        assert before == (name, kind, default)
    assert len(actual) >= len(expected)
    added = actual[len(expected) :]
    assert {kind for _, kind, _ in added} <= {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("function", ["__init__", "call"])
@pytest.mark.parametrize(
    "name",
    [
        "SinePositionEncoding",
        "PositionEmbedding",
        "TokenAndPositionEmbedding",
        "RotaryEmbedding",
        "AlibiBias",
        "TransformerEncoder",
        "TransformerDecoder",
    ],
)
def test_same_arguments_as_in_keras_hub(name, function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras_hub = pytest.importorskip("keras_hub")
    actual = parameters(getattr(layers, name), function)
    expected = parameters(getattr(keras_hub.layers, name), function)
    compare(actual, expected, function)


@pytest.mark.parametrize("name", ["PeepholeLSTM", "GatedRNN"])
def test_arguments_of_layers_without_a_peer(name):
    """Layers that Keras lacks have the arguments of their base class."""
    cls = getattr(layers, name)
    base = layers.LSTM if name == "PeepholeLSTM" else layers.ElmanRNN
    arguments = {n: d for n, _, d in parameters(base, "__init__") if n != "units"}
    del arguments["activation"]
    arguments |= {"peephole": "full"} if name == "PeepholeLSTM" else {}
    config = cls(3, **arguments).get_config()
    assert arguments.keys() <= config.keys()


@pytest.mark.parametrize(("name", "keras_name", "_"), SAME[:-2])
def test_names_and_order_of_weights(name, keras_name, _):
    weights = []
    for layer in (getattr(layers, name)(3), getattr(keras.layers, keras_name)(3)):
        layer.build((2, 5) if name.endswith("Cell") else (2, 7, 5))
        weights.append([(w.name, w.shape) for w in layer.weights])
    assert weights[0] == weights[1]


def parameters(cls, function):
    """Returns name, kind and default of parameters except `self` and `**kwargs`."""
    found = inspect.signature(getattr(cls, function)).parameters.values()
    return [
        (p.name, p.kind, p.default)
        for p in found
        if p.name != "self" and p.kind != p.VAR_KEYWORD
    ]

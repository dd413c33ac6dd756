"""What a user wrote with Keras' layers runs here by changing the import."""

import inspect
import warnings

import keras
import pytest

from kerasseq import layers

pytestmark = pytest.mark.once("signatures: no backend is asked")

# Ours, Keras', and the defaults in which ours differ.
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


@pytest.mark.parametrize(("ours", "theirs", "differ"), SAME)
@pytest.mark.parametrize("function", ["__init__", "call"])
def test_same_arguments_in_the_same_order(ours, theirs, differ, function):
    mine = parameters(getattr(layers, ours), function)
    wanted = parameters(getattr(keras.layers, theirs), function)
    compare(mine, wanted, function, differ)


def compare(mine, wanted, function, differ=()):
    """All that is wanted comes first, and what is added by keyword only."""
    for before, (name, kind, default) in zip(mine, wanted, strict=False):
        if name in differ and function == "__init__":
            default = differ[name]
        name = "inputs" if name == "sequence" else name  # SimpleRNNCell stands alone
        assert before == (name, kind, default)
    assert len(mine) >= len(wanted)
    added = mine[len(wanted) :]
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
    mine = parameters(getattr(layers, name), function)
    wanted = parameters(getattr(keras_hub.layers, name), function)
    compare(mine, wanted, function)


@pytest.mark.parametrize("name", ["PeepholeLSTM", "GatedRNN"])
def test_relatives_take_what_their_layer_takes(name):
    """They have no peer in Keras, but the same arguments by the same names."""
    cls = getattr(layers, name)
    base = layers.LSTM if name == "PeepholeLSTM" else layers.ElmanRNN
    arguments = {n: d for n, _, d in parameters(base, "__init__") if n != "units"}
    del arguments["activation"]
    arguments |= {"peephole": "full"} if name == "PeepholeLSTM" else {}
    config = cls(3, **arguments).get_config()
    assert arguments.keys() <= config.keys()


@pytest.mark.parametrize(("ours", "theirs", "_"), SAME[:-2])
def test_weights_have_the_names_and_order_of_keras(ours, theirs, _):
    weights = []
    for layer in (getattr(layers, ours)(3), getattr(keras.layers, theirs)(3)):
        layer.build((2, 5) if ours.endswith("Cell") else (2, 7, 5))
        weights.append([(w.name, w.shape) for w in layer.weights])
    assert weights[0] == weights[1]


def parameters(cls, function):
    """Name, kind and default of each argument, without `self` and `**kwargs`."""
    found = inspect.signature(getattr(cls, function)).parameters.values()
    return [
        (p.name, p.kind, p.default)
        for p in found
        if p.name != "self" and p.kind != p.VAR_KEYWORD
    ]

"""Tests of errors for wrong shapes and dtypes of inputs and masks."""

import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from tests.layer_checks import assert_close
from tests.on_itself import Added, Asked
from tests.test_layers_everywhere import CASES, SEQUENCE

pytestmark = pytest.mark.once("error messages")

X = np.ones((2, 3, 5), "float32")
Y = np.ones((2, 7, 5), "float32")
RECURRENT = ["ElmanRNN", "GatedRNN", "LSTM", "PeepholeLSTM", "GRU", "MinGRU"]


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("name", RECURRENT)
def test_mask_of_wrong_shape(name, sequences):
    layer = getattr(layers, name)(4, return_sequences=sequences)
    for shape, words in {
        (2, 7): r"= \(2, 3\), received shape \(2, 7\): its time is 7 instead of 3",
        (2, 1): "its time is 1 instead of 3",
        (4, 3): "its batch is 4 instead of 2",
        (1, 3): "its batch is 1 instead of 2",
        (2,): "it has 1 axes instead of 2",
        (2, 3, 1): "it has 3 axes instead of 2",
    }.items():
        with pytest.raises(ValueError, match=words):
            layer(X, mask=np.ones(shape, bool))


def attention():
    return layers.MultiHeadAttention(2, 3)


ALIGNMENTS = {
    "bahdanau": lambda: layers.BahdanauAttention(3),
    "luong": lambda: layers.LuongAttention(),
    "location": lambda: layers.LocationAttention(11),
    "cosine": lambda: layers.CosineAttention(),
    "kernel": lambda: layers.KernelAttention(),
}
ATTENTIONS = {"multi_head": attention, **ALIGNMENTS}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_inputs_of_attention(name):
    layer = ATTENTIONS[name]()
    for inputs, error, words in [
        ((X[0], Y), ValueError, r"query must have shape \(batch, time, feat.*\(3, 5\)"),
        ((X, Y[0]), ValueError, r"value must have shape \(batch, time, fe.*\(7, 5\)"),
        ((X, Y[0, 0]), ValueError, r"value must have shape .* shape \(5,\)"),
        ((X > 0, Y), TypeError, r"query must hold numbers, received booleans"),
        ((X, Y > 0), TypeError, r"value must hold numbers, received booleans"),
        ((X, Y, Y[0]), ValueError, r"key must have shape .* shape \(7, 5\)"),
        ((X, Y[:1]), ValueError, r"query and value must have the same batch size"),
        ((X, Y, X), ValueError, "value and key must have the same "),
    ]:
        with pytest.raises(error, match=words):
            layer(*inputs)
    layer(X, Y)
    if name != "location":
        with pytest.raises(ValueError, match="the 5 features that the layer was built"):
            layer(X, Y, Y[..., :4])


@pytest.mark.parametrize("name", ATTENTIONS)
def test_masks_of_attention(name):
    layer = ATTENTIONS[name]()
    for mask, shape, words in [
        (
            "query_mask",
            (2, 7),
            r"query_mask must .*\(2, 3\), .*\(2, 7\): its time is 7",
        ),
        (
            "value_mask",
            (2, 3),
            r"value_mask must .*\(2, 7\), .*\(2, 3\): its time is 3",
        ),
        ("value_mask", (4, 7), "its batch is 4 instead of 2"),
        ("value_mask", (7,), "it has 1 axes instead of 2"),
    ]:
        with pytest.raises(ValueError, match=words):
            layer(X, Y, **{mask: np.ones(shape, bool)})
    pairs = "attention_mask" if name == "multi_head" else "mask"
    words = rf"{pairs} must .*= \(2, 3, 7\), .*\(2, 7, 3\): its query_time is 7 inst"
    with pytest.raises(ValueError, match=words):
        layer(X, Y, **{pairs: np.ones((2, 7, 3), bool)})


def test_masks_broadcast():
    layer, allowed = attention(), np.arange(7) < 4
    expected = layer(X, Y, value_mask=np.repeat(allowed[None], 2, 0))
    for shape in ((1, 7), (2, 1, 7), (1, 1, 7), (2, 1, 1, 7)):
        mask = np.broadcast_to(allowed, shape).copy()
        name = "value_mask" if len(shape) == 2 else "attention_mask"
        assert_close(layer(X, Y, **{name: mask}), expected)
    pairs = np.repeat(allowed[None], 3, 0)  # (T, S), as Keras takes it
    assert_close(layer(X, Y, attention_mask=pairs), expected)


def test_attention_called_with_other_axes():
    layer = attention()
    layer(X, Y)
    with pytest.raises(ValueError, match="must have the 3 axes that .* was built for"):
        layer(X[:, None], Y[:, None])
    with pytest.raises(ValueError, match="must have the same number of axes"):
        attention()(X, Y[:, None])


@pytest.mark.parametrize("name", ["TransformerEncoder", "TransformerDecoder"])
def test_transformer_blocks(name):
    layer = getattr(layers, name)(7, 1)
    before = "decoder_" if name == "TransformerDecoder" else ""
    with pytest.raises(TypeError, match="must hold numbers, received booleans"):
        layer(X > 0)
    for mask, shape, words in [
        ("padding_mask", (2, 7), r"= \(2, 3\), received shape \(2, 7\): its time is 7"),
        ("padding_mask", (2, 3, 1), "it has 3 axes instead of 2"),
        ("attention_mask", (2, 3, 7), r"\(2, 3, 3\), .*: its key_time is 7 instead"),
        ("attention_mask", (3,), r"it has 1 axes instead of 3"),
    ]:
        mask = before + mask
        with pytest.raises(ValueError, match=rf"{mask} must have .*{words}"):
            layer(X, **{mask: np.ones(shape, bool)})


def test_decoder_with_encoder():
    layer = layers.TransformerDecoder(7, 1)
    with pytest.raises(ValueError, match="must have .*, received shape "):
        layer(X, Y[0])
    with pytest.raises(ValueError, match=r"encoder_padding_mask must .*\(2, 7\), rece"):
        layers.TransformerDecoder(7, 1)(X, Y, encoder_padding_mask=np.ones((2, 3)))
    with pytest.raises(ValueError, match="same batch size, received shapes"):
        layers.TransformerDecoder(7, 1)(X, Y[:1])


ADVANCING = [case for case in CASES if hasattr(case.values[0](), "advance")]


@pytest.mark.parametrize("build", ADVANCING)
def test_states_of_advance(build):
    layer = build()
    if isinstance(layer, layers.TransformerDecoder):
        layer = layers.LinearAttention(2, 5)  # whose states are checked below
    _, states = layer.advance(SEQUENCE)
    states = [np.asarray(ops.convert_to_numpy(state)) for state in states]
    count = len(states)
    for wrong, error, words in [
        (states[:-1], ValueError, f"states must have {count} tensors, received"),
        (
            states + states,
            ValueError,
            f"must have {count} tensors, received {2 * count}",
        ),
        ([s[..., :-1] for s in states], ValueError, r"states\[0\] must have shape"),
        ([s[:1] for s in states], ValueError, r"states\[0\] must have shape \(2, "),
        ([None] * count, TypeError, r"states\[0\] must be a tensor, received None"),
        (["a"] * count, TypeError, r"states\[0\] must be a tensor, received 'a'"),
        ("a" * count, TypeError, f"states must be a list of {count} tensors, received"),
        ([s * 1j for s in states], TypeError, r"states\[0\] must hold real numbers"),
        ([s.astype(str) for s in states], TypeError, r"states\[0\] must hold real num"),
    ]:
        with pytest.raises(error, match=words):
            layer.advance(SEQUENCE, wrong)
    whole = [np.round(s).clip(-9, 9) for s in states]
    found, expected = (
        layer.advance(SEQUENCE, [s.astype(dtype) for s in whole])[0]
        for dtype in ("int32", "float32")
    )
    assert_close(found, expected)


def test_states_of_blocks():
    block = layers.TransformerDecoder(7, 1, attention="gla")
    block.build(X.shape)
    states = block.make_cache(2, 3)
    for wrong, error, words in [
        (None, TypeError, 'must be a dictionary of "attention" and "feed_forward"'),
        (states["attention"], TypeError, "states must be a dictionary"),
        ({"attention": states["attention"]}, TypeError, "states must be a dictionary"),
        ({**states, "attention": "a"}, TypeError, "states must be a list of 1 tensors"),
        ({**states, "attention": []}, ValueError, "must have 1 tensors, received 0"),
    ]:
        with pytest.raises(error, match=words):
            block.advance(X, wrong)
    block = layers.TransformerDecoder(7, 1)
    block.build(X.shape)
    for cache in ("a", {"key": None, "value": None}):
        with pytest.raises(TypeError, match="self_attention_cache must be a"):
            block(X, self_attention_cache=cache, self_attention_cache_update_index=0)


@pytest.mark.parametrize("build", CASES)
def test_complex_inputs(build):
    """No layer drops an imaginary part."""
    layer, x = build(), SEQUENCE * 1j
    if isinstance(layer, Added):  # of the position layer alone: some read ids
        layer = layer.layer
        x = x[..., 0] if hasattr(layer, "token_embedding") else x
        inputs = (SEQUENCE, x[..., 0]) if hasattr(layer, "num_segments") else (x,)
    elif isinstance(layer, Asked):  # of the network alone, which reads ids
        layer, inputs = layer.layer, (x[:, 0, 0], x[..., 0])
    else:
        layer.build(SEQUENCE.shape)
        inputs = (x,)
    with pytest.raises(TypeError, match="must hold real numbers, received complex"):
        layer(*inputs)


CODES = {
    "sine": lambda: layers.SinePositionEncoding(),
    "amplitude": lambda: layers.AmplitudePosition(),
    "binary": lambda: layers.BinaryPosition(),
    "learned": lambda: layers.PositionEmbedding(11),
    "rotary": lambda: layers.RotaryEmbedding(),
}


@pytest.mark.parametrize("name", CODES)
def test_positions(name):
    x = np.ones((2, 3, 4), "float32")
    for inputs, options, error, words in [
        (x[0, 0], {}, ValueError, r"inputs must have shape \(batch, time, fe.* \(4,\)"),
        (x[0], {}, ValueError, r"inputs must have shape \(batch, time, .* \(3, 4\)"),
        (x > 0, {}, TypeError, "inputs must hold numbers, received booleans"),
        (x, {"mask": (2, 7)}, ValueError, "its time is 7 instead of 3"),
        (x, {"mask": (3,)}, ValueError, "it has 1 axes instead of 2"),
        (x, {"positions": (2, 7)}, ValueError, r"positions must .* 3, rece.* \(2, 7\)"),
        (x, {"positions": (2, 3, 1)}, ValueError, r"positions must .* \(2, 3, 1\)"),
    ]:
        options = {k: np.ones(shape, "int32") for k, shape in options.items()}
        with pytest.raises(error, match=words):
            CODES[name]()(inputs, **options)


def test_ids_and_segments():
    layer = layers.TokenAndPositionEmbedding(11, 7, 5)
    ids = np.ones((2, 3), "int32")
    with pytest.raises(ValueError, match=r"inputs must have shape \(batch, time\) or"):
        layer(ids[0])
    with pytest.raises(ValueError, match="its time is 7 instead of 3"):
        layer(ids, mask=np.ones((2, 7), bool))
    for segments in (np.ones((2, 7)), np.ones((7,)), np.ones((2, 3, 1))):
        with pytest.raises(ValueError, match="segments must have shape"):
            layers.SegmentEmbedding()(X, segments.astype("int32"))
    with pytest.raises(ValueError, match="inputs must have shape"):
        layers.SegmentEmbedding()(X[0], ids)


@pytest.mark.parametrize("name", ["AlibiBias", "RelativePositionBias"])
def test_attention_scores_of_biases(name):
    scores = np.ones((2, 3, 5, 5), bool)
    with pytest.raises(TypeError, match="attention_scores must hold numbers"):
        getattr(layers, name)()(scores)
    with pytest.raises(ValueError, match=r"must have shape \(batch, heads"):
        getattr(layers, name)()(X)


def test_images_and_feed_forward():
    layer = layers.PatchEmbedding(1, 5)
    with pytest.raises(ValueError, match="expected ndim=4, found ndim=3"):
        layer(X)
    with pytest.raises(ValueError, match=r"x must have shape \(batch, features\)"):
        layers.FeedForward(7)(X[0, 0])
    with pytest.raises(TypeError, match="x must hold numbers, received booleans"):
        layers.FeedForward(7)(X > 0)
    with pytest.raises(ValueError, match="its time is 7 instead of 3"):
        layers.FeedForward(7)(X, mask=np.ones((2, 7), bool))
    layer = layers.FeedForward(7)
    layer(X)
    with pytest.raises(ValueError, match="the 5 features that the layer was built for"):
        layer(X[..., :4])


def test_stacked_rnn():
    layer = layers.StackedRNN([layers.GRUCell(3)])
    with pytest.raises(ValueError, match=r"sequences must have shape \(batch, time, f"):
        layer(X[0])
    with pytest.raises(ValueError, match="its time is 7 instead of 3"):
        layer(X, mask=np.ones((2, 7), bool))
    with pytest.raises(ValueError, match=r"sequences must have shape \(batch, feat"):
        layers.StackedRNN([layers.GRUCell(3)], steps=2)(X)

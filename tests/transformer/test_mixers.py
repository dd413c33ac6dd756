"""Blocks with another layer in place of self-attention."""

import keras
import numpy as np
import pytest

from kerasseq import layers

pytestmark = pytest.mark.full("the layers are tested everywhere")

D = 12
BLOCKS = {
    "gla": {},
    "min_gru": {"norm_placement": "pre", "parallel": True},
    "delta_net": {"norm_placement": "deep", "depth": 3},
}


def block(attention, **options):
    width = None if options.get("feed_forward") == "none" else 7
    made = layers.TransformerDecoder(width, 2, attention=attention, **options)
    made.build((None, None, D))
    return made


@pytest.mark.parametrize("attention", BLOCKS)
def test_any_cut_gives_the_whole(attention):
    made = block(attention, **BLOCKS[attention])
    x = np.random.default_rng(0).normal(size=(3, 7, D)).astype("float32")
    mask = np.arange(7) >= np.array([0, 2, 5])[:, None]  # padding on the left
    whole = keras.ops.convert_to_numpy(made(x, decoder_padding_mask=mask))
    states, parts = made.make_cache(3, 1), []
    for start, end in [(0, 2), (2, 3), (3, 7)]:
        y, states = made.advance(x[:, start:end], states, mask[:, start:end])
        parts.append(keras.ops.convert_to_numpy(y))
    joined = np.concatenate(parts, axis=1)
    np.testing.assert_allclose(joined[mask], whole[mask], atol=1e-5)


def test_the_block_is_its_equation():
    made = block("retention", norm_placement="pre", feed_forward="none")
    x = np.random.default_rng(0).normal(size=(3, 5, D)).astype("float32")
    inner, norm = made._self_attention_layer, made._self_attention_layer_norm
    y = x + keras.ops.convert_to_numpy(inner(norm(x)))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(made(x)), y, atol=1e-6)


def test_linear_attention_of_an_encoder_reads_both_ways():
    made = layers.TransformerEncoder(7, 2, attention="linear_attention")
    x = np.random.default_rng(0).normal(size=(1, 5, D)).astype("float32")
    other = x.copy()
    other[0, -1] += 1
    before, after = (keras.ops.convert_to_numpy(made(i))[0, 0] for i in (x, other))
    assert not np.allclose(before, after)


def test_a_decoder_with_an_encoder_has_cross_attention_as_well():
    made = layers.TransformerDecoder(7, 2, attention="gla")
    x, memory = np.ones((2, 3, D)), np.ones((2, 5, D))
    y = keras.ops.convert_to_numpy(made(x, memory))
    assert np.abs(y - keras.ops.convert_to_numpy(made(x, memory + x[:, :1]))).max() > 0
    with pytest.raises(ValueError, match="has cross-attention: call it on the whole"):
        made.advance(x, made.make_cache(2, 1))


@pytest.mark.once("messages")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"self_attention_cache": {}}, "is for blocks that attend"),
        ({"return_attention_scores": True}, "return_attention_scores needs attention="),
        (
            {"decoder_attention_mask": np.ones((1, 2, 2), "bool")},
            "decoder_attention_mask needs attention=",
        ),
    ],
)
def test_what_only_attention_can_do(arguments, message):
    with pytest.raises(ValueError, match=message):
        block("gla")(np.ones((1, 2, D)), **arguments)


@pytest.mark.once("messages")
def test_states_of_another_batch():
    made = block("gla")
    with pytest.raises(ValueError, match=r"states\[0\] must have shape"):
        made.advance(np.ones((2, 3, D)), made.make_cache(5, 1))


def test_saved_and_loaded():
    made = block(layers.GatedLinearAttention(2, 3, conv_kernel=2))
    config = keras.saving.serialize_keras_object(made)
    again = keras.saving.deserialize_keras_object(config)
    assert again._self_attention_layer.conv_kernel == 2
    x = np.random.default_rng(0).normal(size=(1, 5, D)).astype("float32")
    again.set_weights(made.get_weights())
    np.testing.assert_array_equal(
        *(keras.ops.convert_to_numpy(m(x)) for m in (made, again))
    )

"""With any option, decoder outputs do not depend on later tokens."""

import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from tests.transformer.toys import (
    MEMORY,
    B,
    D,
    E,
    F,
    N,
    Near,
    S,
    T,
    Turn,
    X,
    Y,
    built,
    normal,
    numpy,
)

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

SEEN = 3  # what comes after is changed
EVERYTHING = np.ones((B, T, T), bool)
REAL = np.array([[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]], "bool")
BLOCKS = [
    {},
    {"norm_placement": "pre", "norm": "rms", "feed_forward": "geglu"},
    {"norm_placement": "deep", "depth": 2},
    {"parallel": True},
    {"position": Turn()},
    {"position": Near(), "num_key_value_heads": 1},
    {"sliding_window": 3},
]
CALLS = [
    {},
    {"decoder_attention_mask": EVERYTHING},
    {"decoder_padding_mask": REAL},
    {"mask": REAL},
    {"decoder_attention_mask": EVERYTHING, "decoder_padding_mask": REAL},
    {"return_attention_scores": True},
]


def outputs(block, call, x, shapes=((None, None, D),), memory=None):
    """Outputs of a new layer with the same weights and the same seed."""
    layer = built(
        layers.TransformerDecoder(F, N, dropout=0.3, seed=7, **block), *shapes
    )
    inputs = (x,) if memory is None else (x, memory)
    found = layer(*inputs, **call)
    return numpy(found[0] if isinstance(found, tuple) else found)


def check(see, x=X):
    """Raise unless `see(x)` up to SEEN does not depend on later tokens."""
    changed = x.copy()
    changed[:, SEEN:] = 5 * normal(*x[:, SEEN:].shape, seed=9)
    first, second = see(x), see(changed)
    np.testing.assert_allclose(first[:, :SEEN], second[:, :SEEN], atol=1e-6)
    assert np.abs(first[:, SEEN:] - second[:, SEEN:]).max() > 1e-2


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: "-".join(call) or "plain")
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_decoder_alone(block, call, training):
    check(lambda x: outputs(block, {**call, "training": training}, x))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("scores", [False, True])
def test_decoder_with_encoder(scores, training):
    call = {
        "training": training,
        "return_attention_scores": scores,
        "encoder_attention_mask": np.random.default_rng(1).random((B, T, S)) < 0.7,
    }
    shapes = ((None, None, D), (None, None, E))
    check(lambda x: outputs({}, call, x, shapes, MEMORY))


@pytest.mark.everywhere("masks of the fused path", cases=2)
@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("form", ["ours", "KerasHub's"])
def test_with_a_cache(form, masked, scores):
    """A full cache, and new tokens in its middle."""
    old = normal(B, 2, T + 4, N, D // N, seed=4)
    call = {"return_attention_scores": scores, "self_attention_cache_update_index": 2}
    if masked:
        call["decoder_padding_mask"] = np.ones((B, T + 4), bool)

    def see(x, later=1.0):
        cache = old.copy()
        cache[:, :, 2 + T :] *= later
        if form == "ours":
            cache = {"key": cache[:, 0], "value": cache[:, 1]}
        return outputs({}, {**call, "self_attention_cache": cache}, x)

    check(see)
    np.testing.assert_allclose(see(X), see(X, later=-3.0), atol=1e-6)


def test_without_causal_mask_all_positions_are_used():
    encoder = built(layers.TransformerEncoder(F, N))
    decoder = built(layers.TransformerDecoder(F, N))
    changed = X.copy()
    changed[:, -1] = Y[:, -1]
    for see in (encoder, lambda x: decoder(x, use_causal_mask=False)):
        first, second = numpy(see(X)), numpy(see(changed))
        assert np.abs(first[:, 0] - second[:, 0]).max() > 1e-3


def test_dropout_differs_between_sublayers():
    """Sublayers with the same seed would drop the same positions."""
    layer = layers.TransformerEncoder(D, N, dropout=0.5, seed=7, norm_placement="pre")
    built(layer)
    dropped = []
    layer._drop = lambda x, training: (
        dropped.append(type(layer)._drop(layer, ops.ones_like(x), training)) or x
    )
    layer(X, training=True)
    attention, mlp = map(numpy, dropped)
    assert set(np.unique(attention)) == {0, 2} == set(np.unique(mlp))
    assert np.any(attention != mlp)
    assert layer._self_attention_layer.seed not in (None, 7, layer._seeds[0])


def test_dropout_of_sublayer_outputs():
    """If all sublayer outputs are dropped, only the residual is left."""
    layer = layers.TransformerDecoder(
        F, N, dropout=0.999999, seed=7, norm_placement="pre"
    )
    built(layer, (None, None, D), (None, None, E))
    np.testing.assert_allclose(numpy(layer(X, MEMORY, training=True)), X, atol=1e-6)
    assert np.abs(numpy(layer(X, MEMORY)) - X).max() > 0.1

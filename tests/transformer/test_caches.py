"""Cached decoding equals a single call."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers
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
    built,
    normal,
    numpy,
)

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

OPTIONS = [
    {},
    {"norm_placement": "pre", "norm": "rms", "feed_forward": "swiglu"},
    {"norm_placement": "deep", "depth": 2},
    {"position": Turn(), "num_key_value_heads": 1},
    {"position": Near(), "head_dim": 5},
    {"sliding_window": 2, "position": Turn()},
    {"parallel": True, "dropout": 0.5},
]
CHUNKS = ((0, 2), (2, 3), (3, 4), (4, 5))


def read(layer, x, cache, chunks=CHUNKS, **options):
    """All outputs, from one call for each chunk, and the last cache."""
    outputs = []
    for start, end in chunks:
        y, cache = layer(
            x[:, start:end],
            self_attention_cache=cache,
            self_attention_cache_update_index=start,
            **options,
        )
        outputs.append(numpy(y))
    return np.concatenate(outputs, axis=1), cache


@pytest.mark.everywhere("caches are written at an index", cases=2)
@pytest.mark.parametrize(
    ("options", "form"),
    [*((options, "ours") for options in OPTIONS), (OPTIONS[3], "KerasHub's")],
)
def test_cached_equals_uncached(options, form):
    layer = built(layers.TransformerDecoder(F, N, **options))
    cache = layer.make_cache(B, T + 2)
    if form == "KerasHub's":
        cache = ops.stack((cache["key"], cache["value"]), axis=1)
    found, after = read(layer, X, cache)
    np.testing.assert_allclose(found, numpy(layer(X)), atol=1e-5)
    if form == "ours":
        assert after.keys() == cache.keys()
    else:
        assert ops.shape(after) == ops.shape(cache)


@pytest.mark.parametrize("memory", [True, False])
def test_cached_equals_uncached_with_an_encoder(memory):
    layer = layers.TransformerDecoder(F, N, position=Turn())
    built(layer, (None, None, D), (None, None, E))
    real = np.array([[1] * S, [0, 1, 1, 0, 1, 1, 0]], "bool")
    whole = numpy(layer(X, MEMORY, encoder_padding_mask=real))
    cache, kept = layer.make_cache(B, T), layer.project_memory(MEMORY)
    outputs = []
    for t in range(T):
        y, cache, kept = layer(
            X[:, t : t + 1],
            MEMORY if memory else None,
            encoder_padding_mask=real,
            self_attention_cache=cache,
            self_attention_cache_update_index=t,
            cross_attention_cache=kept,
        )
        outputs.append(numpy(y))
    np.testing.assert_allclose(np.concatenate(outputs, 1), whole, atol=1e-5)


def test_order_of_scores_and_caches():
    layer = layers.TransformerDecoder(F, N)
    built(layer, (None, None, D), (None, None, E))
    y, own, cross, cache, memory = layer(
        X[:, :2],
        MEMORY,
        self_attention_cache=layer.make_cache(B, T + 2),
        self_attention_cache_update_index=0,
        cross_attention_cache=layer.project_memory(MEMORY),
        return_attention_scores=True,
    )
    assert ops.shape(y) == (B, 2, D)
    assert ops.shape(own) == (B, N, 2, T + 2) and ops.shape(cross) == (B, N, 2, S)
    assert ops.shape(cache["key"]) == (B, T + 2, N, D // N)
    assert ops.shape(memory["value"]) == (B, S, N, D // N)


@pytest.mark.parametrize("position", [Turn(), Near()])
def test_left_padded_prompt_is_continued(position):
    """Positions are counted over the real tokens of the cache, in all steps."""
    layer = built(layers.TransformerDecoder(F, N, position=position))
    wanted = numpy(layer(X))
    padded = np.concatenate([normal(B, 2, D, seed=8), X], axis=1)
    real = np.arange(T + 2)[None].repeat(B, 0) >= 2
    found, _ = read(
        layer,
        padded,
        layer.make_cache(B, T + 2),
        ((0, 4), (4, 5), (5, 7)),
        decoder_padding_mask=real,
    )
    np.testing.assert_allclose(found[:, 2:], wanted, atol=1e-5)


def test_keras_mask_masks_new_keys():
    layer = built(layers.TransformerDecoder(F, N, position=Turn()))
    wanted = numpy(layer(X))
    padded = np.concatenate([X, normal(B, 2, D, seed=8)], axis=1)
    real = np.arange(T + 2)[None].repeat(B, 0) < T
    for order in (slice(None), slice(None, None, -1)):  # padded behind, then before
        mask = real[:, order]
        x = np.zeros_like(padded)
        x[mask] = padded[real]
        x[~mask] = padded[~real]
        y, _ = layer(
            x,
            mask=mask,
            self_attention_cache=layer.make_cache(B, T + 2),
            self_attention_cache_update_index=0,
        )
        np.testing.assert_allclose(
            numpy(y)[mask].reshape(wanted.shape), wanted, atol=1e-5
        )


def test_keras_mask_of_later_tokens():
    """Earlier tokens count as real; the mask covers the new ones."""
    layer = built(layers.TransformerDecoder(F, N, position=Turn()))
    real = np.array([[1, 1, 1, 0, 1], [1, 1, 0, 1, 1]], "bool")
    whole = numpy(layer(X, mask=real))
    cache = layer.make_cache(B, T + 2)
    at = "self_attention_cache_update_index"
    _, cache = layer(X[:, :2], self_attention_cache=cache, **{at: 0})
    y, _ = layer(X[:, 2:], mask=real[:, 2:], self_attention_cache=cache, **{at: 2})
    found, wanted = numpy(y)[real[:, 2:]], whole[:, 2:][real[:, 2:]]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_keras_mask_of_a_cached_memory():
    layer = layers.TransformerDecoder(F, N)
    built(layer, (None, None, D), (None, None, E))
    real = np.array([[1] * S, [0, 1, 1, 0, 1, 1, 0]], "bool")
    whole = numpy(layer(X, MEMORY, encoder_padding_mask=real))
    for index in (None, 0):
        y, *_ = layer(
            X,
            MEMORY,
            encoder_sequence_mask=real,
            self_attention_cache=layer.make_cache(B, T),
            self_attention_cache_update_index=0,
            cross_attention_cache=layer.project_memory(MEMORY),
            cross_attention_cache_update_index=index,
        )
        np.testing.assert_allclose(numpy(y), whole, atol=1e-5)


@pytest.mark.everywhere("caches are written at an index")
def test_compiled_steps_with_a_tensor_index():
    layer = built(layers.TransformerDecoder(F, N, position=Turn()))
    wanted = numpy(layer(X))

    @kernels.compiled
    def step(x, cache, index, real):
        return layer(
            x,
            decoder_padding_mask=real,
            self_attention_cache=cache,
            self_attention_cache_update_index=index,
        )

    cache, real = layer.make_cache(B, T), ops.ones((B, T), "bool")
    for t in range(T):
        x = ops.convert_to_tensor(X[:, t : t + 1])
        y, cache = step(x, cache, ops.convert_to_tensor(t, "int32"), real)
        np.testing.assert_allclose(numpy(y), wanted[:, t : t + 1], atol=1e-5)


def test_dtype_of_caches():
    layer = layers.TransformerDecoder(F, N, dtype="mixed_bfloat16")
    layer.build((None, None, D), (None, None, E))
    for cache in (layer.make_cache(B, T), layer.project_memory(MEMORY)):
        types = {keras.backend.standardize_dtype(x.dtype) for x in cache.values()}
        assert types == {"bfloat16"}


def given(layer, **options):
    """Call the layer on three tokens, with a cache for six."""
    cache = options.pop("cache", None) or layer.make_cache(B, 6)
    return layer(X[:, :3], self_attention_cache=cache, **options)


def test_wrong_caches():
    layer = built(layers.TransformerDecoder(F, N))
    at = "self_attention_cache_update_index"
    with pytest.raises(ValueError, match="3 new tokens in a cache of length 6"):
        given(layer, **{at: 4})
    with pytest.raises(ValueError, match="_index must be None without .* received 4"):
        layer(X, **{at: 4})
    other = built(layers.TransformerDecoder(F, 2))
    with pytest.raises(ValueError, match="must hold 3 heads of width 4, received 2"):
        given(layer, cache=other.make_cache(B, 6), **{at: 0})
    with pytest.raises(ValueError, match="of the inputs, 2, received 5"):
        given(layer, cache=layer.make_cache(5, 6), **{at: 0})
    with pytest.raises(ValueError, match=r"have shape \(batch, 2, length, 3, 4\)"):
        layer(X, self_attention_cache=np.zeros((B, T, N, 4)), **{at: 0})
    with pytest.raises(ValueError, match="must have .*, received 'k'"):
        given(layer, cache={"k": ops.zeros((B, 6, N, 4))}, **{at: 0})
    with pytest.raises(ValueError, match="decoder_padding_mask must cover .* 6"):
        given(layer, decoder_padding_mask=np.ones((B, 3), bool), **{at: 0})


def test_wrong_sequences():
    alone = layers.TransformerDecoder(F, N)
    with pytest.raises(ValueError, match="has no weights yet"):
        alone.make_cache(B, T)
    built(alone)
    with pytest.raises(ValueError, match="built without cross-attention"):
        alone(X, MEMORY)
    with pytest.raises(ValueError, match="built without cross-attention"):
        alone.project_memory(MEMORY)
    layer = layers.TransformerDecoder(F, N)
    built(layer, (None, None, D), (None, None, E))
    with pytest.raises(ValueError, match="needs encoder_sequence, or a cross_att"):
        layer(X)
    with pytest.raises(ValueError, match=r"the 13 features .* \(2, 5, 12\)"):
        layer(X, X)
    with pytest.raises(ValueError, match="received self_attention_cache only"):
        layer(X, MEMORY, self_attention_cache=layer.make_cache(B, T))
    with pytest.raises(ValueError, match="received cross_attention_cache only"):
        layer(X, MEMORY, cross_attention_cache=layer.project_memory(MEMORY))
    with pytest.raises(
        ValueError, match="_cache_update_index must be None without cross"
    ):
        layer(X, MEMORY, cross_attention_cache_update_index=0)
    with pytest.raises(ValueError, match="must not be given with parallel"):
        layers.TransformerDecoder(F, N, parallel=True)(X, MEMORY)

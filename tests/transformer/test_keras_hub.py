"""The blocks have KerasHub's weights and results, also with its caches."""

import keras
import numpy as np
import pytest

from kerasseq import layers
from tests.transformer.toys import (
    MEMORY,
    B,
    D,
    E,
    F,
    K,
    N,
    S,
    T,
    X,
    fill,
    normal,
    numpy,
)

pytestmark = pytest.mark.full("KerasHub's layers are compositions, as ours are")

keras_hub = pytest.importorskip("keras_hub")

ENCODER, DECODER = "TransformerEncoder", "TransformerDecoder"
OPTIONS = [{}, {"normalize_first": True, "activation": "gelu"}]
REAL = np.array([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]], "bool")
MEMORY_REAL = np.array([[1] * S, [0, 1, 1, 0, 1, 1, 0]], "bool")
ALLOWED = np.random.default_rng(4).random((B, T, T)) < 0.6
ALLOWED[:, range(T), range(T)] = True
MEMORY_ALLOWED = np.random.default_rng(5).random((B, T, S)) < 0.6
MEMORY_ALLOWED[:, :, 1] = True


def pair(name, *shapes, **options):
    """Ours and KerasHub's, with the same random weights."""
    options = {"layer_norm_epsilon": 1e-3, **options}
    both = [
        getattr(library.layers, name)(F, N, **options) for library in (Ours, keras_hub)
    ]
    for layer in both:
        layer.build(*shapes)
    return fill(*both)


class Ours:
    layers = layers


def same(found, wanted, real=None):
    found, wanted = (x if isinstance(x, tuple) else (x,) for x in (found, wanted))
    assert len(found) == len(wanted)
    for n, (a, b) in enumerate(zip(found, wanted, strict=True)):
        a, b = numpy(a), numpy(b)
        if n == 0 and real is not None:
            a, b = a[real], b[real]
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_encoder(options):
    ours, theirs = pair(ENCODER, X.shape, **options)
    same(ours(X), theirs(X))
    same(
        ours(X, attention_mask=ALLOWED, return_attention_scores=True),
        theirs(X, attention_mask=ALLOWED, return_attention_scores=True),
    )
    same(ours(X, padding_mask=REAL), theirs(X, padding_mask=REAL), REAL)
    same(ours(X, REAL, ALLOWED), theirs(X, REAL, ALLOWED), REAL)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_decoder_alone(options):
    ours, theirs = pair(DECODER, X.shape, **options)
    same(ours(X), theirs(X))
    same(ours(X, use_causal_mask=False), theirs(X, use_causal_mask=False))
    for masks in (
        {"decoder_padding_mask": REAL},
        {"decoder_padding_mask": REAL, "decoder_attention_mask": ALLOWED},
    ):
        same(ours(X, **masks), theirs(X, **masks), REAL)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_decoder_with_encoder(options):
    ours, theirs = pair(DECODER, X.shape, MEMORY.shape, **options)
    same(ours(X, MEMORY), theirs(X, MEMORY))
    masks = (REAL, ALLOWED, MEMORY_REAL, MEMORY_ALLOWED)
    same(ours(X, MEMORY, *masks), theirs(X, MEMORY, *masks), REAL)


@pytest.mark.parametrize("causal", [True, False])
def test_keras_hub_caches_step_by_step(causal):
    """The first call writes both caches, the next ones use the returned caches."""
    ours, theirs = pair(DECODER, X.shape, MEMORY.shape, normalize_first=True)
    places = T + 2
    allowed = np.zeros((B, T, places), bool)
    allowed[:, :, :T] = np.tril(np.ones((T, T), bool)) & ALLOWED
    kept = []
    for layer in (ours, theirs):
        caches = (
            np.zeros((B, 2, places, N, K), "float32"),
            np.zeros((B, 2, S, N, K), "float32"),
        )
        for start, end in ((0, 2), (2, 3), (3, 5)):
            y, *caches = layer(
                X[:, start:end],
                MEMORY,
                decoder_attention_mask=allowed[:, start:end],
                encoder_padding_mask=MEMORY_REAL,
                self_attention_cache=caches[0],
                self_attention_cache_update_index=start,
                cross_attention_cache=caches[1],
                cross_attention_cache_update_index=0 if start == 0 else None,
                use_causal_mask=causal,
            )
            kept.append((y, *caches))
    for mine, wanted in zip(kept[:3], kept[3:], strict=True):
        # Of hidden places of the memory ours has the projection of zeros.
        *mine, memory = (numpy(part) for part in mine)
        *wanted, its_memory = (numpy(part) for part in wanted)
        same(tuple(mine), tuple(wanted))
        for part in range(2):
            same(memory[:, part][MEMORY_REAL], its_memory[:, part][MEMORY_REAL])


def test_cache_of_a_decoder_alone():
    ours, theirs = pair(DECODER, X.shape)
    cache = normal(B, 2, T + 2, N, K, seed=6)
    for options in (
        {"self_attention_cache": cache, "self_attention_cache_update_index": 1},
        {"self_attention_cache": cache},
        {
            "self_attention_cache": cache,
            "self_attention_cache_update_index": 2,
            "decoder_padding_mask": normal(B, T + 2, seed=7) > -1,
            "use_causal_mask": False,
        },
    ):
        same(ours(X, **options), theirs(X, **options))


def model(library, name):
    inputs = [keras.Input((None, D)), keras.Input((None, E))]
    if name == ENCODER:
        inputs = inputs[:1]
    outputs = getattr(library.layers, name)(F, N)(*inputs)
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize("name", [ENCODER, DECODER])
def test_weight_files_load_both_ways(name, tmp_path):
    ours, theirs = model(Ours, name), model(keras_hub, name)
    fill(theirs)
    x = [X, MEMORY] if name == DECODER else [X]
    wanted = numpy(theirs(x))
    theirs.save_weights(tmp_path / "theirs.weights.h5")
    ours.load_weights(tmp_path / "theirs.weights.h5")
    same(ours(x), wanted)
    theirs.set_weights([0 * w for w in theirs.get_weights()])
    ours.save_weights(tmp_path / "ours.weights.h5")
    theirs.load_weights(tmp_path / "ours.weights.h5")
    same(theirs(x), wanted)

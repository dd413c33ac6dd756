"""Padding does not change the outputs of real tokens."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq import layers
from tests.transformer.toys import (
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

ENCODER, DECODER = "TransformerEncoder", "TransformerDecoder"
ROW = normal(1, S, D, seed=11)
REAL = 4
PLACES = st.sets(st.integers(0, S - 1), min_size=REAL, max_size=REAL)
PATTERNS = PLACES.map(lambda places: np.isin(np.arange(S), list(places)))


def plain(layer, x, memory=None):
    return numpy(layer(x) if memory is None else layer(x, memory))


@pytest.mark.everywhere("masks of the fused path", cases=2)
@pytest.mark.parametrize(
    ("name", "position", "scores"),
    [
        (ENCODER, None, False),
        (ENCODER, Turn(), True),
        (DECODER, Turn(), False),
        (DECODER, Near(), True),
    ],
)
def test_padding_anywhere(name, position, scores):
    """A sequence with padding inside gives the outputs without it."""
    layer = built(getattr(layers, name)(F, N, position=position))
    mask = "padding_mask" if name == ENCODER else "decoder_padding_mask"

    @given(PATTERNS)
    def check(real):
        found = layer(ROW, **{mask: real[None]}, return_attention_scores=scores)
        found = numpy(found[0] if scores else found)
        wanted = plain(layer, ROW[:, real])
        np.testing.assert_allclose(found[:, real], wanted, atol=1e-5)

    check()


@given(PATTERNS, PATTERNS)
def test_padding_of_both_sequences(real, real_memory):
    layer = layers.TransformerDecoder(F, N, position=Turn())
    built(layer, (None, None, D), (None, None, E))
    memory = normal(1, S, E, seed=12)
    found = layer(
        ROW,
        memory,
        decoder_padding_mask=real[None],
        encoder_padding_mask=real_memory[None],
    )
    wanted = plain(layer, ROW[:, real], memory[:, real_memory])
    np.testing.assert_allclose(numpy(found)[:, real], wanted, atol=1e-5)


IDS = np.array([[3, 1, 0, 0, 0], [0, 0, 2, 4, 1]])


@pytest.mark.parametrize("options", [{}, {"normalize_first": True, "norm": "rms"}])
@pytest.mark.parametrize("name", [ENCODER, DECODER])
def test_keras_mask_equals_padding_mask(name, options):
    """Keras' mask, `mask`, and the padding mask give the same outputs."""
    embedding = keras.layers.Embedding(5, D, mask_zero=True)
    layer = built(getattr(layers, name)(F, N, position=Turn(), **options))
    inputs = embedding(IDS)
    found = layer(inputs)
    np.testing.assert_array_equal(numpy(found._keras_mask), IDS > 0)
    named = "padding_mask" if name == ENCODER else "decoder_padding_mask"
    ones = np.ones((B, T, T), bool)
    pairs = "attention_mask" if name == ENCODER else "decoder_attention_mask"
    x = numpy(inputs)
    for other in (
        layer(x, mask=IDS > 0),
        layer(x, **{named: IDS > 0}),
        layer(inputs, **{pairs: ones}),
    ):
        np.testing.assert_allclose(numpy(other), numpy(found), atol=1e-5)
    for row, real in zip(range(B), IDS > 0, strict=True):
        wanted = plain(layer, x[row : row + 1, real])
        np.testing.assert_allclose(numpy(found)[row : row + 1, real], wanted, atol=1e-5)


def test_padding_mask_overrides_keras_mask():
    for name in (ENCODER, DECODER):
        layer = built(getattr(layers, name)(F, N))
        named = "padding_mask" if name == ENCODER else "decoder_padding_mask"
        all_real = np.ones((B, T), bool)
        for mask in ["mask"] + ["decoder_sequence_mask"] * (name == DECODER):
            found = layer(X, **{named: all_real, mask: IDS > 0})
            np.testing.assert_allclose(numpy(found), plain(layer, X), atol=1e-5)


def test_keras_masks_of_both_embeddings():
    embedding = keras.layers.Embedding(5, D, mask_zero=True)
    of_memory = keras.layers.Embedding(5, E, mask_zero=True)
    layer = layers.TransformerDecoder(F, N)
    built(layer, (None, None, D), (None, None, E))
    memory_ids = np.array([[1, 2, 0, 0], [0, 3, 4, 1]])
    x, memory = embedding(IDS), of_memory(memory_ids)
    found = numpy(layer(x, memory))
    for row, (real, seen) in enumerate(zip(IDS > 0, memory_ids > 0, strict=True)):
        alone = slice(row, row + 1)
        wanted = plain(layer, numpy(x)[alone, real], numpy(memory)[alone, seen])
        np.testing.assert_allclose(found[alone, real], wanted, atol=1e-5)

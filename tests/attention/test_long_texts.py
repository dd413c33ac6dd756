"""`MultiHeadAttention` over long texts: in blocks, equal to all pairs at once."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import layers, models, text
from kerasseq.attention import blocks
from tests.attention.sparse.comparing import output_and_gradients, random_weights
from tests.layer_checks import assert_close

pytestmark = pytest.mark.everywhere("PyTorch fuses attention, the others read blocks")
rest = pytest.mark.full("the same loop as another case")

B, T, S, D, E, N, K, V = 2, 13, 11, 7, 5, 4, 6, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, D)).astype("float32")
Y = RNG.normal(size=(B, S, E)).astype("float32")
SIDES = np.ones((B, T), bool)
SIDES[0, -2:] = SIDES[1, :3] = False
PADDED = {"query_mask": SIDES, "value_mask": SIDES}
CAUSAL = {**PADDED, "use_causal_mask": True}
GROUPED = {"num_key_value_heads": 2, "value_dim": V, "use_gate": True}
FUSED = keras.backend.backend() == "torch"


@pytest.fixture
def blocks_run(monkeypatch):
    """Texts above 5 tokens count as long; returns the lengths of those in blocks."""
    monkeypatch.setattr(layers.MultiHeadAttention, "dense_length", 5)
    kernel, lengths = blocks.blockwise_attention, []

    def counted(q, *args, **options):
        lengths.append(q.shape[1])
        return kernel(q, *args, **options)

    monkeypatch.setattr(blocks, "blockwise_attention", counted)
    return lengths


def dense(layer):
    """Makes a layer compute all pairs."""
    layer.dense_length = T
    return layer


def pair(query=X, value=X, position=None, **options):
    """A layer that computes all pairs and one with blocks, with the same weights."""
    one, other = (
        layers.MultiHeadAttention(N, K, position=position and position(), **options)
        for _ in range(2)
    )
    return random_weights((dense(one), other), query.shape, value.shape)


@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({**GROUPED, "position": layers.RotaryEmbedding, "sliding_window": 3}, CAUSAL),
        ({"position": layers.AlibiBias, "flash_attention": False}, PADDED),
        pytest.param({"position": layers.RelativePositionBias}, CAUSAL, marks=rest),
        pytest.param({"position": layers.TransformerXLPosition}, CAUSAL, marks=rest),
        pytest.param({}, {"use_causal_mask": True}, marks=rest),
    ],
)
def test_blocks_equal_all_pairs(options, call, blocks_run):
    expected, found = (output_and_gradients(x, X, X, **call) for x in pair(**options))
    assert set(blocks_run) == (set() if FUSED else {T})
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


@rest
def test_cross_attention_with_a_mask_of_pairs(blocks_run):
    mask = RNG.random((B, T, S)) < 0.6
    mask[:, 4] = False  # a query that attends to nothing
    one, other = pair(X, Y)
    assert_close(other(X, Y, attention_mask=mask), one(X, Y, attention_mask=mask))
    assert FUSED or blocks_run == [T]


def test_both_sides_of_the_length():
    """2,048 tokens are read at once, one more in blocks."""
    L = layers.MultiHeadAttention.dense_length
    assert L == 2048
    x = RNG.normal(size=(1, L + 1, 3)).astype("float32")
    layer = layers.MultiHeadAttention(1, 2)
    layer.build(x.shape, x.shape)
    q = np.zeros((1, L + 1, 1, 2), "float32")
    options = {"drop": False, "return_weights": False}
    assert blocks.prefers_blocks(layer, q, **options) is not FUSED
    assert layer._is_long(q, q)
    assert not layer._is_long(q[:, :L], q)
    assert not layer._is_long(q, q[:, :L])
    for part in (x[:, :L], x):
        found = layer(part, part, use_causal_mask=True)
        expected, _ = layer(
            part, part, use_causal_mask=True, return_attention_scores=True
        )
        assert_close(found, expected)


@pytest.mark.parametrize(
    "policy", ["mixed_bfloat16", pytest.param("mixed_float16", marks=rest)]
)
def test_mixed_precision(policy, blocks_run):
    one, other = pair(dtype=policy)
    found, expected = (
        ops.convert_to_numpy(ops.cast(layer(X, X, **CAUSAL), "float32"))
        for layer in (other, one)
    )
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())


def test_weights_are_dropped_and_returned(blocks_run):
    _, layer = pair(dropout=0.5)
    layer(X, X, training=True)
    layer(X, X, return_attention_scores=True)
    assert blocks_run == []
    layer(X, X)
    assert blocks_run == ([] if FUSED else [T])


def test_a_gpt_fits_and_generates_the_same(blocks_run, monkeypatch):
    """Training, prefill of a prompt on the left of others, steps after it."""
    tokenizer = text.CharacterTokenizer().fit(["abcdefg"])
    ids = RNG.integers(1, 7, size=(4, 11))

    def run():
        keras.utils.set_random_seed(0)
        model = models.GPT(
            tokenizer,
            num_layers=1,
            num_heads=2,
            hidden_dim=8,
            max_sequence_length=23,
            position="rope",
            dropout=0.0,
        )
        model.compile("sgd", loss="sparse_categorical_crossentropy")
        loss = model.fit(ids, ids, epochs=2, batch_size=2, verbose=0).history["loss"]
        texts = model.generate(["abcdefgab", "cde"], 7, temperature=0)
        return loss, texts

    loss, texts = run()
    # The prompt is read but for its last token, with which the steps begin.
    assert FUSED or {8, 11} <= set(blocks_run)
    monkeypatch.setattr(layers.MultiHeadAttention, "dense_length", 99)
    expected_loss, expected_texts = run()
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    assert texts == expected_texts

"""Disentangled attention: equals its equation, Hugging Face's, and itself in parts."""

import keras
import numpy as np
import pytest

from kerasseq import layers
from kerasseq.positions.disentangled import KINDS, log_buckets

pytestmark = pytest.mark.once("the layer checks run on all backends")

B, T, D, N, K, R = 2, 7, 12, 3, 4, 5
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
MASK = np.array([[True] * T, [True] * 4 + [False] * 3])


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def made(kinds=KINDS, share=False, heads=N, mask=None, **options):
    """An attention with random weights, called once."""
    table = layers.DisentangledTable(**{"max_distance": R, **options})
    position = layers.DisentangledPosition(table, kinds=kinds, share_kernels=share)
    layer = layers.MultiHeadAttention(
        N, K, num_key_value_heads=heads, position=position
    )
    layer(X, X)
    rng = np.random.default_rng(3)
    for weight in layer.weights:
        weight.assign(0.5 * rng.normal(size=weight.shape))
    return layer


def project(layer, name, x):
    dense = getattr(layer, f"{name}_dense")
    return np.einsum("td,dnk->tnk", x, numpy(dense.kernel)) + numpy(dense.bias)


def keys_and_queries(layer, kinds, share):
    """Those of the rows of the table, or None for a kind that is left out."""
    position, table = layer.position, numpy(layer.position.table.vectors("float32"))[0]
    if share:
        return project(layer, "key", table), project(layer, "query", table)
    keys = queries = None
    if "c2p" in kinds:
        keys = np.einsum("rd,dnk->rnk", table, numpy(position.key_kernel))
    if "p2c" in kinds:
        queries = np.einsum("rd,dnk->rnk", table, numpy(position.query_kernel))
        queries = queries + numpy(position.query_bias)
    return keys, queries


def expected_weights(layer, x, kinds, share):
    """Attention weights by the equation, with a loop over pairs of positions."""
    keys, queries = keys_and_queries(layer, kinds, share)
    q, k = project(layer, "query", x), project(layer, "key", x)
    e = np.einsum("tnk,snk->nts", q, k)
    for t, s in np.ndindex(T, T):
        row = int(np.clip(t - s + R, 0, 2 * R - 1))
        if "c2p" in kinds:
            e[:, t, s] += np.sum(q[t] * keys[row], axis=-1)
        if "p2c" in kinds:
            e[:, t, s] += np.sum(k[s] * queries[row], axis=-1)
    e = np.exp(e / np.sqrt((1 + len(kinds)) * K))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("kinds", [["c2p"], ["p2c"], ["c2p", "p2c"]], ids="-".join)
def test_equals_the_equation(kinds, share):
    layer = made(kinds, share, use_norm=share)
    _, alpha = layer(X, X, return_attention_scores=True)
    found = expected_weights(layer, X[0], kinds, share)
    np.testing.assert_allclose(numpy(alpha)[0], found, atol=1e-5)


@pytest.mark.parametrize("sizes", [(8, 16), (256, 512), (6, 9), (32, 1000)])
def test_buckets_are_those_of_hugging_face(sizes):
    torch = pytest.importorskip("torch")
    name = "transformers.models.deberta_v2.modeling_deberta_v2"
    module = pytest.importorskip(name)
    d = np.arange(-2 * sizes[1], 2 * sizes[1])
    expected = module.make_log_bucket_position(torch.tensor(d), *sizes).numpy()
    half = sizes[0]  # beyond it rows are clipped, and so are distances before
    found = log_buckets(np.clip(d, -sizes[1], sizes[1]), *sizes)
    np.testing.assert_array_equal(
        np.clip(found + half, 0, 2 * half - 1),
        np.clip(expected + half, 0, 2 * half - 1),
    )


@pytest.mark.parametrize("share", [True, False])
def test_caches_padding_and_files(share, tmp_path):
    layer = made(share=share, heads=1 if share else N, num_buckets=4)
    whole = numpy(layer(X, X, use_causal_mask=True))
    cache, steps = layer.make_cache(B, T), []
    for n in range(T):
        token = X[:, n : n + 1]
        y, cache = layer(token, token, cache=cache, cache_update_index=n)
        steps.append(numpy(y))
    np.testing.assert_allclose(np.concatenate(steps, axis=1), whole, atol=1e-5)
    masked = numpy(layer(X, X, query_mask=MASK, value_mask=MASK))
    alone = numpy(layer(X[1:, :4], X[1:, :4]))
    np.testing.assert_allclose(masked[1, :4], alone[0], atol=1e-5)
    left, padded = np.roll(X[1:], 3, axis=1), np.roll(MASK[1:], 3, axis=1)
    found = numpy(layer(left, left, query_mask=padded, value_mask=padded))
    np.testing.assert_allclose(found[0, 3:], alone[0], atol=1e-5)
    inputs = keras.Input((None, D))
    model = keras.Model(inputs, layer(inputs, inputs))
    model.save(tmp_path / "model.keras")
    same = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(same(X)), numpy(model(X)), atol=1e-6)


@pytest.mark.everywhere("TensorFlow computes with a length that is known as it runs")
def test_batches_of_different_lengths_run_in_one_graph():
    layer = made(["c2p"])
    x = keras.Input((None, D))
    model = keras.Model(x, layer(x, x)[:, 0])
    parts = [X[:, :time] for time in (3, 5)]
    y = model.predict(((part,) for part in parts), steps=2, verbose=0)
    expected = [numpy(layer(part, part))[:, 0] for part in parts]
    np.testing.assert_allclose(y, np.concatenate(expected), atol=1e-5)


def test_layers_share_a_table_and_order_matters():
    table = layers.DisentangledTable(R)
    x = inputs = keras.Input((None, D))
    for share in (True, False):
        position = layers.DisentangledPosition(table, share_kernels=share)
        x = x + layers.MultiHeadAttention(N, K, position=position)(x, x)
    model = keras.Model(inputs, x)
    assert len(model.weights) == 2 * 8 + 3 + 1
    layer, order = made(), np.random.default_rng(1).permutation(T)
    plain, mixed = numpy(layer(X, X)), numpy(layer(X[:, order], X[:, order]))
    assert np.abs(mixed - plain[:, order]).max() > 1e-3


@pytest.mark.parametrize(
    ("call", "words", "error"),
    [
        (lambda: made(kinds=[]), r"kinds must be .* received \[\]", ValueError),
        (lambda: made(kinds=["p2p"]), "p2p", ValueError),
        (lambda: made(num_buckets=8), "num_buckets must be .* received 8", ValueError),
        (lambda: made(max_distance=0), "max_distance", ValueError),
        (lambda: layers.DisentangledPosition(3), "table must be .* 3", TypeError),
    ],
)
def test_wrong_arguments(call, words, error):
    with pytest.raises(error, match=words):
        call()


def test_a_table_of_another_width_is_refused():
    layer = made(share=True)
    other = layers.DisentangledPosition(layer.position.table, share_kernels=True)
    with pytest.raises(ValueError, match="must have the width of table, 12, .* 5"):
        layers.MultiHeadAttention(N, K, position=other)(X[..., :5], X[..., :5])

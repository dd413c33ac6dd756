"""`ReformerAttention`: dense in one chunk, its equation, its peer, refusals."""

import warnings

import numpy as np
import pytest
from keras import ops

from kerasseq import layers, tracing
from tests.attention.sparse.comparing import on_itself, random_weights
from tests.layer_checks import assert_close

pytestmark = pytest.mark.everywhere("sorts and gathers of each backend")

B, T, D, N, K, L, H, R = 2, 37, 7, 4, 6, 5, 3, 8
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, D)).astype("float32")
SIDES = np.ones((B, T), bool)
SIDES[0, -3:] = SIDES[1, :4] = False
PADDED = {"query_mask": SIDES, "value_mask": SIDES}


def reformer(**options):
    given = {"num_buckets": R, "num_hashes": H, "chunk_length": L, **options}
    (layer,) = random_weights((layers.ReformerAttention(N, K, **given),), X.shape)
    return layer


def projected(layer, name):
    """Heads `(B, N, T, width)` by NumPy."""
    kernel, bias = (ops.convert_to_numpy(w) for w in getattr(layer, name).weights)
    return np.einsum("btd,dnk->bntk", X, kernel) + bias[:, None]


def softmax(e):
    powers = np.exp(e - e.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def out_of(layer, heads):
    kernel, bias = (ops.convert_to_numpy(w) for w in layer.output_dense.weights)
    return np.einsum("bntk,nkd->btd", heads, kernel) + bias


def unit(q):
    return q / np.sqrt((q**2).sum(-1, keepdims=True) + K * 1e-6)


@pytest.mark.parametrize("scale", [None, 0.7])
def test_one_chunk_is_dense_attention_with_shared_unit_keys(scale):
    layer = reformer(chunk_length=T, scale=scale)
    q, v = projected(layer, "query_dense"), projected(layer, "value_dense")
    e = (scale or 1.0) * q @ unit(q).swapaxes(-1, -2)
    e[..., np.eye(T, dtype=bool)] = -1e5  # its own position only where it is alone
    e = np.where(SIDES[:, None, None], e, -1e9)
    found = ops.convert_to_numpy(on_itself(layer, X, **PADDED))
    assert_close(found[SIDES], out_of(layer, softmax(e) @ v)[SIDES])


def test_a_token_without_others_reads_itself():
    for length in (1, 2 * L):  # dense, and in chunks
        layer = reformer()
        real = np.zeros((B, length), bool)
        real[:, 0] = True
        x = X[:, :length]
        y = layer(x, x, query_mask=real, value_mask=real)
        v = projected(layer, "value_dense")[:, :, :1]
        assert_close(ops.convert_to_numpy(y)[:, :1], out_of(layer, v))


def test_equation():
    """Each round by NumPy: sort, chunks, the chunk before, weights by log-sums."""
    layer = reformer()
    q, v = projected(layer, "query_dense"), projected(layer, "value_dense")
    rotations = ops.convert_to_numpy(layer.rotations)
    rotated = np.einsum("bntk,nkhr->bnhtr", q, rotations)
    h = np.concatenate([rotated, -rotated], -1).argmax(-1)
    C = -(-T // L)
    heads = np.zeros_like(v)
    for b in range(B):
        for n in range(N):
            orders = [
                np.append(np.argsort(h[b, n, r], kind="stable"), range(T, C * L))
                for r in range(H)
            ]
            chunks = [order.reshape(C, L) for order in orders]
            log_sums, outs = np.zeros((H, T)), np.zeros((H, T, K))
            for r in range(H):
                for c in range(C):
                    before = chunks[r][c - 1] if c else chunks[r - 1][-1]
                    keys = np.concatenate([before, chunks[r][c]])
                    keys = keys[keys < T]
                    for t in chunks[r][c][chunks[r][c] < T]:
                        e = unit(q[b, n, keys]) @ q[b, n, t]
                        e = np.where(keys == t, -1e5, e)
                        log_sums[r, t] = e.max() + np.log(np.exp(e - e.max()).sum())
                        outs[r, t] = softmax(e) @ v[b, n, keys]
            weights = softmax(log_sums.T).T[..., None]
            heads[b, n] = (weights * outs).sum(0)
    assert_close(on_itself(layer, X), out_of(layer, heads))


def test_weights_and_output_agree():
    layer = reformer()
    y, alpha = on_itself(layer, X, return_attention_scores=True, **PADDED)
    alpha = ops.convert_to_numpy(alpha)
    assert alpha.shape == (B, N, T, T)
    real = np.broadcast_to(SIDES[:, None], (B, N, T))
    assert_close(alpha.sum(-1), real.astype("float32"))
    assert (alpha == 0).mean() > 0.2 and not alpha[1, :, :, :4].any()
    heads = alpha @ projected(layer, "value_dense")
    assert_close(y, out_of(layer, heads))
    assert_close(on_itself(layer, X, **PADDED), y)


def test_padding_and_holes_change_nothing():
    layer = reformer()
    real = SIDES & (RNG.random((B, T)) < 0.8)
    found = on_itself(layer, X, query_mask=real, value_mask=real)
    for b in range(B):
        x = X[b : b + 1, real[b]]
        assert_close(ops.convert_to_numpy(found)[b, real[b]], on_itself(layer, x)[0])


@pytest.mark.once("the equation is tested everywhere")
def test_equals_the_layer_of_hugging_face():
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import ReformerConfig
        from transformers.models.reformer.modeling_reformer import LSHSelfAttention
    length, width = 8 * L, N * K
    config = ReformerConfig(
        hidden_size=width,
        num_attention_heads=N,
        attention_head_size=K,
        num_buckets=R,
        num_hashes=H,
        lsh_attn_chunk_length=L,
        lsh_num_chunks_before=1,
        lsh_num_chunks_after=0,
        lsh_attention_probs_dropout_prob=0.0,
        is_decoder=False,
    )
    peer = LSHSelfAttention(config).eval()
    x = RNG.normal(size=(B, length, width)).astype("float32")
    layer = layers.ReformerAttention(
        N, K, num_buckets=R, num_hashes=H, chunk_length=L, use_bias=False, seed=0
    )
    layer.build(x.shape, x.shape)
    query, value = (w.weight.detach().numpy().T for w in (peer.query_key, peer.value))
    layer.query_dense.set_weights([query.reshape(width, N, K)])
    layer.value_dense.set_weights([value.reshape(width, N, K)])
    layer.output_dense.set_weights([np.eye(width).reshape(N, K, width)])
    with tracing.trace(layer) as inside:
        found = ops.convert_to_numpy(layer(x, x))
    h = ops.convert_to_numpy(inside["buckets"]) + R * np.arange(H)[:, None]
    with torch.no_grad():
        expected = peer(
            torch.from_numpy(x),
            buckets=torch.from_numpy(h.reshape(B, N, H * length)),
            num_hashes=H,
        ).hidden_states
    # With padding the peer reads padded chunks, and depends on their number.
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)


def test_the_last_token_changes_those_before():
    """So that the layer is refused wherever a model must not see the future."""
    layer = reformer()
    changed = X.copy()
    changed[:, -1] += 1
    before, after = (ops.convert_to_numpy(layer(x, x)) for x in (X, changed))
    assert np.abs(before - after)[:, :-1].max(axis=-1).astype(bool).sum() > B
    assert layer.never_causal


@pytest.mark.once("error messages")
def test_errors():
    layer = reformer()
    with pytest.raises(ValueError, match="later ones too: it takes no use_causal_mask"):
        layer(X, X, use_causal_mask=True)
    with pytest.raises(ValueError, match="takes no attention_mask"):
        layer(X, X, attention_mask=np.ones((T, T), bool))
    with pytest.raises(ValueError, match="it takes no key, received one"):
        layer(X, X, X)
    with pytest.raises(ValueError, match="later ones too, and has no cache"):
        layer.make_cache(B, T)
    with pytest.raises(ValueError, match="ReformerAttention"):
        layer(X, X[:, :-1])
    for options, message in (
        ({"num_buckets": 7}, "num_buckets must be even.*Pass 8"),
        ({"num_buckets": 0}, "num_buckets must be at least 1, received 0"),
        ({"num_hashes": 0}, "num_hashes must be at least 1, received 0"),
        ({"chunk_length": 0}, "chunk_length must be at least 1, received 0"),
        ({"position": layers.AlibiBias()}, "takes no position=.*does not bias"),
        ({"num_key_value_heads": 2}, "takes no num_key_value_heads=2"),
        ({"sliding_window": 3}, "takes no sliding_window=3.*LongformerAttention"),
        ({"flash_attention": True}, "takes no flash_attention=True"),
    ):
        with pytest.raises(ValueError, match=message):
            reformer(**options)

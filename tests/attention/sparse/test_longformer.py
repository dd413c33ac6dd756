"""`LongformerAttention`: equal to dense attention with the mask of its window."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import kernels, layers, tracing
from tests.attention.sparse.comparing import (
    on_itself,
    output_and_gradients,
    random_weights,
)
from tests.layer_checks import assert_close

pytestmark = pytest.mark.everywhere("chunks and gradients of each backend")
rest = pytest.mark.full("the same chunks as another case")

B, T, D, N, K, w, G = 2, 37, 7, 4, 6, 5, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, D)).astype("float32")
SIDES = np.ones((B, T), bool)
SIDES[0, -2:] = SIDES[1, :3] = False
PADDED = {"query_mask": SIDES, "value_mask": SIDES}
CAUSAL = {**PADDED, "use_causal_mask": True}
GLOBAL = np.zeros((B, T), bool)
GLOBAL[0, :2] = GLOBAL[1, [3, 20, 33]] = True
GROUPED = {"num_key_value_heads": 2, "value_dim": 3, "use_gate": True}


def pair(window=w, position=None, **options):
    """Dense attention with a window, and Longformer's, with the same weights."""
    dense = layers.MultiHeadAttention(
        N, K, sliding_window=window, position=position and position(), **options
    )
    layer = layers.LongformerAttention(
        N, K, sliding_window=window, position=position and position(), **options
    )
    return random_weights((dense, layer), X.shape)


@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({}, PADDED),
        ({**GROUPED, "position": layers.RotaryEmbedding}, CAUSAL),
        pytest.param({"position": layers.AlibiBias}, PADDED, marks=rest),
        pytest.param({"position": layers.RelativePositionBias}, CAUSAL, marks=rest),
        pytest.param({"position": layers.TransformerXLPosition}, CAUSAL, marks=rest),
        pytest.param({"window": 1}, {}, marks=rest),
        pytest.param({"window": 23}, CAUSAL, marks=rest),
        pytest.param({"window": T}, PADDED, marks=rest),
    ],
)
def test_equals_dense_with_a_window(options, call):
    expected, found = (
        output_and_gradients(layer, X, X, **call) for layer in pair(**options)
    )
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


def with_global(**options):
    layer = layers.LongformerAttention(
        N, K, sliding_window=w, max_global_tokens=G, **options
    )
    return random_weights((layer,), X.shape)[0]


def expected_with_global(layer, causal):
    """Dense attention in NumPy: heads `(B, T, N, K)`, and weights."""

    def project(name):
        kernel, bias = (ops.convert_to_numpy(x) for x in getattr(layer, name).weights)
        return np.einsum("btd,dnk->btnk", X, kernel) + bias

    index = np.arange(T)
    near = np.abs(index[:, None] - index) < w
    allowed = np.where(GLOBAL[:, :, None], True, near | GLOBAL[:, None])
    allowed = allowed & SIDES[:, None] & SIDES[:, :, None]
    if causal:
        allowed = allowed & (index <= index[:, None])
    found = []
    for prefix in ("", "global_"):
        q, k, v = (
            project(f"{prefix}{name}_dense") for name in ("query", "key", "value")
        )
        e = np.einsum("btnk,bsnk->bnts", q, k) / np.sqrt(K)
        powers = np.exp(e) * allowed[:, None]
        alpha = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-30)
        found.append((alpha, np.einsum("bnts,bsnv->btnv", alpha, v)))
    (alpha, heads), (global_alpha, global_heads) = found
    heads = np.where(GLOBAL[..., None, None], global_heads, heads)
    alpha = np.where(GLOBAL[:, None, :, None], global_alpha, alpha)
    kernel, bias = (ops.convert_to_numpy(x) for x in layer.output_dense.weights)
    return np.einsum("btnv,nvd->btd", heads, kernel) + bias, alpha


@pytest.mark.parametrize("causal", [False, True])
def test_global_tokens(causal):
    layer = with_global()
    options = {**PADDED, "use_causal_mask": causal, "global_mask": GLOBAL}
    expected, weights = expected_with_global(layer, causal)
    assert_close(on_itself(layer, X, **options), expected)
    y, alpha = on_itself(layer, X, return_attention_scores=True, **options)
    assert_close(y, expected)
    assert_close(alpha, weights)


@rest
def test_global_projections_equal_to_the_others_give_a_mask():
    """Positions inside the attention are those of the tokens, global or not."""
    layer = with_global(position=layers.AlibiBias(), num_key_value_heads=2)
    for name in ("query", "key", "value"):
        weights = getattr(layer, f"{name}_dense").get_weights()
        getattr(layer, f"global_{name}_dense").set_weights(weights)
    dense = layers.MultiHeadAttention(
        N, K, position=layers.AlibiBias(), num_key_value_heads=2
    )
    dense.build(X.shape, X.shape)
    names = ("query", "key", "value", "output")
    for name in names:
        weights = getattr(layer, f"{name}_dense").get_weights()
        getattr(dense, f"{name}_dense").set_weights(weights)
    index = np.arange(T)
    near = np.abs(index[:, None] - index) < w
    mask = near | GLOBAL[:, None] | GLOBAL[:, :, None]
    assert_close(
        layer(X, X, global_mask=GLOBAL, **PADDED),
        dense(X, X, attention_mask=mask, **PADDED),
    )


@pytest.mark.once("the path of the dense layer")
def test_cached_equals_the_whole():
    _, layer = pair(position=layers.RotaryEmbedding)
    whole = layer(X, X, use_causal_mask=True)
    cache, outputs = layer.make_cache(B, T), []
    for start, end in ((0, 19), (19, 20), (20, T)):
        x = X[:, start:end]
        y, cache = layer(x, x, cache=cache, cache_update_index=start)
        outputs.append(ops.convert_to_numpy(y))
    assert_close(np.concatenate(outputs, axis=1), whole)


@pytest.mark.once("the path of the dense layer")
def test_trace():
    layer = with_global()
    plain = layer(X, X, global_mask=GLOBAL, **PADDED)
    with tracing.trace(layer) as inside:
        assert_close(layer(X, X, global_mask=GLOBAL, **PADDED), plain)
    alpha = inside["alignment"]  # what is computed, rows of global tokens, too
    _, expected = layer(
        X, X, global_mask=GLOBAL, return_attention_scores=True, **PADDED
    )
    shown = np.where(SIDES[:, None, :, None], alpha, 0)
    assert_close(shown, expected)
    real = np.broadcast_to(SIDES[:, None, None], shown.shape)
    rows = np.broadcast_to((GLOBAL & SIDES)[:, None, :, None], shown.shape)
    assert (shown[rows & real] > 0).all()


@pytest.mark.once("compares with PyTorch")
def test_same_numbers_as_hugging_face():
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("transformers.models.longformer.modeling_longformer")
    config = peer.LongformerConfig(
        hidden_size=N * K,
        num_attention_heads=N,
        attention_window=[2 * (w - 1)],
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)
    theirs = peer.LongformerSelfAttention(config, 0).eval()
    ours = layers.LongformerAttention(N, K, sliding_window=w, max_global_tokens=G)
    length = 2 * (w - 1) * 5  # a multiple of their window
    x = np.random.default_rng(1).normal(size=(B, length, N * K)).astype("float32")
    ours.build(x.shape, x.shape)
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    for name in ("query", "key", "value"):
        for prefix, suffix in (("", ""), ("global_", "_global")):
            linear = getattr(theirs, f"{name}{suffix}")
            kernel = linear.weight.detach().cpu().numpy().T.reshape(N * K, N, K)
            bias = linear.bias.detach().cpu().numpy().reshape(N, K)
            getattr(ours, f"{prefix}{name}_dense").set_weights([kernel, bias])
    identity = np.eye(N * K).reshape(N, K, N * K)
    ours.output_dense.set_weights([identity, np.zeros(N * K)])
    chosen = np.zeros((B, length), bool)
    chosen[0, :2] = chosen[1, [0, 17, 31]] = True
    real = np.ones((B, length), bool)
    real[0, -5:] = False
    numbers = np.where(real, np.where(chosen, 10000.0, 0.0), -10000.0)
    numbers = torch.tensor(numbers, dtype=torch.float32)
    with torch.no_grad():
        expected = theirs.to("cpu")(
            torch.tensor(x),
            attention_mask=numbers,
            is_index_masked=numbers < 0,
            is_index_global_attn=numbers > 0,
            is_global_attn=True,
        )[0].numpy()
    found = ours(x, x, query_mask=real, value_mask=real, global_mask=chosen)
    assert_close(ops.convert_to_numpy(found)[real], expected[real])


@pytest.mark.once("error messages")
def test_errors():
    with pytest.raises(ValueError, match="sliding_window must be at least 1, .* 0"):
        layers.LongformerAttention(2, 3, sliding_window=0)
    layer = with_global()
    many = GLOBAL | (np.arange(T) < 4)
    with pytest.raises(ValueError, match="max_global_tokens=3 .* received 6"):
        layer(X, X, global_mask=many)
    padding = {**PADDED, "global_mask": np.arange(T)[None] < np.array([[1], [1]])}
    with pytest.raises(ValueError, match="padding, position 0 of sequence 1"):
        layer(X, X, **padding)
    with pytest.raises(ValueError, match="attention_mask must be None with a global_m"):
        layer(X, X, global_mask=GLOBAL, attention_mask=np.ones((T, T), bool))
    with pytest.raises(ValueError, match="the same length, received 37 and 36"):
        layer(X, X[:, 1:])
    with pytest.raises(ValueError, match="global_mask needs projections"):
        pair()[1](X, X, global_mask=GLOBAL)


def test_more_global_tokens_than_the_layer_has_give_nan_when_compiled():
    """A compiled program cannot raise: it answers nothing."""
    layer = layers.LongformerAttention(N, K, sliding_window=w, max_global_tokens=G)
    layer.build(X.shape, X.shape)
    many = GLOBAL.copy()
    many[1, :7] = True
    if keras.backend.backend() == "torch":  # eager, where it raises
        with pytest.raises(ValueError, match="max_global_tokens=3 .* received 9"):
            layer(X, X, global_mask=many)
        return
    call = kernels.compiled(lambda x, chosen: layer(x, x, global_mask=chosen))
    y = ops.convert_to_numpy(call(X, ops.convert_to_tensor(many)))
    assert np.isfinite(y[0]).all() and np.isnan(y[1]).all()

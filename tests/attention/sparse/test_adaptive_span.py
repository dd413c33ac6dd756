"""`AdaptiveSpanAttention`: dense attention in the limit, its equation, its loss."""

import numpy as np
import pytest
from keras import ops

from kerasseq import layers, tracing
from tests.attention.sparse.comparing import (
    on_itself,
    output_and_gradients,
    random_weights,
)
from tests.layer_checks import assert_close

pytestmark = pytest.mark.everywhere("chunks and gradients of each backend")

B, T, D, N, K, R, z = 2, 37, 7, 4, 6, 3, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(B, T, D)).astype("float32")
SIDES = np.ones((B, T), bool)
SIDES[0, -2:] = SIDES[1, :3] = False
PADDED = {"query_mask": SIDES, "value_mask": SIDES}
CAUSAL = {**PADDED, "use_causal_mask": True}


def adaptive(**options):
    layer = layers.AdaptiveSpanAttention(N, K, **{"max_span": z, "ramp": R, **options})
    random_weights((layer,), X.shape)
    if layer.max_span == z:
        layer.span_fractions.assign([0.0, 0.3, 0.5, 1.0])
    return layer


@pytest.mark.parametrize("call", [PADDED, CAUSAL])
def test_long_spans_equal_dense(call):
    layer = adaptive(max_span=T, position=layers.AlibiBias())
    layer.span_fractions.assign(np.ones(N))
    dense = layers.MultiHeadAttention(N, K, position=layers.AlibiBias())
    dense.build(X.shape, X.shape)
    dense.set_weights(layer.get_weights()[1:])
    assert_close(on_itself(layer, X, **call), on_itself(dense, X, **call))


@pytest.mark.parametrize("call", [PADDED, CAUSAL, {}, {"use_causal_mask": True}])
def test_chunks_equal_all_pairs_and_the_equation(call):
    layer = adaptive()
    in_chunks = output_and_gradients(layer, X, X, **call)
    every = np.ones((T, T), bool)
    all_pairs = output_and_gradients(layer, X, X, attention_mask=every, **call)
    for one, other in zip(in_chunks, all_pairs, strict=True):
        assert_close(one, other)
    _, alpha = on_itself(layer, X, return_attention_scores=True, **call)
    dense = layers.MultiHeadAttention(N, K)
    dense.build(X.shape, X.shape)
    dense.set_weights(layer.get_weights()[1:])
    _, weights = on_itself(dense, X, return_attention_scores=True, **call)
    d = np.abs(np.arange(T)[:, None] - np.arange(T))
    spans = z * np.array([0.0, 0.3, 0.5, 1.0])[:, None, None]
    read = np.clip((R + spans - d) / R, 0, 1) * ops.convert_to_numpy(weights)
    assert_close(alpha, read / np.maximum(read.sum(-1, keepdims=True), 1e-30))


@pytest.mark.once("the path of the dense layer")
def test_cached_equals_the_whole():
    layer = adaptive(position=layers.RotaryEmbedding())
    whole = layer(X, X, use_causal_mask=True)
    cache, outputs = layer.make_cache(B, T), []
    for start, end in ((0, 19), (19, 20), (20, T)):
        x = X[:, start:end]
        y, cache = layer(x, x, cache=cache, cache_update_index=start)
        outputs.append(ops.convert_to_numpy(y))
    assert_close(np.concatenate(outputs, axis=1), whole)


@pytest.mark.once("the same code on every backend")
def test_loss_and_trace():
    layer = adaptive(span_loss=0.7)
    with tracing.trace(layer) as inside:
        layer(X, X)
    spans = z * np.array([0.0, 0.3, 0.5, 1.0])
    assert_close(inside["span"], spans)
    assert_close(layer.losses[0], 0.7 * spans.mean())
    assert not adaptive().losses


@pytest.mark.once("error messages")
def test_errors():
    with pytest.raises(ValueError, match="max_span must be at least 1, received 0"):
        adaptive(max_span=0)
    with pytest.raises(ValueError, match="between 0 and max_span=5, received 6"):
        adaptive(initial_span=6)
    with pytest.raises(
        ValueError, match="must have the same length, received 37 and 3"
    ):
        adaptive()(X, X[:, 1:])
    with pytest.raises(TypeError, match="ramp must be a whole number, received 2.5"):
        adaptive(ramp=2.5)

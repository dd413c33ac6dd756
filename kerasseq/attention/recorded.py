"""Multi-head attention whose intermediate values can be recorded and replaced."""

from typing import TYPE_CHECKING, NamedTuple

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.attention.dot_product import (
    attention_scores,
    dot_product_attention,
    weighted_sum,
)
from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.tracing import listeners

if TYPE_CHECKING:
    from kerasseq.attention.multi_head import MultiHeadAttention


def recorded_attention(
    layer: "MultiHeadAttention",
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None,
    bias: Tensor | None,
    causal: bool,
    drop: bool,
    return_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """The heads `(B, T, N, V)`, and the attention weights or None.

    The fused operation of the backend is used unless weights are returned, dropped or
    replaced.

    Args:
        layer: The layer, under whose path the values are recorded.
        q: Queries, `(B, T, N, K)`.
        k: Keys, `(B, S, N, K)`.
        v: Values, `(B, S, N, V)`.
        mask: Boolean, broadcastable to `(B, N, T, S)`, or None.
        bias: b, broadcastable to `(B, N, T, S)`, or None.
        causal: Whether to apply a causal mask; `mask` must be None.
        drop: Whether to apply the dropout of the layer to the weights.
        return_weights: Whether to return the weights.
    """
    q = record_heads(layer, "query", q)
    k = record_heads(layer, "key", k)
    v = record_heads(layer, "value", v)
    options = {"scale": layer.factor, "bias": bias}
    weighted = return_weights or drop
    if weighted or listeners.active():
        allowed = mask
        if causal:
            allowed = masks.causal(ops.shape(q)[1], ops.shape(k)[1])[:, None]
        alpha, changed = recorded_weights(layer, q, k, mask=allowed, **options)
        # If they are only traced, the fused operation gives the result all the same.
        weighted = weighted or changed
    if not weighted:
        flash = layer.flash_attention
        out = dot_product_attention(
            q, k, v, mask=mask, causal=causal, flash=flash, **options
        )
        return record_heads(layer, "heads", out), None
    dropped = alpha
    if drop:
        dropped = keras.random.dropout(alpha, layer.dropout, seed=layer.seed_generator)
    return record_heads(layer, "heads", weighted_sum(dropped, v)), alpha


class RecordedWeights(NamedTuple):
    """Attention weights α, and whether an intervention changed them."""

    alpha: Tensor
    changed: bool


def recorded_weights(
    layer: keras.Layer,
    q: Tensor,
    k: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> RecordedWeights:
    """The attention weights, recorded with scores and mask; arguments as above.

    Args:
        layer: The layer under whose path they are recorded.
        q: `(B, T, N, K)`.
        k: `(B, S, N, K)`.
        scale: λ.
        mask: Boolean, broadcastable to `(B, N, T, S)`, or None.
        bias: b, broadcastable to `(B, N, T, S)`, or None.
    """
    e = attention_scores(q, k, scale=scale, bias=bias)
    scores = tracing.record(layer, "scores", e)
    everywhere, allowed = mask, mask
    if listeners.active():
        everywhere = ops.ones(ops.shape(e), "bool")
        if mask is not None:
            everywhere = ops.logical_and(everywhere, ops.cast(mask, "bool"))
        allowed = tracing.record(layer, "mask", everywhere)
    a = masks.softmax(scores, mask if allowed is everywhere else allowed)
    alpha = tracing.record(layer, "alignment", a)
    changed = scores is not e or allowed is not everywhere or alpha is not a
    return RecordedWeights(alpha, changed)


def record_heads(layer: keras.Layer, name: str, x: Tensor) -> Tensor:
    """Records `(B, T, N, K)` as `(B, N, T, K)`, with the axes of the scores."""
    if not listeners.active():
        return x
    before = ops.swapaxes(x, 1, 2)
    after = tracing.record(layer, name, before)
    return x if after is before else ops.swapaxes(after, 1, 2)

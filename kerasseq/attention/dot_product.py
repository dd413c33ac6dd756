r"""Scaled dot-product attention of all heads, as functions of projected tensors.

$$
\alpha_n = \mathrm{softmax}\left(\lambda\, Q_n K_n^T + b_n\right), \qquad
\mathrm{head}_n = \alpha_n V_n
$$

Axes: B batch, T queries, S keys, N heads, K width of queries and keys, V width of the
values. Vaswani et al. 2017; course slides A, D and E.

`recorded_attention` is what a layer calls: its intermediate values can be recorded and
replaced.
"""

from typing import TYPE_CHECKING, NamedTuple

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.kernels import fused_attention, is_float64, matmul
from kerasseq.tracing import listeners

if TYPE_CHECKING:
    from kerasseq.attention.multi_head import MultiHeadAttention


def dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    flash: bool | None = None,
) -> Tensor:
    """Computes attention by the backend's fused operation, without its weights.

    Values of another width than the keys and float64 are computed by
    `attention_weights` instead: not every backend fuses the former, or keeps the
    precision of the latter.

    Args:
        q: Queries, `(B, T, N, K)`.
        k: Keys, `(B, S, N, K)`.
        v: Values, `(B, S, N, V)`.
        scale: λ.
        mask: Boolean, broadcastable to `(B, N, T, S)`, or None.
        bias: b, broadcastable to `(B, N, T, S)`, or None.
        causal: Whether to apply a causal mask; `mask` must be None.
        flash: Whether flash attention must (True) or must not (False) be used.

    Returns:
        `(B, T, N, V)`; zeros for a fully masked query.
    """
    fusible = v.shape[-1] == q.shape[-1] and not is_float64(q)
    if causal and (bias is not None or not fusible):
        mask, causal = masks.causal(ops.shape(q)[1], ops.shape(k)[1])[:, None], False
    if not fusible:
        alpha = attention_weights(q, k, scale=scale, mask=mask, bias=bias)
        return weighted_sum(alpha, v)
    if bias is not None:  # not every backend takes both: the bias includes the mask
        bias = ops.cast(bias, q.dtype)
        if mask is not None:
            bias = ops.where(mask, bias, masks.lowest(bias.dtype))
    out = fused_attention(
        q,
        k,
        v,
        scale=scale,
        bias=bias,
        mask=mask if bias is None else None,
        causal=causal,
        flash=flash,
    )
    if mask is None:
        return out
    # Fused attention returns the mean of all values for a fully masked query.
    any_key = ops.swapaxes(ops.any(mask, axis=-1, keepdims=True), 1, 2)
    return ops.where(any_key, out, ops.zeros_like(out))


def attention_scores(
    q: Tensor, k: Tensor, *, scale: float, bias: Tensor | None = None
) -> Tensor:
    r"""Returns the scores $\lambda Q K^T + b$, `(B, N, T, S)`; arguments as above."""
    q = ops.swapaxes(q, 1, 2) * ops.cast(scale, q.dtype)  # (B, N, T, K)
    e = matmul(q, ops.transpose(k, (0, 2, 3, 1)))  # (B, N, T, S)
    return e if bias is None else e + ops.cast(bias, e.dtype)


def attention_weights(
    q: Tensor,
    k: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Returns the attention weights α, `(B, N, T, S)`; arguments as above."""
    return masks.softmax(attention_scores(q, k, scale=scale, bias=bias), mask)


def weighted_sum(alpha: Tensor, v: Tensor) -> Tensor:
    """Sums values weighted by α: `(B, N, T, S)`, `(B, S, N, V)` to `(B, T, N, V)`."""
    return ops.swapaxes(matmul(alpha, ops.swapaxes(v, 1, 2)), 1, 2)


def repeat_heads(x: Tensor, heads_per_group: int) -> Tensor:
    """Repeats each key or value head for the query heads that share it.

    Args:
        x: `(B, S, M, K)`.
        heads_per_group: Number of query heads for each.

    Returns:
        `(B, S, M * heads_per_group, K)`.
    """
    return x if heads_per_group == 1 else ops.repeat(x, heads_per_group, axis=2)


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
    """Returns the heads `(B, T, N, V)`, and the attention weights or None.

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
    """Returns the attention weights, recorded with scores and mask; arguments as above.

    Args:
        layer: The layer under whose path they are recorded.
        q: `(B, T, N, K)`.
        k: `(B, S, N, K)`.
        scale: λ.
        mask: Boolean, broadcastable to `(B, N, T, S)`, or None.
        bias: b, broadcastable to `(B, N, T, S)`, or None.
    """
    return weights_of_scores(
        layer, attention_scores(q, k, scale=scale, bias=bias), mask
    )


def weights_of_scores(
    layer: keras.Layer, e: Tensor, mask: Tensor | None
) -> RecordedWeights:
    """Returns the softmax of scores `(B, N, T, S)`, recorded with scores and mask."""
    scores = tracing.record(layer, "scores", e, axes=listeners.HEAD_AXES)
    everywhere, allowed = mask, mask
    if listeners.active():
        everywhere = ops.ones(ops.shape(e), "bool")
        if mask is not None:
            everywhere = ops.logical_and(everywhere, ops.cast(mask, "bool"))
        allowed = tracing.record(layer, "mask", everywhere, axes=listeners.HEAD_AXES)
    a = masks.softmax(scores, mask if allowed is everywhere else allowed)
    alpha = tracing.record(layer, "alignment", a, axes=listeners.HEAD_AXES)
    changed = scores is not e or allowed is not everywhere or alpha is not a
    return RecordedWeights(alpha, changed)


def record_heads(layer: keras.Layer, name: str, x: Tensor) -> Tensor:
    """Records `(B, T, N, K)` as `(B, N, T, K)`, with the axes of the scores."""
    if not listeners.active():
        return x
    before = ops.swapaxes(x, 1, 2)
    after = tracing.record(layer, name, before, axes=listeners.HEAD_AXES)
    return x if after is before else ops.swapaxes(after, 1, 2)

r"""What all heads of multi-head attention compute, as functions of projected tensors.

$$
\mathrm{head}_n = \mathrm{softmax}\left(\lambda\, Q_n K_n^T + b_n\right) V_n
$$

Letters: B batch, T queries, S keys, N heads, K their width, V width of the values.
Vaswani et al. 2017; course slides A, D and E.
"""

from keras import ops

from kerasseq.core import masks
from kerasseq.kernels import fused_attention, is_float64, matmul


def attend(q, k, v, *, scale, mask=None, bias=None, causal=False, flash=None):
    """All heads, by the backend's fused attention: the weights are never written down.

    Where values are not as wide as keys, or all is in float64, they are: not every
    backend can fuse the one, or keeps all bits of the other.

    Args:
        q: `(B, T, N, K)`.
        k: `(B, S, N, K)`.
        v: `(B, S, N, V)`.
        scale: λ.
        mask: Boolean, of a shape that broadcasts to `(B, N, T, S)`, or None.
        bias: b, of such a shape, or None.
        causal: Whether a query sees no future, instead of a mask.
        flash: Whether flash attention must (True) or must not (False) be used.

    Returns:
        `(B, T, N, V)`; zeros where a query may look nowhere.
    """
    if v.shape[-1] != q.shape[-1] or is_float64(q):
        if causal:
            mask = masks.causal(ops.shape(q)[1], ops.shape(k)[1])[:, None]
        return combine(weigh(q, k, scale=scale, mask=mask, bias=bias), v)
    if bias is not None:  # not every backend takes both: the mask becomes a part of it
        if causal:
            mask, causal = (
                masks.causal(ops.shape(q)[1], ops.shape(k)[1])[:, None],
                False,
            )
        bias = ops.cast(bias, q.dtype)
        if mask is not None:
            bias = ops.where(mask, bias, masks.lowest(bias.dtype))
    heads = fused_attention(
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
        return heads
    # Fused attention gives the mean of all values where nothing is let through.
    somewhere = ops.swapaxes(ops.any(mask, axis=-1, keepdims=True), 1, 2)
    return ops.where(somewhere, heads, ops.zeros_like(heads))


def weigh(q, k, *, scale, mask=None, bias=None):
    """The weights of all heads, `(B, N, T, S)`; arguments as for `attend`."""
    q = ops.swapaxes(q, 1, 2) * ops.cast(scale, q.dtype)  # (B, N, T, K)
    e = matmul(q, ops.transpose(k, (0, 2, 3, 1)))  # (B, N, T, S)
    return masks.softmax(e if bias is None else e + ops.cast(bias, e.dtype), mask)


def combine(alpha, v):
    """The values, weighed: `(B, N, T, S)` and `(B, S, N, V)` to `(B, T, N, V)`."""
    return ops.swapaxes(matmul(alpha, ops.swapaxes(v, 1, 2)), 1, 2)


def repeat_heads(x, times):
    """Each head `times` times in a row: what queries of a group share.

    Args:
        x: `(B, S, N, K)`.
        times: Queries per group.

    Returns:
        `(B, S, N * times, K)`.
    """
    return x if times == 1 else ops.repeat(x, times, axis=2)

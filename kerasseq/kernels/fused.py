"""All heads of attention as one operation of the backend."""

import keras
from keras import ops


def fused_attention(q, k, v, *, scale, bias=None, mask=None, causal=False, flash=None):
    r"""$\mathrm{softmax}(\lambda\, Q K^T + b) V$, with weights never written down.

    On PyTorch its own operation runs without what Keras does before it: it copies all
    keys and values, which takes longer than to attend to them with one query.

    Args:
        q: `(B, T, N, K)`.
        k: `(B, S, N, K)`.
        v: `(B, S, N, K)`.
        scale: λ.
        bias: b, of a shape that broadcasts to `(B, N, T, S)`; without a mask.
        mask: Boolean, of such a shape; without a bias.
        causal: Whether a query sees no future; without the others.
        flash: Whether flash attention must (True) or must not (False) be used.

    Returns:
        `(B, T, N, K)`. What a row gives that sees nothing is left open.

    Examples:
        >>> x = keras.ops.ones((2, 5, 3, 7))
        >>> keras.ops.shape(fused_attention(x, x, x, scale=1.0, causal=True))
        (2, 5, 3, 7)
    """
    alike = q.dtype == k.dtype == v.dtype
    if keras.backend.backend() == "torch" and flash is None and alike:
        return _torch(q, k, v, scale, bias, mask, causal)
    return ops.dot_product_attention(
        q,
        k,
        v,
        bias=bias,
        mask=mask,
        scale=scale,
        is_causal=causal,
        flash_attention=flash,
    )


def _torch(q, k, v, scale, bias, mask, causal):
    import torch

    if mask is not None:  # -inf would give NaN where a query sees nothing
        bias = torch.zeros(mask.shape, dtype=q.dtype, device=mask.device)
        bias = bias.masked_fill(~mask, torch.finfo(q.dtype).min)
    elif bias is not None:
        bias = bias.to(q.dtype)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    heads = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, is_causal=causal, scale=scale
    )
    return heads.transpose(1, 2)

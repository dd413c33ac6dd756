"""Attention by `keras.ops.dot_product_attention`."""

from keras import ops


def fused_attention(q, k, v, *, scale, bias, mask, causal, flash):
    """See `kerasseq.kernels.fused_attention`."""
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

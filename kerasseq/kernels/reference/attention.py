"""Attention by `keras.ops.dot_product_attention`."""

from keras import ops

from kerasseq.core.types import Tensor


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    bias: Tensor | None,
    mask: Tensor | None,
    causal: bool,
    flash: bool | None,
) -> Tensor:
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

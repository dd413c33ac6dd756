"""Attention on PyTorch by its own operation.

Keras copies all keys and values before it calls this operation, which takes longer than
to attend to them with one query.
"""

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels.reference import attention as reference


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
    if flash is not None or not q.dtype == k.dtype == v.dtype:
        options = {"scale": scale, "bias": bias, "mask": mask}
        options |= {"causal": causal, "flash": flash}
        return reference.fused_attention(q, k, v, **options)
    if mask is not None:  # -inf would give NaN for a fully masked query
        bias = torch.zeros(mask.shape, dtype=q.dtype, device=mask.device)
        # Half of the lowest number, so that adding a score does not give -inf.
        bias = bias.masked_fill(~mask, torch.finfo(q.dtype).min / 2)
    elif bias is not None:
        bias = bias.to(q.dtype)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    heads = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, is_causal=causal, scale=scale
    )
    return heads.transpose(1, 2)

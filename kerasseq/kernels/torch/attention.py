"""Attention on PyTorch by its own operation.

Keras copies all keys and values before it calls this operation, which takes longer than
to attend to them with one query.
"""

from typing import Any

import torch
from keras import ops

from kerasseq.core.types import Tensor


def fused_attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """See `kerasseq.kernels.fused_attention`; takes the options of Keras."""
    if options["flash_attention"] is not None or not q.dtype == k.dtype == v.dtype:
        return ops.dot_product_attention(q, k, v, **options)
    bias, mask = options["bias"], options["mask"]
    if mask is not None:  # -inf would give NaN for a fully masked query
        bias = torch.zeros(mask.shape, dtype=q.dtype, device=mask.device)
        # Half of the lowest number, so that adding a score does not give -inf.
        bias = bias.masked_fill(~mask, torch.finfo(q.dtype).min / 2)
    elif bias is not None:
        bias = bias.to(q.dtype)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    heads = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, is_causal=options["is_causal"], scale=options["scale"]
    )
    return heads.transpose(1, 2)

"""All heads of attention as one operation of the backend."""

import keras
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.operations import backend_module


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    flash: bool | None = None,
) -> Tensor:
    r"""$\mathrm{softmax}(\lambda\, Q K^T + b) V$, without materializing the weights.

    Args:
        q: `(B, T, N, K)`.
        k: `(B, S, N, K)`.
        v: `(B, S, N, K)`.
        scale: λ.
        bias: b, of a shape that broadcasts to `(B, N, T, S)`; without a mask.
        mask: Boolean, of such a shape; without a bias.
        causal: Whether to apply a causal mask; without the others.
        flash: Whether flash attention must (True) or must not (False) be used.

    Returns:
        `(B, T, N, K)`. The output of a fully masked query is undefined.

    Examples:
        >>> x = keras.ops.ones((2, 5, 3, 7))
        >>> keras.ops.shape(fused_attention(x, x, x, scale=1.0, causal=True))
        (2, 5, 3, 7)
    """
    options = {"scale": scale, "bias": bias, "mask": mask}
    options |= {"is_causal": causal, "flash_attention": flash}
    if keras.backend.backend() == "tensorflow":
        return ops.dot_product_attention(q, k, v, **options)
    return backend_module("functions").fused_attention(q, k, v, **options)

"""All heads of attention as one operation of the backend."""

import keras
from keras import ops


def fused_attention(q, k, v, *, scale, bias=None, mask=None, causal=False, flash=None):
    r"""$\mathrm{softmax}(\lambda\, Q K^T + b) V$, with weights never written down.

    On PyTorch its own operation runs without what Keras does before it: it copies all
    keys and values, which takes longer than to attend to them with one query. So does
    XLA on a CPU, where one query is written as products of one head each.

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
    if keras.backend.backend() == "jax" and not causal and _is_one_query(q, k, v):
        return _jax_one_query(q, k, v, scale, bias, mask)
    if keras.backend.backend() == "jax" and alike and _is_half_on_cpu(q):
        q, k, v = (ops.cast(x, "float32") for x in (q, k, v))
        options = {"scale": scale, "bias": bias, "mask": mask, "causal": causal}
        return ops.cast(fused_attention(q, k, v, flash=flash, **options), "float16")
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


def _is_one_query(q, k, v):
    """Whether it is a step of writing one text on a CPU, in float32."""
    import jax

    kinds = {keras.backend.standardize_dtype(x.dtype) for x in (q, k, v)}
    is_one = tuple(q.shape[:2]) == (1, 1) and k.shape[0] == 1
    return is_one and kinds == {"float32"} and jax.default_backend() == "cpu"


def _is_half_on_cpu(x):
    """Whether JAX cannot compile it: no CPU has the precision that it asks for."""
    import jax

    is_half = keras.backend.standardize_dtype(x.dtype) == "float16"
    return is_half and jax.default_backend() == "cpu"


def _jax_one_query(q, k, v, scale, bias, mask):
    """Head by head, `(1, 1, N, K)`: XLA is slow at one product of all heads."""

    def of_head(x, n):
        """What `(1, N or 1, 1, S)` has for a head."""
        return x[0, n if x.shape[1] > 1 else 0, 0]

    heads = []
    for n in range(q.shape[2]):
        e = (k[0, :, n] @ q[0, 0, n]) * scale  # (S,)
        if bias is not None:
            e = e + of_head(bias, n)
        if mask is not None:
            e = ops.where(of_head(mask, n), e, ops.cast(-1e30, e.dtype))
        heads.append(ops.softmax(e) @ v[0, :, n])
    return ops.stack(heads)[None, None]


def _torch(q, k, v, scale, bias, mask, causal):
    import torch

    if mask is not None:  # -inf would give NaN where a query sees nothing
        bias = torch.zeros(mask.shape, dtype=q.dtype, device=mask.device)
        # Half of the lowest number: less a score, it is not minus infinity.
        bias = bias.masked_fill(~mask, torch.finfo(q.dtype).min / 2)
    elif bias is not None:
        bias = bias.to(q.dtype)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    heads = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, is_causal=causal, scale=scale
    )
    return heads.transpose(1, 2)

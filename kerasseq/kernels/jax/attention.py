"""Attention on JAX, with two exceptions for XLA on a CPU."""

from typing import Any

import jax
import keras
from keras import ops

from kerasseq.core.types import Tensor


def fused_attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """See `kerasseq.kernels.fused_attention`; takes the options of Keras."""
    if not options["is_causal"] and _is_one_query(q, k, v):
        return _one_query(q, k, v, options["scale"], options["bias"], options["mask"])
    if q.dtype == k.dtype == v.dtype and _is_half_on_cpu(q):
        q, k, v = (ops.cast(x, "float32") for x in (q, k, v))
        return ops.cast(ops.dot_product_attention(q, k, v, **options), "float16")
    return ops.dot_product_attention(q, k, v, **options)


def _is_one_query(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether it is one step of generating one text on a CPU, in float32."""
    kinds = {keras.backend.standardize_dtype(x.dtype) for x in (q, k, v)}
    is_one = tuple(q.shape[:2]) == (1, 1) and k.shape[0] == 1
    return is_one and kinds == {"float32"} and jax.default_backend() == "cpu"


def _is_half_on_cpu(x: Tensor) -> bool:
    """Whether JAX cannot compile it: no CPU supports the precision it requests."""
    is_half = keras.backend.standardize_dtype(x.dtype) == "float16"
    return is_half and jax.default_backend() == "cpu"


def _one_query(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    bias: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """Attends head by head: in one product for all heads XLA copies all keys."""

    def of_head(x: Tensor, n: int) -> Tensor:
        """The scores `(S,)` of one head, from `(1, N or 1, 1, S)`."""
        return x[0, n if x.shape[1] > 1 else 0, 0]

    heads = []
    for n in range(q.shape[2]):
        e = (k[0, :, n] @ q[0, 0, n]) * scale  # (S,)
        if bias is not None:
            e = e + of_head(bias, n)
        if mask is not None:
            e = ops.where(of_head(mask, n), e, ops.cast(-1e30, e.dtype))
        heads.append(jax.nn.softmax(e) @ v[0, :, n])  # Keras' warns about one key
    return ops.stack(heads)[None, None]

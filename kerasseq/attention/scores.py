r"""Attention scores of a query $s$ and a key $h$: one function for each score.

Queries are `(B, T_q, D_q)`, keys `(B, T_k, D_k)`, scores `(B, T_q, T_k)`. The weights
are arguments. Course slides B list all of them; Bahdanau et al. 2015, Graves et al.
2014 (cosine), Luong et al. 2015, Vaswani et al. 2017.
"""

import math

from keras import ops

from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.kernels import matmul, tanh


def dot(s: Tensor, h: Tensor) -> Tensor:
    r"""Computes $s^T h$, for equal widths."""
    return matmul(s, ops.swapaxes(h, -1, -2))


def scaled_dot(s: Tensor, h: Tensor) -> Tensor:
    r"""Computes $s^T h / \sqrt{D}$: the variance of a sum of D products is D."""
    return dot(s, h) / math.sqrt(s.shape[-1])


def cosine(
    s: Tensor, h: Tensor, beta: float | Tensor = 1.0, epsilon: float = 1e-7
) -> Tensor:
    r"""Computes $\beta\, s^T h / (|s|\,|h|)$, which depends on the angle only.

    $\beta$ sharpens the softmax, which is nearly uniform for scores from -1 to 1.
    """
    return beta * dot(_unit(s, epsilon), _unit(h, epsilon))


def _unit(x, epsilon):
    squares = ops.sum(ops.square(x), axis=-1, keepdims=True)
    least = ops.cast(epsilon, squares.dtype)
    # ops.maximum would compute float64 in float32 on PyTorch.
    return x * ops.rsqrt(ops.where(squares > least, squares, least))


def general(s: Tensor, h: Tensor, W: Tensor) -> Tensor:
    r"""Computes $s^T W h$, with W `(D_q, D_k)`, for any widths."""
    return dot(matmul(s, W), h)


def additive(s: Tensor, h: Tensor, W_q: Tensor, W_k: Tensor, v: Tensor) -> Tensor:
    r"""Returns $v^T \tanh(W_q s + W_k h)$, W_q `(D_q, U)`, W_k `(D_k, U)`, v `(U,)`."""
    return additive_projected(matmul(s, W_q), matmul(h, W_k), v)


def additive_projected(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    r"""Returns $v^T \tanh(q + k)$ of projected queries and keys, `(B, T, U)` each."""
    hidden = tanh(q[:, :, None, :] + k[:, None, :, :])  # (B, T_q, T_k, U)
    return ops.squeeze(matmul(hidden, v[:, None]), -1)


def concat(s: Tensor, h: Tensor, W: Tensor, v: Tensor) -> Tensor:
    r"""Computes $v^T \tanh(W [s; h])$, with W `(D_q + D_k, U)`.

    Equal to `additive`, where W is W_q stacked on W_k.
    """
    width = s.shape[-1]
    return additive(s, h, W[:width], W[width:], v)


def location(s: Tensor, W: Tensor, key_time: int | Tensor) -> Tensor:
    r"""Computes $W s$, which depends on the query only.

    Args:
        s: Queries.
        W: `(D_q, L)`, one column for each source position, up to a maximum of L.
        key_time: $T_k$. Positions beyond L get the score of masked keys.
    """
    L, e = W.shape[-1], matmul(s, W)
    if isinstance(key_time, int) and key_time <= L:
        return e[..., :key_time]
    positions = ops.arange(key_time, dtype="int32")
    e = ops.take(e, ops.minimum(positions, L - 1), axis=-1)
    return ops.where(positions < L, e, masks.lowest(e.dtype))

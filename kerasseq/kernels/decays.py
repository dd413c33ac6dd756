r"""Products of decays within a chunk, for `linear_attention`.

The weight of step j at step t has the factor $\prod_{i=j+1}^t \alpha_i$. A quotient of
two products from the start of the chunk would underflow, and a difference of two sums
of logarithms would lose the small ones beside the large ones. So sums of neighboring
blocks are combined, from one step up to the chunk: every exponent is a sum of numbers
of one sign, at most 0, and -inf is a step that forgets all.

Axes: C chunks, B batch, N heads, L steps of a chunk, K width of the keys.
"""

import math

import numpy as np
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.operations import matmul


class NoDecay:
    """What `linear_attention` needs to know about decays; here all are 1."""

    def products(self, q: Tensor, k: Tensor, exclusive: bool = False) -> Tensor:
        r"""Returns the weights $q_t^T \prod_{i=j+1}^t \alpha_i\, k_j$ of $j \le t$.

        Args:
            q: `(C, B, N, L, K)`.
            k: `(C, B, N, L, K)`.
            exclusive: Whether the step t comes before its own decay: products end with
                t - 1, and weights are for $j < t$ only.

        Returns:
            `(C, B, N, L, L)`, zeros for later steps j.
        """
        return _lower(matmul(q, ops.swapaxes(k, -1, -2)), exclusive)

    def from_start(self, q: Tensor, exclusive: bool = False) -> Tensor:
        """Decays q from the start of the chunk up to each step."""
        return q

    def to_end(self, k: Tensor) -> Tensor:
        """Decays k from each step to the end of the chunk."""
        return k

    def whole(self) -> Tensor | None:
        """Returns the decay of a whole chunk, `(C, B, N, K or 1)`; None if it is 1."""
        return None


class HeadDecay(NoDecay):
    r"""One decay for each head and step.

    Args:
        log_decay: $\log \alpha$, `(C, B, N, L)`.

    Attributes:
        first: From the start of the chunk up to each step, `(C, B, N, L, K or 1)`.
        last: From each step to the end of the chunk.
    """

    def __init__(self, log_decay: Tensor) -> None:
        first, last = log_decay[..., None], ops.zeros_like(log_decay)[..., None]
        between = last[..., None]
        for h in _sizes(log_decay.shape[-1]):
            (a, b), (x, y) = _pairs(first, h, 1), _pairs(last, h, 1)
            m, n = _pairs(between, h, 2)
            cross = b[..., :, None] + x[..., None, :]
            between = _blocks(m, ops.full_like(m, -np.inf), cross, n)
            first, last = _join(a, b, x, y, axis=-1)
        self.between: Tensor = ops.exp(between[..., 0, :, :])  # (C, B, N, L, L)
        self.first: Tensor = ops.exp(first[..., 0, :, None])  # (C, B, N, L, 1)
        self.last: Tensor = ops.exp(last[..., 0, :, None])

    def products(self, q: Tensor, k: Tensor, exclusive: bool = False) -> Tensor:
        """Returns the decayed weights of steps j at steps t, `(C, B, N, L, L)`."""
        between = _shift(self.between, 0.0) if exclusive else self.between
        # Zero times a product that overflowed would be NaN: it is zero before.
        return super().products(q, k, exclusive) * between

    def from_start(self, q: Tensor, exclusive: bool = False) -> Tensor:
        """Decays q, `(C, B, N, L, K)`, from the start of the chunk up to each step."""
        return q * (_shift(self.first, 1.0) if exclusive else self.first)

    def to_end(self, k: Tensor) -> Tensor:
        """Decays k, `(C, B, N, L, K)`, from each step to the end of the chunk."""
        return k * self.last

    def whole(self) -> Tensor:
        """Returns the decay of a whole chunk, `(C, B, N, K or 1)`."""
        return self.first[..., -1, :]


class ChannelDecay(HeadDecay):
    r"""One decay for each head, step and channel.

    Args:
        log_decay: $\log \alpha$, `(C, B, N, L, K)`.
    """

    def __init__(self, log_decay: Tensor) -> None:
        first, last = log_decay[..., None, :], ops.zeros_like(log_decay)[..., None, :]
        # Of pairs of blocks: the decays in the second and in the first.
        self.levels: list[tuple[Tensor, Tensor]] = []
        for h in _sizes(log_decay.shape[-2]):
            (a, b), (x, y) = _pairs(first, h, 2), _pairs(last, h, 2)
            self.levels.append((ops.exp(b), ops.exp(x)))
            first, last = _join(a, b, x, y, axis=-2)
        self.first: Tensor = ops.exp(first[..., 0, :, :])  # (C, B, N, L, K)
        self.last: Tensor = ops.exp(last[..., 0, :, :])

    def products(self, q: Tensor, k: Tensor, exclusive: bool = False) -> Tensor:
        """Returns the decayed weights of steps j at steps t, `(C, B, N, L, L)`."""
        same = ops.sum(q * k, axis=-1)[..., None, None]  # (C, B, N, L, 1, 1)
        weights = ops.zeros_like(same) if exclusive else same
        for second, first in self.levels:
            h = second.shape[-2]
            second = _shift(second, 1.0) if exclusive else second
            q2, k1 = _pairs(q, h, 2)[1] * second, _pairs(k, h, 2)[0] * first
            m, n = _pairs(weights, h, 2)
            cross = matmul(q2, ops.swapaxes(k1, -1, -2))
            weights = _blocks(m, ops.zeros_like(m), cross, n)
        return weights[..., 0, :, :]


def _sizes(L):
    """Returns the sizes of blocks that are joined in pairs: 1, 2, 4 ... L / 2."""
    return [2**n for n in range(L.bit_length() - 1)]


def _pairs(x, h, axes):
    """Returns the first and the second blocks of neighbors.

    Args:
        x: `(C, B, N, ...)`, the blocks of all steps in order.
        h: Steps of a block.
        axes: Number of axes of a block, the last ones of the result.
    """
    inside = len(x.shape) - axes + 1
    steps, width = math.prod(x.shape[3:inside]), x.shape[inside:]
    count = steps // (2 * h)  # not -1, which 0 rows do not tell
    pairs = ops.reshape(x, (*ops.shape(x)[:3], count, 2, h, *width))
    return ops.unstack(pairs, 2, axis=-1 - axes)


def _join(a, b, x, y, axis):
    """Sums from the start and to the end of neighboring blocks, taken as one block."""
    end = (..., slice(-1, None), *[slice(None)] * (-1 - axis))
    first = ops.concatenate([a, a[end] + b], axis)
    return first, ops.concatenate([x + b[end], y], axis)


def _blocks(top_left, top_right, bottom_left, bottom_right):
    """Returns a matrix of four blocks."""
    top = ops.concatenate([top_left, top_right], -1)
    return ops.concatenate([top, ops.concatenate([bottom_left, bottom_right], -1)], -2)


def _shift(x, value):
    """Moves the rows down by one; the first has this value."""
    row = ops.full_like(x[..., :1, :], value)
    return ops.concatenate([row, x[..., :-1, :]], -2)


def _lower(x, exclusive):
    """Sets what is above the diagonal of square matrices to zero."""
    L = x.shape[-1]
    mask = np.tril(np.ones((L, L), bool), -1 if exclusive else 0)
    return ops.where(mask, x, ops.zeros((), x.dtype))

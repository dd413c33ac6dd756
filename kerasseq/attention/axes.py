"""Attention over some of several axes: the others are folded into the batch."""

import math
from collections.abc import Sequence

from keras import ops

from kerasseq.core.types import Shape, Tensor


def attended(attention_axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Returns the axes to attend over, counted from the front.

    Args:
        attention_axes: Axis, axes, or None for all between batch and features.
        rank: Number of axes of the query.

    Examples:
        >>> attended(None, 4), attended(-2, 4)
        ((1, 2), (2,))
    """
    if attention_axes is None:
        return tuple(range(1, rank - 1))
    given = attention_axes
    given = (given,) if isinstance(given, int) else given
    chosen = tuple(axis if axis >= 0 else rank + axis for axis in given)
    if not all(0 < axis < rank - 1 for axis in chosen):
        raise ValueError(
            "attention_axes must be axes between batch and features of a query of rank "
            f"{rank}, received {attention_axes}. Choose from 1 to {rank - 2}"
        )
    return chosen


def fold(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Shape]:
    """Reshapes `(B, ..., N, K)` to `(B', T, N, K)`.

    Args:
        x: Projected tensor, with any axes between batch and heads.
        axes: Axes to attend over, in order; they become T.

    Returns:
        The folded tensor, and its shape before folding with the other axes in front:
        `(B, other..., attended..., N, K)`.
    """
    rank = len(x.shape)
    others = [axis for axis in range(1, rank - 2) if axis not in axes]
    x = ops.transpose(x, (0, *others, *axes, rank - 2, rank - 1))
    shape = ops.shape(x)
    split = 1 + len(others)
    folded = (math.prod(shape[:split]), math.prod(shape[split:-2]), *shape[-2:])
    return ops.reshape(x, folded), shape


def unfold(x: Tensor, axes: Sequence[int], shape: Shape) -> Tensor:
    """Reverts `fold`, for a tensor whose last axis may have another size."""
    rank = len(shape)
    others = [axis for axis in range(1, rank - 2) if axis not in axes]
    x = ops.reshape(x, (*shape[:-1], x.shape[-1]))
    order = (0, *others, *axes, rank - 2, rank - 1)
    return ops.transpose(x, [order.index(axis) for axis in range(rank)])


def unfold_weights(
    alpha: Tensor, axes: Sequence[int], query_shape: Shape, key_shape: Shape
) -> Tensor:
    """Reshapes weights `(B', N, T, S)` to `(B, other..., N, T..., S...)`."""
    split = len(query_shape) - 2 - len(axes)
    attended = (*query_shape[split:-2], *key_shape[split:-2])
    return ops.reshape(alpha, (*query_shape[:split], query_shape[-2], *attended))


def fold_mask(
    mask: Tensor, axes: Sequence[int], query_shape: Shape, key_shape: Shape
) -> Tensor:
    """Reshapes a mask `(B, [other...,] T..., S...)` to `(B', 1, T, S)`."""
    split = len(query_shape) - 2 - len(axes)
    others, T, S = query_shape[1:split], query_shape[split:-2], key_shape[split:-2]
    if len(mask.shape) == 1 + 2 * len(axes):
        mask = ops.reshape(mask, (-1, *[1] * len(others), *ops.shape(mask)[1:]))
    mask = ops.broadcast_to(mask, (query_shape[0], *others, *T, *S))
    return ops.reshape(mask, (-1, 1, math.prod(T), math.prod(S)))


def fold_all(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, axes: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, tuple[Shape, Shape]]:
    """Folds queries, keys, values and mask; returns the shapes to unfold with, too."""
    q, query_shape = fold(q, axes)
    k, key_shape = fold(k, axes)
    v, _ = fold(v, axes)
    if mask is not None:
        mask = fold_mask(mask, axes, query_shape, key_shape)
    return q, k, v, mask, (query_shape, key_shape)


def unfold_all(
    out: Tensor, alpha: Tensor | None, axes: Sequence[int], shapes: tuple[Shape, Shape]
) -> tuple[Tensor, Tensor | None]:
    """Unfolds the output of the heads, and the weights if they are not None."""
    out = unfold(out, axes, shapes[0])
    return out, None if alpha is None else unfold_weights(alpha, axes, *shapes)

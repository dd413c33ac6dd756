"""Attention over some axes of many: the others join the batch, and come back."""

import functools
import operator

from keras import ops


def fold(x, axes):
    """Bring `(B, ..., N, K)` to `(B', T, N, K)`.

    Args:
        x: Projected tensor, with any axes between batch and heads.
        axes: Those that are attended over, in order; they become T.

    Returns:
        The folded tensor, and its shape before folding with the free axes in front:
        `(B, free..., attended..., N, K)`.
    """
    rank = len(x.shape)
    free = [axis for axis in range(1, rank - 2) if axis not in axes]
    x = ops.transpose(x, (0, *free, *axes, rank - 2, rank - 1))
    shape = ops.shape(x)
    cut = 1 + len(free)
    folded = (_product(shape[:cut]), _product(shape[cut:-2]), *shape[-2:])
    return ops.reshape(x, folded), shape


def unfold(x, axes, shape):
    """Undo `fold`, of a tensor whose last axis may have another size."""
    rank = len(shape)
    free = [axis for axis in range(1, rank - 2) if axis not in axes]
    x = ops.reshape(x, (*shape[:-1], x.shape[-1]))
    order = (0, *free, *axes, rank - 2, rank - 1)
    return ops.transpose(x, [order.index(axis) for axis in range(rank)])


def unfold_weights(alpha, axes, query_shape, key_shape):
    """Bring `(B', N, T, S)` to `(B, free..., N, T..., S...)`."""
    cut = len(query_shape) - 2 - len(axes)
    attended = (*query_shape[cut:-2], *key_shape[cut:-2])
    return ops.reshape(alpha, (*query_shape[:cut], query_shape[-2], *attended))


def fold_mask(mask, axes, query_shape, key_shape):
    """Bring a mask `(B, [free...,] T..., S...)` to `(B', 1, T, S)`."""
    cut = len(query_shape) - 2 - len(axes)
    free, T, S = query_shape[1:cut], query_shape[cut:-2], key_shape[cut:-2]
    if len(mask.shape) == 1 + 2 * len(axes):
        mask = ops.reshape(mask, (-1, *[1] * len(free), *ops.shape(mask)[1:]))
    mask = ops.broadcast_to(mask, (query_shape[0], *free, *T, *S))
    return ops.reshape(mask, (-1, 1, _product(T), _product(S)))


def fold_all(q, k, v, mask, axes):
    """Queries, keys, values and mask folded, and the shapes to undo it by."""
    q, query_shape = fold(q, axes)
    k, key_shape = fold(k, axes)
    v, _ = fold(v, axes)
    if mask is not None:
        mask = fold_mask(mask, axes, query_shape, key_shape)
    return q, k, v, mask, (query_shape, key_shape)


def unfold_all(out, alpha, axes, shapes):
    """The heads and, if there are any, the weights as they were before folding."""
    out = unfold(out, axes, shapes[0])
    return out, None if alpha is None else unfold_weights(alpha, axes, *shapes)


def _product(sizes):
    return functools.reduce(operator.mul, sizes, 1)

"""NaN and infinity that reach no earlier steps.

An algorithm that computes several steps in one product multiplies later steps by zero,
and zero times NaN is NaN. So the product has zeros in their place, and the outputs from
that step on are NaN afterwards.
"""

import math

import keras
from keras import ops

from kerasseq.core.types import Tensor


def zero_non_finite(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns x with zeros in place of NaN and infinity, and where they were.

    Args:
        x: A tensor.

    Returns:
        x, and booleans of its shape.

    Examples:
        >>> x, hidden = zero_non_finite(np.array([1.0, np.nan, -np.inf], "float32"))
        >>> keras.ops.convert_to_numpy(x).tolist()
        [1.0, 0.0, 0.0]
    """
    finite = ops.isfinite(x)
    return ops.where(finite, x, ops.zeros((), x.dtype)), ops.logical_not(finite)


def since_first(condition: Tensor) -> Tensor:
    """Whether the condition held at a step or at one before.

    Args:
        condition: Boolean, `(B, T, ...)`.

    Examples:
        >>> since_first(np.array([[False, True, False]])).tolist()
        [[False, True, True]]
    """
    T = ops.shape(condition)[1]
    steps = ops.arange(T, dtype="int32")
    steps = ops.reshape(steps, (1, T, *[1] * (len(condition.shape) - 2)))
    first = ops.amin(ops.where(condition, steps, T), axis=1, keepdims=True)
    return steps >= first


def spoil(x: Tensor, where: Tensor) -> Tensor:
    """Returns x with NaN where the condition holds.

    Args:
        x: A tensor.
        where: Boolean, broadcastable to the shape of x.

    Examples:
        >>> y = spoil(keras.ops.ones((2,)), np.array([True, False]))
        >>> keras.ops.convert_to_numpy(y).tolist()
        [nan, 1.0]
    """
    return ops.where(
        where, ops.full((), math.nan, keras.backend.standardize_dtype(x.dtype)), x
    )

"""NaN and infinity that reach no earlier steps.

An algorithm that computes several steps in one product multiplies later steps by zero,
and zero times NaN is NaN. So the product has zeros in their place, and the outputs from
that step on are NaN afterwards.
"""

import math

import keras
from keras import ops

from kerasseq.core.masks import largest
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
    hidden = ops.logical_not(ops.isfinite(x))
    return ops.where(hidden, ops.zeros((), x.dtype), x), hidden


def since_first(condition: Tensor, axis: int = 1) -> Tensor:
    """Returns whether the condition held at a step or at one before.

    Args:
        condition: Boolean, `(B, T, ...)`.
        axis: The axis of the steps.

    Examples:
        >>> keras.ops.convert_to_numpy(since_first(np.array([[False, True, False]])))
        array([[False,  True,  True]])
    """
    T = ops.shape(condition)[axis]
    shape = [T if n == axis else 1 for n in range(len(condition.shape))]
    steps = ops.reshape(ops.arange(T, dtype="int32"), shape)
    # The smallest number, also of 0 rows, of which TensorFlow computes none.
    first = -largest(-ops.where(condition, steps, T), axis=axis, keepdims=True)
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

"""Initial values in dtypes of 16 bits, which the decompositions of backends lack."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from kerasseq.core.types import DType, Tensor

NARROW = ("bfloat16", "float16")


class WithInitialValues:
    """A layer that initializes weights of 16 bits with any initializer: a mixin."""

    def add_weight(
        self,
        shape: Any = None,
        initializer: Any = None,
        dtype: DType | None = None,
        **kwargs: Any,
    ) -> keras.Variable:
        """Adds a weight, as `keras.Layer.add_weight`."""
        if initializer is not None:
            initializer = in_float32(keras.initializers.get(initializer))
        return super().add_weight(shape, initializer, dtype, **kwargs)


def in_float32(initializer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns an initializer that draws in float32 what a backend cannot in 16 bits.

    These are orthogonal matrices, whose QR decomposition is of 32 or 64 bits on PyTorch
    and JAX. Others are returned as they are, since their draws depend on the dtype.

    Args:
        initializer: The initializer.

    Examples:
        >>> draw = in_float32(keras.initializers.Orthogonal(seed=0))
        >>> W = draw((3, 3), dtype="bfloat16")
        >>> keras.backend.standardize_dtype(W.dtype)
        'bfloat16'
        >>> zeros = keras.initializers.Zeros()
        >>> in_float32(zeros) is zeros
        True
    """
    if not isinstance(initializer, keras.initializers.Orthogonal):
        return initializer

    def draw(shape: tuple[int, ...], dtype: DType | None = None) -> Tensor:
        dtype = dtype or keras.config.floatx()
        if keras.backend.standardize_dtype(dtype) not in NARROW:
            return initializer(shape, dtype=dtype)
        return ops.cast(initializer(shape, dtype="float32"), dtype)

    return draw

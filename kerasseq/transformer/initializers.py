"""Initializers of Transformer blocks."""

import math
from collections.abc import Callable

import keras

from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.types import DType, Identifier, Tensor


@register
class ScaledInitializer(ListedConfig, keras.initializers.Initializer):
    """Values of another initializer, multiplied by a constant.

    Args:
        initializer: The other initializer.
        factor: The constant.

    Examples:
        >>> keras.ops.convert_to_numpy(ScaledInitializer("ones", 0.5)((2,))).tolist()
        [0.5, 0.5]
    """

    def __init__(self, initializer: Identifier, factor: float) -> None:
        self.initializer: Callable[..., Tensor] = keras.initializers.get(initializer)
        self.factor = factor

    def __call__(self, shape: tuple[int, ...], dtype: DType | None = None) -> Tensor:
        return self.factor * self.initializer(shape, dtype)


@register
class FanInNormal(ListedConfig, keras.initializers.Initializer):
    r"""Normal initializer with standard deviation $1 / \sqrt n$ for n inputs.

    Keras' initializers count N D inputs for a kernel `(D, N, K)` to the heads of an
    attention, instead of D. Its weights are then so small that a sublayer adds next to
    nothing to the residual stream.

    Args:
        width: D, the width of the residual stream. A kernel `(D, ...)` has D inputs, a
            kernel `(..., D)` the product of all axes but the last.

    Examples:
        >>> kernel = FanInNormal(width=64)((64, 4, 16))
        >>> print("%.1f" % (8 * keras.ops.std(kernel)))
        1.0

    References:
        Raffel et al. 2020, code.
    """

    def __init__(self, width: int) -> None:
        self.width = width

    def __call__(self, shape: tuple[int, ...], dtype: DType | None = None) -> Tensor:
        n = shape[0] if shape[0] == self.width else math.prod(shape[:-1])
        return keras.initializers.RandomNormal(stddev=n**-0.5)(shape, dtype)

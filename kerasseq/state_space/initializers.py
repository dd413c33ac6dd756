"""Initial values of the weights of state space models."""

import keras
import numpy as np
from keras import ops

from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.types import DType, Shape, Tensor


@register
class StepSizes(ListedConfig, keras.initializers.Initializer):
    r"""Draws step sizes $\Delta$, evenly in their logarithm, as a layer stores them.

    Args:
        low: The smallest step size.
        high: The largest step size.
        stored_as: "log", or "inverse_softplus" where the layer takes the softplus.
        seed: Seed of the draws.

    Examples:
        >>> step = keras.ops.softplus(StepSizes(0.001, 0.1, "inverse_softplus")((99,)))
        >>> bool(keras.ops.all(step > 9e-4)) and bool(keras.ops.all(step < 0.11))
        True
    """

    def __init__(
        self,
        low: float,
        high: float,
        stored_as: str = "log",
        seed: int | None = None,
    ) -> None:
        self.logarithm: keras.initializers.Initializer = (
            keras.initializers.RandomUniform(np.log(low), np.log(high), seed=seed)
        )
        self.seed = seed
        self.low = low
        self.high = high
        self.stored_as = stored_as

    def __call__(self, shape: Shape, dtype: DType | None = None) -> Tensor:
        log_step = self.logarithm(shape, dtype)
        if self.stored_as == "log":
            return log_step
        step = ops.exp(log_step)
        return step + ops.log(-ops.expm1(-step))


def log_whole_numbers(shape: Shape, dtype: DType | None = None) -> Tensor:
    """Returns the logarithms of 1, 2, 3 … along the last axis.

    Examples:
        >>> keras.ops.convert_to_numpy(keras.ops.exp(log_whole_numbers((1, 3))))
        array([[1., 2., 3.]], dtype=float32)
    """
    numbers = ops.arange(1, shape[-1] + 1, dtype=dtype or "float32")
    return ops.log(numbers) + ops.zeros(shape, numbers.dtype)

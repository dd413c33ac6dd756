r"""Token shift of RWKV-7, whose weights are the share of the step before.

$$\mathrm{lerp}_\mu(x)_t = x_t + \mu \odot (x_{t-1} - x_t)$$

Peng et al. 2025 (arXiv 2503.14456).
"""

import keras
from keras import ops

from kerasseq.core.types import DType, Shape, Tensor
from kerasseq.linear.token_shift import TokenShift


class LerpShift(TokenShift):
    """Base class of the layers of RWKV-7."""

    def _lerp_weight(self, name, power):
        """Creates μ, which falls with the index of the channel."""

        def initial(shape: Shape, dtype: DType | None = None) -> Tensor:
            channels = ops.arange(shape[0], dtype=dtype) / shape[0]
            return 1 - ops.power(channels, power)

        return self.add_weight(
            name=f"{name}_mix", shape=(self.width,), initializer=initial
        )

    def lerp(self, weight: keras.Variable, x: Tensor, before: Tensor) -> Tensor:
        r"""Computes $x_t + \mu \odot (x_{t-1} - x_t)$."""
        return self.mix(weight, before, x)

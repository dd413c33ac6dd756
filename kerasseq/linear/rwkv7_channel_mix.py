r"""The feed-forward network of RWKV-7.

$$
\mathrm{ChannelMix}_t = \mathrm{ReLU}\left((x_t + \mu \odot (x_{t-1} - x_t))\, W^k
\right)^2\, W^v
$$

It has no gate, unlike that of RWKV-4. Peng et al. 2025 (arXiv 2503.14456).
"""

from typing import Any

import keras
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core import checks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Identifier, Shape
from kerasseq.linear.lerp_shift import LerpShift


@register
class RWKV7ChannelMix(LerpShift):
    r"""The feed-forward network of RWKV-7, which reads the step before as well.

    $\mathrm{ReLU}(\mathrm{lerp}_\mu(x)_t W^k)^2\, W^v$. Its state is the last input.

    Args:
        intermediate_dim: F, width of the hidden layer; 4 D if None.
        layer_index: Index of the block, from 0, on which the initial mix depends.
        num_layers: L, number of blocks.
        kernel_initializer: Initializer of the kernels.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, set by Keras. Masked steps leave the state as it is.

    Returns:
        `(B, T, D)`.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If an argument is out of range, or the shapes do not match.

    Examples:
        >>> layer = RWKV7ChannelMix(11)
        >>> y, states = layer.advance(np.ones((2, 7, 5)))
        >>> keras.ops.shape(y), [keras.ops.shape(state) for state in states]
        ((2, 7, 5), [(2, 5)])

    References:
        Peng et al. 2025, "RWKV-7 Goose". Slides A.
    """

    key_dense: keras.layers.Dense
    value_dense: keras.layers.Dense
    key_mix: keras.Variable

    @passes_on(LerpShift)
    def __init__(
        self,
        intermediate_dim: int | None = None,
        *,
        layer_index: int = 0,
        num_layers: int = 1,
        kernel_initializer: Identifier = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        self.intermediate_dim: int | None = checks.optional(
            checks.size, "intermediate_dim", intermediate_dim
        )

    def build(self, shape: Shape) -> None:
        self._start_build(shape)
        D = self.width
        F = self.intermediate_dim or 4 * D
        checks.fits_memory("intermediate_dim", F, 2 * D)
        self.key_mix = self._lerp_weight("key", self.rest**4)
        self.key_dense = self._dense("key", D, F)
        self.value_dense = self._dense("value", F, D)
        self.built = True

    def state_shapes(self) -> list[Shape]:
        return [(self.width,)]

    def _advance(self, x, states, mask):
        x, mask = self.checked(x, mask)
        before, last = self.shift(x, states[0], mask)
        k = kernels.dense(self.key_dense, self.lerp(self.key_mix, x, before))
        h = tracing.record(self, "hidden", ops.square(ops.relu(k)))  # (B, T, F)
        y = kernels.dense(self.value_dense, h)
        return tracing.record(self, "output", y), [last]

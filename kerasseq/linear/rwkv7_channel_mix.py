r"""The feed-forward network of RWKV-7.

$$
\mathrm{ChannelMix}_t = \mathrm{ReLU}\left((x_t + \mu \odot (x_{t-1} - x_t))\, W^k
\right)^2\, W^v
$$

It has no gate, unlike that of RWKV-4. Peng et al. 2025 (arXiv 2503.14456).
"""

from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape
from kerasseq.linear.lerp_shift import LerpShift
from kerasseq.linear.token_shift import ChannelMix


@register
class RWKV7ChannelMix(ChannelMix, LerpShift):
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

    def build(self, shape: Shape) -> None:
        self._start_build(shape)
        self.key_mix = self._lerp_weight("key", self.rest**4)
        self._build_hidden()
        self.built = True

    def _advance(self, x, states, mask):
        x, mask = self.checked(x, mask)
        before, last = self.shift(x, states[0], mask)
        k = kernels.dense(self.key_dense, self.lerp(self.key_mix, x, before))
        h = tracing.record(self, "hidden", ops.square(ops.relu(k)))  # (B, T, F)
        y = kernels.dense(self.value_dense, h)
        return tracing.record(self, "output", y), [last]

r"""Strided convolutions over time, which divide the number of frames.

$$
x^{(l)}_t = \phi\Big(b^{(l)} + \sum_{j=-p}^{p} x^{(l-1)}_{2t+j}\, W^{(l)}_j\Big),
\qquad l = 1 \dots \log_2 \mathrm{factor}
$$

with kernel size $2 p + 1$; the features of a frame are the channels. Frames before the
first and after the last one are zeros. So attention after it has $\mathrm{factor}^2$
times fewer pairs of frames. Synnaeve et al. 2020 (arXiv 1911.08460), there with gated
linear units; the two-dimensional convolutions of Gulati et al. 2020 are left out.
"""

from typing import Any

import keras
from keras import ops

from kerasseq import tracing
from kerasseq.convolution.causal import convolution
from kerasseq.convolution.real_steps import RealSteps
from kerasseq.core import checks, masks, objects
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import as_floats, check_sequence, check_shape, check_width
from kerasseq.core.types import Activation, Identifier, Initializer, Shape, Tensor
from kerasseq.kernels import precise

FACTORS = (2, 4, 8)  # one convolution with stride 2 for each doubling


@register
class ConvSubsampling(Layer):
    r"""Divides the number of frames by 2, 4 or 8: a convolution of stride 2 for each 2.

    Real frames alone count: the masked ones are skipped, and zeros follow the last real
    one in each convolution, so that a row gives the same alone and beside longer rows.
    The real frames of an output are the first ones, $\lceil n / \mathrm{factor} \rceil$
    of $n$; others are zeros. The mask of the output is that of `compute_mask`.

    Args:
        hidden_dim: D, the width of the outputs and of each convolution.
        factor: The number of frames that become one: 2, 4 or 8.
        kernel_size: Number of frames that a convolution reads, odd.
        activation: $\phi$.
        use_bias: Whether the convolutions have biases.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, F)`, such as the frames of a spectrogram.
        mask: Boolean `(B, T)`, True at real frames. Keras passes it.

    Returns:
        `(B, ceil(T / factor), D)`.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is below 1, the factor is not 2, 4 or 8, or the kernel
            size is even.

    Examples:
        >>> layer = ConvSubsampling(3, factor=4)
        >>> keras.ops.shape(layer(np.ones((2, 13, 5))))
        (2, 4, 3)
        >>> mask = np.arange(13) < np.array([[13], [5]])
        >>> keras.ops.convert_to_numpy(layer.compute_mask(None, mask)).astype(int)
        array([[1, 1, 1, 1],
               [1, 1, 0, 0]])
    """

    activation: Activation
    kernel_initializer: Initializer
    bias_initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        hidden_dim: int,
        factor: int = 4,
        *,
        kernel_size: int = 5,
        activation: Identifier = "silu",
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        **kwargs: Any,
    ) -> None:
        self.hidden_dim: int = checks.size("hidden_dim", hidden_dim, 1)
        factor = checks.size("factor", factor)
        self.factor: int = checks.one_of("factor", factor, FACTORS)
        self.kernel_size: int = odd_size("kernel_size", kernel_size)
        self.use_bias: bool = checks.flag("use_bias", use_bias)

    def build(self, shape: Shape) -> None:
        check_shape("x", shape)
        self.input_width: int = shape[-1]
        D, k = self.hidden_dim, self.kernel_size
        checks.fits_memory("hidden_dim", D, k * max(D, shape[-1]))
        checks.fits_memory("kernel_size", k, D * max(D, shape[-1]))
        self.kernels: list[keras.Variable] = []
        self.biases: list[keras.Variable] = []
        width = shape[-1]
        for n in range(1, self.factor.bit_length()):
            initializer = objects.copy_initializer(self.kernel_initializer)
            kernel = self.add_weight(
                name=f"kernel_{n}", shape=(k, width, D), initializer=initializer
            )
            self.kernels.append(kernel)
            if self.use_bias:
                initializer = objects.copy_initializer(self.bias_initializer)
                bias = self.add_weight(
                    name=f"bias_{n}", shape=(D,), initializer=initializer
                )
                self.biases.append(bias)
            width = D
        self.built = True

    def call(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        check_sequence("x", x, mask)
        check_width("x", x.shape, self.input_width)
        x = as_floats("x", x, self.compute_dtype)
        real = None
        if mask is not None:
            x, real = RealSteps(mask).pack(x), first_steps(mask)
        for n in range(len(self.kernels)):
            x = self._convolve(x, n)
            if real is not None:
                real = real[:, ::2]
                x = masks.zero_masked(x, real)
            x = tracing.record(self, f"convolution_{n + 1}", x)
        return x

    def _convolve(self, x, n):
        """Applies convolution n, from 0, with its activation."""
        # Not padding="same", whose place depends on whether the length is even.
        p = self.kernel_size // 2
        x = ops.pad(x, ((0, 0), (p, p), (0, 0)))
        taps = [x[:, j : (j - 2 * p) or None : 2] for j in range(self.kernel_size)]
        bias = ops.convert_to_tensor(self.biases[n]) if self.use_bias else None
        y = convolution(taps, ops.convert_to_tensor(self.kernels[n]), bias, groups=1)
        return precise(self.activation)(y)

    def compute_mask(self, x: Tensor, mask: Tensor | None = None) -> Tensor | None:
        """Returns the mask of the output, `(B, ceil(T / factor))`.

        Args:
            x: Not used.
            mask: That of the input, `(B, T)`, or None.
        """
        return None if mask is None else first_steps(mask)[:, :: self.factor]

    def compute_output_shape(self, shape: Shape) -> Shape:
        B, T, _ = shape
        return (B, None if T is None else -(-T // self.factor), self.hidden_dim)


def first_steps(mask: Tensor) -> Tensor:
    """Returns a mask with as many real steps in each row, all at the front.

    Args:
        mask: Boolean `(B, T)`.

    Examples:
        >>> real = first_steps(np.array([[False, True, True]]))
        >>> keras.ops.convert_to_numpy(real).tolist()
        [[True, True, False]]
    """
    number = ops.cast(mask, "int32")
    steps = ops.cumsum(ops.ones_like(number), axis=1)
    return steps <= ops.sum(number, axis=1, keepdims=True)


def odd_size(name: str, value: int) -> int:
    """Returns the size of a kernel that reads as many earlier steps as later ones.

    Examples:
        >>> odd_size("kernel_size", 4)
        Traceback (most recent call last):
        ...
        ValueError: kernel_size must be odd, so that a step is in the middle of those \
that are read for it, received 4. Choose 5
    """
    if checks.size(name, value) % 2 == 0:
        raise ValueError(
            f"{name} must be odd, so that a step is in the middle of those that are "
            f"read for it, received {value}. Choose {value + 1}"
        )
    return value

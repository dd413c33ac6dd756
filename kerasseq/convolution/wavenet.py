r"""WaveNet: gated, dilated causal convolutions with residual and skip connections.

$$
\begin{aligned}
x^{(0)} &= W_x * x \\
z^{(l)} &= \tanh(W_f^{(l)} * x^{(l-1)}) \odot \sigma(W_g^{(l)} * x^{(l-1)}) \\
x^{(l)} &= x^{(l-1)} + W_r^{(l)} z^{(l)} \\
y &= \mathrm{ReLU}\big(W_y\, \mathrm{ReLU}\big(\textstyle\sum_l W_s^{(l)}
z^{(l)}\big)\big)
\end{aligned}
$$

The stars are causal convolutions, in block $l$ with the dilation of the block; all
terms have a bias. The last layer of the published network, one more $1 \times 1$
convolution before the softmax, is the output layer of the model that contains this
one. Conditioning on other inputs is left out. Source: van den Oord et al. 2016
(arXiv 1609.03499), figures 3 and 4. Slides C.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.convolution.causal import CausalConv1D
from kerasseq.convolution.real_steps import RealSteps, record
from kerasseq.core import checks, objects
from kerasseq.core.arguments import seed_generator
from kerasseq.core.carried_state import CarriesState
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.dense import Dense
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_sequence, check_shape, check_width
from kerasseq.core.sublayers import WithSublayers
from kerasseq.core.types import Identifier, Initializer, Shape, Tensor

# Of the paper: with kernels of 2 a stack reads 1,024 steps.
DILATIONS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
Dropout = Callable[[Tensor], Tensor]


@register
class WaveNetBlock(WithSublayers, keras.layers.Layer):
    r"""One residual block of a `WaveNet`, which calls it with the inputs read before.

    $$
    z = \tanh(W_f * x) \odot \sigma(W_g * x), \qquad x + W_r z, \qquad W_s z
    $$

    Args:
        convolution: Arguments of the convolution: `kernel_size`, `dilation_rate`.
        units: Channels of $x$ and $z$.
        skip_units: Channels of the skip connection $W_s z$.
        residual: Whether there is a residual connection; the last block needs none.
        weights: `use_bias` and the initializers of all weights.
        **kwargs: For `keras.layers.Layer`.
    """

    rematerialized: tuple[str, ...] = ("call",)

    def __init__(
        self,
        convolution: dict[str, int],
        units: int,
        skip_units: int,
        *,
        residual: bool,
        weights: dict[str, Any],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        options = {"dtype": self.dtype_policy}
        self.convolution: CausalConv1D = CausalConv1D(
            2 * units, **convolution, **copies(weights), name="convolution", **options
        )
        self.residual_dense: keras.layers.Dense | None = None
        if residual:
            self.residual_dense = Dense(
                units, **copies(weights), name="residual", **options
            )
        self.skip_dense: keras.layers.Dense = Dense(
            skip_units, **copies(weights), name="skip", **options
        )

    def build(self, shape: Shape) -> None:
        for layer in (self.convolution, self.residual_dense, self.skip_dense):
            if layer is not None:
                layer.build(shape)
        self.built = True

    def call(
        self,
        x: Tensor,
        state: Tensor | None = None,
        real: RealSteps | None = None,
        dropout: Dropout | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the block.

        Args:
            x: `(B, T, C)`; with `real`, the real steps first.
            state: The inputs before x, `(B, (k - 1) d, C)`; zeros if None.
            real: The real steps of sequences with padding.
            dropout: Applied to the inputs of the convolution.

        Returns:
            The next x `(B, T, C)`, the skip connection `(B, T, S)`, and x with the
            inputs before it.
        """
        x = record(self, "hidden_state", x, real)
        inputs = self.convolution.extend(x, state)
        dropped = inputs if dropout is None else dropout(inputs)
        both = self.convolution.convolve(dropped)
        f, g = ops.split(both, 2, axis=-1)  # each (B, T, C)
        f = record(self, "filter", kernels.tanh(f), real)
        g = record(self, "gate", ops.sigmoid(g), real)
        z = f * g
        skip = kernels.dense(self.skip_dense, z)
        if self.residual_dense is not None:
            x = x + kernels.dense(self.residual_dense, z)
        return x, skip, inputs


@register
class WaveNet(CarriesState, Layer):
    r"""Stacks of gated causal convolutions, each with twice the dilation of the last.

    $$
    \begin{aligned}
    x^{(0)} &= W_x * x \\
    z^{(l)} &= \tanh(W_f^{(l)} * x^{(l-1)}) \odot \sigma(W_g^{(l)} * x^{(l-1)}) \\
    x^{(l)} &= x^{(l-1)} + W_r^{(l)} z^{(l)} \\
    y &= \mathrm{ReLU}\big(W_y\, \mathrm{ReLU}\big(\textstyle\sum_l W_s^{(l)}
    z^{(l)}\big)\big)
    \end{aligned}
    $$

    With the default dilations the blocks together read exactly 1024 steps of $x^{(0)}$,
    which itself reads `kernel_size` inputs: see `receptive_field`. Each further stack
    adds 1023 steps. All steps are computed at once; `advance` continues from a state,
    the last inputs of each convolution, and costs the same at each step.

    A masked step is skipped, as if it were not there: padding on either side changes
    nothing. Outputs at masked steps are zeros.

    A trace has the filter (tanh) and the gate ($\sigma$) of each block, and its input
    as `hidden_state`, such as `"wavenet/block_1/filter"`. All are zeros at masked
    steps.

    Args:
        units: Channels of the blocks and of the output, C.
        kernel_size: Number of steps that each convolution reads.
        dilations: The dilation of each block of a stack.
        stacks: How often the blocks are repeated.
        skip_units: Channels of the skip connections, S; `units` if None.
        use_bias: Whether convolutions have biases.
        dropout: Fraction of the inputs of each block's convolution to drop in training.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        seed: Seed of dropout.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, True at real steps. Keras passes it.
        training: Whether dropout is applied.

    Returns:
        `(B, T, C)`.

    Raises:
        TypeError: If a size is not a whole number, or `dilations` is no list.
        ValueError: If a size or dilation is below 1, or there is no dilation.

    Examples:
        >>> layer = WaveNet(3, dilations=[1, 2, 4])
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)
        >>> layer.receptive_field, WaveNet(3).receptive_field
        (9, 1025)
        >>> y, states = layer.advance(np.ones((2, 7, 5)))
        >>> y, states = layer.advance(np.ones((2, 1, 5)), states)
        >>> [keras.ops.shape(state)[1] for state in states]
        [1, 1, 2, 4]

    References:
        van den Oord et al., "WaveNet: A Generative Model for Raw Audio", 2016.
        Slides C.
    """

    kernel_initializer: Initializer
    bias_initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        units: int,
        kernel_size: int = 2,
        dilations: Sequence[int] = DILATIONS,
        stacks: int = 1,
        *,
        skip_units: int | None = None,
        use_bias: bool = True,
        dropout: float = 0.0,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.units: int = checks.size("units", units)
        self.kernel_size: int = checks.size("kernel_size", kernel_size)
        self.dilations: list[int] = checked_dilations(dilations)
        self.stacks: int = checks.size("stacks", stacks)
        self.skip_units: int | None = checks.optional(
            checks.size, "skip_units", skip_units
        )
        self.use_bias: bool = checks.flag("use_bias", use_bias)
        self.dropout: float = checks.rate("dropout", dropout)
        self.seed: int | None = checks.optional(checks.seed, "seed", seed)
        if self.dropout:
            self.seed_generator: keras.random.SeedGenerator = seed_generator(seed)
        self._check_memory()
        self._make_layers()

    def _check_memory(self):
        C, k = self.units, self.kernel_size
        checks.fits_memory("units", C, 2 * k * C)
        checks.fits_memory("kernel_size", k, 2 * C * C)
        checks.fits_memory("dilations", max(self.dilations), (k - 1) * C)
        checks.fits_memory("stacks", self.stacks, len(self.dilations) * 2 * k * C * C)
        if self.skip_units is not None:
            checks.fits_memory("skip_units", self.skip_units, C)

    def _make_layers(self):
        weights = {
            "use_bias": self.use_bias,
            "kernel_initializer": self.kernel_initializer,
            "bias_initializer": self.bias_initializer,
        }
        options = {"dtype": self.dtype_policy}
        self.input_convolution: CausalConv1D = CausalConv1D(
            self.units, self.kernel_size, **copies(weights), name="input", **options
        )
        dilations = self.dilations * self.stacks
        self.blocks: list[WaveNetBlock] = [
            WaveNetBlock(
                {"kernel_size": self.kernel_size, "dilation_rate": dilation},
                self.units,
                self.skip_units or self.units,
                residual=n < len(dilations),
                weights=weights,
                name=f"block_{n}",
                **options,
            )
            for n, dilation in enumerate(dilations, 1)
        ]
        self.output_dense: keras.layers.Dense = Dense(
            self.units, activation="relu", **copies(weights), name="output", **options
        )

    @property
    def receptive_field(self) -> int:
        """The number of inputs that an output depends on, its own step included."""
        return 1 + sum(layer.reach for layer in self._convolutions())

    def _convolutions(self):
        return [self.input_convolution, *(block.convolution for block in self.blocks)]

    def build(self, shape: Shape) -> None:
        check_shape("x", shape)
        self.channels: int = shape[-1]
        self.input_convolution.build(shape)
        inner = (*shape[:-1], self.units)
        for block in self.blocks:
            block.build(inner)
        self.output_dense.build((*shape[:-1], self.skip_units or self.units))
        self.built = True

    def state_shapes(self) -> list[Shape]:
        return [shape for c in self._convolutions() for shape in c.state_shapes()]

    def call(
        self, x: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        check_sequence("x", x, mask)
        check_width("x", x.shape, self.channels)
        dropout = self._drop if self.dropout and training else None
        return self._run(x, None, mask, dropout)[0]

    def _advance(self, x, states, mask):
        return self._run(x, states, mask, None)

    def _run(self, x, states, mask, dropout):
        """Returns the outputs, and the states after them if there are states before."""
        real = None if mask is None else RealSteps(mask)
        x = x if real is None else real.pack(x)
        before = iter(states or [None] * (1 + len(self.blocks)))
        inputs = self.input_convolution.extend(x, next(before))
        read = [(self.input_convolution, inputs)]
        x = self.input_convolution.convolve(inputs)  # (B, T, C)
        total = 0
        for block, state in zip(self.blocks, before, strict=True):
            # Keras' overhead of calling a layer is that of a small product.
            x, skip, inputs = block.call(x, state, real, dropout)
            total = total + skip  # (B, T, S)
            read.append((block.convolution, inputs))
        y = kernels.dense(self.output_dense, ops.relu(total))
        y = y if real is None else real.unpack(y)
        after = [] if states is None else [c.window(i, real) for c, i in read]
        return y, after

    def _drop(self, x):
        return keras.random.dropout(x, self.dropout, seed=self.seed_generator)

    def compute_output_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], self.units)


def checked_dilations(dilations: Sequence[int]) -> list[int]:
    """Returns the dilations as a list of whole numbers of at least 1.

    Examples:
        >>> checked_dilations([1, 2, 0])
        Traceback (most recent call last):
        ...
        ValueError: dilations[2] must be at least 1, received 0
    """
    checked = checks.several("dilations", dilations, "whole numbers")
    if not checked:
        raise ValueError(
            "dilations must have a number for each block of a stack, received "
            f"{dilations!r}. The default is 1, 2, 4 … 512"
        )
    return [checks.size(f"dilations[{n}]", each) for n, each in enumerate(checked)]


def copies(weights: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of the weights of a layer, with initializers of its own."""
    return {
        name: objects.copy_initializer(value) if "initializer" in name else value
        for name, value in weights.items()
    }

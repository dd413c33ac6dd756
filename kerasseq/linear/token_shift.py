r"""Token shift: projections that read a mix of each step and the one before.

$$\mathrm{mix}_\mu(x)_t = \mu \odot x_t + (1 - \mu) \odot x_{t-1}$$

with a learned $\mu$ for each channel. Peng et al. 2023 (arXiv 2305.13048).
"""

from typing import Any

import keras
from keras import ops

from kerasseq.convolution.real_steps import RealSteps
from kerasseq.core import checks, masks
from kerasseq.core.carried_state import CarriesState
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.shapes import as_floats, check_sequence, check_shape, check_width
from kerasseq.core.types import DType, Identifier, Initializer, Shape, Tensor


class TokenShift(CarriesState, Layer):
    """Base class of the two layers, whose projections read mixes of two steps.

    Args:
        layer_index: Index of the block, from 0, on which initial values depend.
        num_layers: L, number of blocks.
        kernel_initializer: Initializer of the projections' kernels.
        **kwargs: For `keras.layers.Layer`.
    """

    width: int
    kernel_initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        *,
        layer_index: int,
        num_layers: int,
        kernel_initializer: Identifier,
        **kwargs: Any,
    ) -> None:
        self.num_layers: int = checks.whole_number("num_layers", num_layers)
        self.layer_index: int = checks.whole_number(
            "layer_index", layer_index, at_least=0
        )
        if self.layer_index >= self.num_layers:
            raise ValueError(
                f"layer_index must be below num_layers={num_layers}, received "
                f"{layer_index}. The first block has index 0"
            )

    def _start_build(self, shape):
        check_shape("x", shape)
        self.width = shape[-1]
        last = max(self.num_layers - 1, 1)
        self.start: float = self.layer_index / last  # from 0 to 1
        self.rest: float = 1 - self.layer_index / self.num_layers  # from 1 to almost 0

    def _dense(self, name, inputs, units):
        return self.built_dense(name, inputs, units, use_bias=False)

    def _mix_weight(self, name, power, offset=0.0):
        """Creates μ, which grows with the index of the channel."""

        def initial(shape: Shape, dtype: DType | None = None) -> Tensor:
            channels = ops.arange(shape[0], dtype=dtype) / shape[0]
            return ops.power(channels, power) + offset

        return self.add_weight(
            name=f"{name}_mix", shape=(self.width,), initializer=initial
        )

    def shift(
        self, x: Tensor, state: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns the last real step before each of x, and the last one of all.

        Args:
            x: `(B, T, D)`.
            state: The step before the first, `(B, D)`; zeros if None.
            mask: Boolean `(B, T)`, or None.
        """
        if state is None:
            state = ops.zeros_like(x[:, 0])
        real = None if mask is None else RealSteps(mask)
        front = x if real is None else real.pack(x)
        first = ops.cast(state, x.dtype)[:, None]
        steps = ops.concatenate([first, front], axis=1)
        before = steps[:, :-1]
        if real is None:
            return before, steps[:, -1]
        return real.unpack(before), real.last(steps, 1)[:, 0]

    def mix(self, weight: keras.Variable, x: Tensor, before: Tensor) -> Tensor:
        r"""Computes $\mu \odot x_t + (1 - \mu) \odot x_{t-1}$."""
        mu = ops.cast(ops.convert_to_tensor(weight), x.dtype)
        return before + mu * (x - before)

    def checked(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Returns x with zeros at masked steps, and the mask as booleans."""
        check_sequence("x", x, mask)
        check_width("x", x.shape, self.width)
        mask = None if mask is None else ops.cast(mask, "bool")
        x = as_floats("x", x, self.compute_dtype)
        return masks.zero_masked(x, mask), mask

    def call(
        self, x: Tensor, mask: Tensor | None = None, training: bool = False
    ) -> Tensor:
        return self._advance(x, [None] * len(self.state_shapes()), mask)[0]

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape


class ChannelMix(TokenShift):
    """Base class of the feed-forward networks of RWKV, with a hidden layer.

    Args:
        intermediate_dim: F, width of the hidden layer; 4 D if None.
        layer_index: Index of the block, from 0, on which initial values depend.
        num_layers: L, number of blocks.
        kernel_initializer: Initializer of the kernels.
        **kwargs: For `keras.layers.Layer`.
    """

    key_dense: keras.layers.Dense
    value_dense: keras.layers.Dense
    key_mix: keras.Variable

    @passes_on(TokenShift)
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

    def _build_hidden(self):
        D = self.width
        F = self.intermediate_dim or 4 * D
        checks.fits_memory("intermediate_dim", F, 2 * D)
        self.key_dense = self._dense("key", D, F)
        self.value_dense = self._dense("value", F, D)

    def state_shapes(self) -> list[Shape]:
        return [(self.width,)]

r"""Mamba: a state space model whose step size and maps depend on the input.

$$
\begin{aligned}
[u_t, z_t] &= x_t W^{in}, \qquad u = \mathrm{silu}(\mathrm{conv}(u)), \qquad
[d_t, B_t, C_t] = u_t W^x \\
\Delta_t &= \mathrm{softplus}(d_t W^\Delta + b^\Delta) \\
h_t &= e^{\Delta_t A} \odot h_{t-1} + \Delta_t\, B_t\, u_t \\
y_t &= C_t \cdot h_t + D \odot u_t, \qquad
\mathrm{output}_t = (y_t \odot \mathrm{silu}(z_t))\, W^{out}
\end{aligned}
$$

Each of the E channels of $u$ has a state of N numbers. A is negative, so that a large
step $\Delta_t$ forgets and writes much, and a small one keeps the state: the layer
selects what it remembers. Gu and Dao 2023 (arXiv 2312.00752); the numbers and the names
of the arguments are those of Hugging Face's `MambaMixer`.

`kernels.selective_scan` computes h and $C_t \cdot h_t$. For a trace `Mamba.scan` spells
out the states of all steps; `test_a_traced_mamba_is_the_same` compares both.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.convolution.causal import CausalConv1D, short_convolution
from kerasseq.core import checks, masks
from kerasseq.core.carried_state import CarriesState
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_sequence, check_shape, check_width
from kerasseq.core.types import Identifier, Initializer, Shape, Tensor
from kerasseq.state_space.initializers import StepSizes, log_whole_numbers
from kerasseq.tracing import listeners
from kerasseq.tracing.channels import record_alignment
from kerasseq.tracing.intervention import is_replaced
from kerasseq.tracing.states import record_states

STATE_AXES = ("rows", "steps", "units", "state")  # (B, T, E, N)


@register
class Mamba(CarriesState, Layer):
    r"""Selective state space model with a short convolution and a gate.

    Any cut of a sequence gives the result of the whole: `advance` continues from the
    last inputs of the convolution and the state $h$.

    A trace has the step $\Delta$ (`step`), `decay`, `written` and `hidden_state`, each
    `(B, T, E, N)` but `step` `(B, T, E)`, the heads' values `value` $u$, the `output`
    $y$ without $D \odot u$, the `gate`, and the `alignment` of `alignment_channels`,
    with which alignment · value = output.

    Args:
        state_size: N, numbers in the state of a channel.
        conv_kernel: Steps that the convolution reads.
        expand: E / D, channels for each input.
        time_step_rank: Width of $d_t$; D / 16, rounded up, if None.
        use_bias: Whether the first and the last projection have biases.
        use_conv_bias: Whether the convolution has a bias.
        time_step_min: The smallest initial step size.
        time_step_max: The largest initial step size.
        alignment_channels: The channels whose alignment a trace records.
        kernel_initializer: Initializer of the projections' kernels.
        bias_initializer: Initializer of the projections' biases.
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
        >>> layer = Mamba(state_size=3)
        >>> x = np.random.default_rng(0).normal(size=(2, 7, 5))
        >>> keras.ops.shape(layer(x))
        (2, 7, 5)
        >>> y, states = layer.advance(x)  # and on with layer.advance(more, states)
        >>> [keras.ops.shape(state) for state in states]
        [(2, 3, 10), (2, 10, 3)]
    """

    in_dense: keras.layers.Dense
    conv: CausalConv1D
    x_dense: keras.layers.Dense
    step_dense: keras.layers.Dense
    log_rate: keras.Variable  # log(-A)
    skip: keras.Variable  # D
    out_dense: keras.layers.Dense
    kernel_initializer: Initializer
    bias_initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        state_size: int = 16,
        conv_kernel: int = 4,
        expand: int = 2,
        time_step_rank: int | None = None,
        *,
        use_bias: bool = False,
        use_conv_bias: bool = True,
        time_step_min: float = 0.001,
        time_step_max: float = 0.1,
        alignment_channels: Sequence[int] = (0, 1, 2, 3),
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        **kwargs: Any,
    ) -> None:
        self.state_size: int = checks.size("state_size", state_size)
        self.conv_kernel: int = checks.size("conv_kernel", conv_kernel)
        self.expand: int = checks.size("expand", expand)
        self.time_step_rank: int | None = checks.optional(
            checks.size, "time_step_rank", time_step_rank
        )
        self.use_bias: bool = checks.flag("use_bias", use_bias)
        self.use_conv_bias: bool = checks.flag("use_conv_bias", use_conv_bias)
        self.time_step_min: float = checks.positive("time_step_min", time_step_min)
        self.time_step_max: float = checks.positive("time_step_max", time_step_max)
        checks.ordered(
            time_step_min=self.time_step_min, time_step_max=self.time_step_max
        )
        self.alignment_channels: list[int] = checks.channels(
            "alignment_channels", alignment_channels
        )

    @property
    def state_dtype(self) -> str:
        """The dtype of the state h: float32 in mixed precision."""
        return kernels.state_dtype(self.compute_dtype)

    def build(self, shape: Shape) -> None:
        check_shape("x", shape)
        D, N = shape[-1], self.state_size
        E, R = self.expand * D, self.time_step_rank or math.ceil(D / 16)
        checks.fits_memory("expand", self.expand, 3 * D * D)
        checks.fits_memory("state_size", N, 2 * E)
        checks.fits_memory("conv_kernel", self.conv_kernel, E)
        checks.fits_memory("time_step_rank", R, 2 * E)
        self.width: int = D
        self.channels: int = E
        self.rank: int = R
        self.in_dense = self.built_dense("input", D, 2 * E)
        self.conv = short_convolution(self, E, self.conv_kernel, self.use_conv_bias)
        self.x_dense = self.built_dense("selection", E, R + 2 * N, use_bias=False)
        self.step_dense = keras.layers.Dense(
            E,
            kernel_initializer=keras.initializers.RandomUniform(-(R**-0.5), R**-0.5),
            bias_initializer=StepSizes(
                self.time_step_min, self.time_step_max, "inverse_softplus"
            ),
            dtype=self.dtype_policy,
            name="step",
        )
        self.step_dense.build((None, R))
        self.log_rate = self.add_weight(
            name="log_rate",
            shape=(E, N),
            initializer=log_whole_numbers,
            autocast=False,
        )
        self.skip = self.add_weight(
            name="skip", shape=(E,), initializer="ones", autocast=False
        )
        self.out_dense = self.built_dense("attention_output", E, D)
        self.built = True

    def state_shapes(self) -> list[Shape]:
        conv = (self.conv_kernel - 1, self.channels)
        return [conv, (self.channels, self.state_size)]

    def state_dtypes(self) -> list[str]:
        return [self.compute_dtype, self.state_dtype]

    def call(
        self, x: Tensor, mask: Tensor | None = None, training: bool = False
    ) -> Tensor:
        return self._advance(x, [None, None], mask)[0]

    def _advance(self, x, states, mask):
        check_sequence("x", x, mask)
        check_width("x", x.shape, self.width)
        conv_state, h = states
        mask = None if mask is None else ops.cast(mask, "bool")
        x = masks.zero_masked(x, mask)
        u, z = ops.split(kernels.dense(self.in_dense, x), 2, axis=-1)  # (B, T, E)
        conv_states = None if conv_state is None else [conv_state]
        u, conv_states = self._convolve(u, conv_states, mask)
        y, h = self.scan(u, h, mask)
        gate = tracing.record(self, "gate", keras.activations.silu(z))
        y = kernels.dense(self.out_dense, ops.cast(y, z.dtype) * gate)
        return tracing.record(self, "context", y), [*conv_states, h]

    def _convolve(self, u, states, mask):
        if states is None:
            states = self.conv.get_initial_state(ops.shape(u)[0])
        return self.conv._advance(u, states, mask)

    def scan(
        self, u: Tensor, h: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Runs the state space model.

        Args:
            u: `(B, T, E)`.
            h: The state before, `(B, E, N)`; zeros if None.
            mask: Boolean `(B, T)`, or None.

        Returns:
            y `(B, T, E)`, and the state after the last step.
        """
        step, B, C = self.selection(u)
        u = ops.cast(u, self.state_dtype)
        if not listeners.active():
            y, h = kernels.selective_scan(step, self.rates(), B, C, u, h, mask=mask)
            return y + ops.cast(self.skip, y.dtype) * u, h
        u = tracing.record(self, "value", u)
        step = tracing.record(self, "step", step)
        decay, weight = self.coefficients(step, B)
        decay = tracing.record(self, "decay", decay, axes=STATE_AXES, domain=(0, 1))
        written = weight * u[..., None]
        written = tracing.record(self, "written", written, axes=STATE_AXES)
        path = self._states(decay, written, h, mask)
        y = tracing.record(self, "output", _read(C, path))
        if not any(is_replaced(self, name) for name in ("written", "hidden_state")):
            y = record_alignment(  # y is still a sum of weighted values
                self,
                lambda channels: self._alignment(decay, weight, C, mask, channels),
                *(u, y, self.alignment_channels),
            )
        return y + ops.cast(self.skip, y.dtype) * u, path[:, -1]

    def selection(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the step sizes `(B, T, E)`, and the maps B and C `(B, T, N)`."""
        R, N = self.rank, self.state_size
        d, B, C = kernels.split_widths(kernels.dense(self.x_dense, u), [R, N, N])
        kernel = ops.convert_to_tensor(self.step_dense.kernel)
        bias = ops.cast(ops.convert_to_tensor(self.step_dense.bias), self.state_dtype)
        z = ops.cast(kernels.matmul(d, ops.cast(kernel, d.dtype)), self.state_dtype)
        B, C = ops.cast(B, self.state_dtype), ops.cast(C, self.state_dtype)
        return ops.softplus(z + bias), B, C

    def rates(self) -> Tensor:
        """Returns A, `(E, N)`."""
        return -ops.exp(ops.cast(self.log_rate, self.state_dtype))

    def coefficients(self, step: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
        r"""Computes $e^{\Delta A}$ and $\Delta B$, each `(B, T, E, N)`."""
        decay = ops.exp(step[..., None] * self.rates())
        return decay, step[..., None] * B[:, :, None]

    def _states(self, decay, written, h, mask):
        """Returns all states `(B, T, E, N)`."""
        width = self.channels * self.state_size

        def run(h, now, mask):
            shape = ops.shape(now["written"])
            a, b = (
                ops.reshape(now[name], (*shape[:2], width))
                for name in ("decay", "written")
            )
            h = ops.reshape(h, (shape[0], width))
            path, _ = kernels.linear_recurrence(a, b, h, mask=mask)
            return ops.reshape(path, shape)

        h = ops.zeros_like(written[:, 0]) if h is None else h
        inputs = {"decay": decay, "written": written}
        return record_states(self, run, h, inputs, mask, axes=STATE_AXES)

    def _alignment(self, decay, weight, C, mask, channels):
        """Returns the weights of the values of all steps, `(B, channels, T, T)`."""
        batch, T = ops.shape(decay)[:2]
        eye = ops.eye(T, dtype=self.state_dtype)[None, :, None]  # v = identity
        rows = []
        for c in channels:
            b = weight[:, :, c, :, None] * eye  # (B, T, N, T)
            a = ops.broadcast_to(decay[:, :, c, :, None], ops.shape(b))
            flat = (batch, T, self.state_size * T)
            path, _ = kernels.linear_recurrence(
                ops.reshape(a, flat), ops.reshape(b, flat), mask=mask
            )
            path = ops.reshape(path, (batch, T, self.state_size, T))
            rows.append(ops.sum(C[..., None] * path, axis=2))
        return ops.stack(rows, axis=1)

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape


def _read(C, path):
    r"""Computes $C_t \cdot h_t$ of C `(B, T, N)` and the states `(B, T, E, N)`."""
    return kernels.matmul(path, C[..., None])[..., 0]

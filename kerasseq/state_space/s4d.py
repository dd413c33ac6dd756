r"""S4D: a diagonal state space model in each channel, a convolution in training.

$$
\begin{aligned}
h_t &= \bar A \odot h_{t-1} + \bar B\, u_t, \qquad \bar A = e^{\Delta A}, \quad
\bar B = (\bar A - 1) / A \\
y_t &= 2\, \mathrm{Re}(C \cdot h_t) + D\, u_t = \sum_{s \le t} K_{t-s}\, u_s + D\, u_t,
\qquad K_l = 2\, \mathrm{Re} \sum_n C_n \bar B_n \bar A_n^l
\end{aligned}
$$

The state has N complex numbers of which one in each conjugate pair is stored, N / 2.
The coefficients do not depend on the input, so that a whole sequence is a convolution,
computed in chunks; step by step it is a recurrence. $\bar A$ and $\bar B$ come from the
zero-order hold: the input is constant between two steps. Gu et al. 2022 (arXiv
2206.11893), with the three initial A of table 1.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.convolution.real_steps import RealSteps
from kerasseq.core import checks, masks
from kerasseq.core.carried_state import CarriesState
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import as_floats, check_sequence, check_shape, check_width
from kerasseq.core.types import (
    Activation,
    Identifier,
    Initializer,
    Shape,
    Tensor,
)
from kerasseq.state_space.chunks import convolve, product
from kerasseq.state_space.initializers import StepSizes
from kerasseq.tracing import listeners
from kerasseq.tracing.channels import record_alignment
from kerasseq.tracing.intervention import is_replaced
from kerasseq.tracing.states import record_states

INITIALIZATIONS = ("lin", "inv", "legs")
STATE_AXES = ("rows", "steps", "units", "state", "parts")  # (B, T, D, N / 2, 2)


@register
class S4D(CarriesState, Layer):
    r"""Diagonal state space model with GELU and a gated output projection.

    Any cut of a sequence gives the result of the whole: a call is a convolution, and
    `advance` is the recurrence.

    A trace has the `value` u, the `kernel` K `(D, T)`, the `output` y without the term
    of D, in `advance` and in `gradient_flow` `hidden_state` `(B, T, D, N / 2, 2)`, real
    and imaginary parts, and the `alignment` of `alignment_channels`,
    `(B, channels, T, T)`, with which alignment · value = output.

    Args:
        state_size: N, an even number.
        initialization: The initial A, with real parts −1/2: "lin" has the imaginary
            parts π n, "inv" N / π (N / (2 n + 1) − 1), "legs" those of the matrix of
            HiPPO-LegS.
        time_step_min: The smallest initial step size Δ.
        time_step_max: The largest initial step size.
        activation: Activation function of y.
        use_bias: Whether the output projection has a bias.
        alignment_channels: The channels whose alignment a trace records.
        kernel_initializer: Initializer of the output projection's kernel.
        bias_initializer: Initializer of its bias.
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
        >>> layer = S4D(state_size=4)
        >>> x = np.random.default_rng(0).normal(size=(2, 7, 5))
        >>> keras.ops.shape(layer(x))
        (2, 7, 5)
        >>> y, states = layer.advance(x)  # and on with layer.advance(more, states)
        >>> [keras.ops.shape(state) for state in states]
        [(2, 5, 2, 2)]
    """

    log_step: keras.Variable  # log Δ
    log_rate: keras.Variable  # log(-Re A)
    frequency: keras.Variable  # Im A
    readout: keras.Variable  # C
    skip: keras.Variable  # D
    output_dense: keras.layers.Dense
    activation: Activation
    kernel_initializer: Initializer
    bias_initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        state_size: int = 64,
        *,
        initialization: str = "lin",
        time_step_min: float = 0.001,
        time_step_max: float = 0.1,
        activation: Identifier = "gelu",
        use_bias: bool = True,
        alignment_channels: Sequence[int] = (0, 1, 2, 3),
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        **kwargs: Any,
    ) -> None:
        self.state_size: int = checks.size("state_size", state_size)
        if self.state_size % 2:
            raise ValueError(
                "state_size must be even, as the numbers of the state are conjugate "
                f"pairs, received {state_size}. Choose {state_size + 1}"
            )
        self.initialization: str = checks.one_of(
            "initialization", initialization, INITIALIZATIONS
        )
        self.time_step_min: float = checks.positive("time_step_min", time_step_min)
        self.time_step_max: float = checks.positive("time_step_max", time_step_max)
        checks.ordered(
            time_step_min=self.time_step_min, time_step_max=self.time_step_max
        )
        self.use_bias: bool = checks.flag("use_bias", use_bias)
        self.alignment_channels: list[int] = checks.channels(
            "alignment_channels", alignment_channels
        )

    @property
    def state_dtype(self) -> str:
        """The dtype of the state: float32 in mixed precision."""
        return kernels.state_dtype(self.compute_dtype)

    def build(self, shape: Shape) -> None:
        check_shape("x", shape)
        D, M = shape[-1], self.state_size // 2
        checks.fits_memory("state_size", self.state_size, D)
        self.width: int = D
        real, imaginary = initial_poles(self.initialization, self.state_size)

        def constant(row: np.ndarray) -> Callable[..., Tensor]:
            return lambda shape, dtype=None: ops.convert_to_tensor(
                np.broadcast_to(row, shape).copy(), dtype
            )

        options = {"autocast": False}
        self.log_step = self.add_weight(
            name="log_step",
            shape=(D,),
            initializer=StepSizes(self.time_step_min, self.time_step_max),
            **options,
        )
        self.log_rate = self.add_weight(
            name="log_rate",
            shape=(D, M),
            initializer=constant(np.log(-real)),
            **options,
        )
        self.frequency = self.add_weight(
            name="frequency", shape=(D, M), initializer=constant(imaginary), **options
        )
        self.readout = self.add_weight(  # real and imaginary parts of variance 1/2
            name="readout",
            shape=(D, M, 2),
            initializer=keras.initializers.RandomNormal(stddev=math.sqrt(0.5)),
            **options,
        )
        self.skip = self.add_weight(
            name="skip",
            shape=(D,),
            initializer=keras.initializers.RandomNormal(stddev=1.0),
            **options,
        )
        self.output_dense = self.built_dense("attention_output", D, 2 * D)
        self.built = True

    def state_shapes(self) -> list[Shape]:
        return [(self.width, self.state_size // 2, 2)]

    def state_dtypes(self) -> list[str]:
        return [self.state_dtype]

    def call(
        self, x: Tensor, mask: Tensor | None = None, training: bool = False
    ) -> Tensor:
        x, u, mask = self._inputs(x, mask)
        T = ops.shape(u)[1]
        # JAX infers shapes with symbols, which it does not split into chunks. There are
        # none of 0 rows.
        is_known = (isinstance(T, int) or ops.is_tensor(T)) and u.shape[0] != 0
        follows = listeners.follows_states() or is_replaced(self, "hidden_state")
        if not is_known or follows:
            y, _ = self.recurrence(u, self._zero_state(u), mask)
            return self._finish(x, u, tracing.record(self, "output", y))
        real = None if mask is None else RealSteps(mask)
        y = u if real is None else real.pack(u)
        y = convolve(y, self.powers, self.coefficients()[1])
        y = y if real is None else real.unpack(y)
        return self._finish(x, u, self._record(u, y, mask))

    def _record(self, u, y, mask):
        """Records y, its kernel and its alignment, and returns y as replaced."""
        if not listeners.active():
            return y
        real = ops.ones_like(u[..., 0], "bool") if mask is None else mask
        before = self.kernel(ops.shape(u)[1])
        K = tracing.record(self, "kernel", before, axes=("units", "distances"))
        if K is not before:
            weights = _toeplitz(K, range(self.width), real)  # (B, D, T, T)
            columns = ops.swapaxes(u, 1, 2)[..., None]
            y = ops.swapaxes(kernels.matmul(weights, columns)[..., 0], 1, 2)
        y = tracing.record(self, "output", y)
        return record_alignment(
            self,
            lambda channels: _toeplitz(K, channels, real),
            *(u, y, self.alignment_channels),
        )

    def _advance(self, x, states, mask):
        x, u, mask = self._inputs(x, mask)
        h = states[0]
        if h is None:
            h = self._zero_state(u)
        y, h = self.recurrence(u, h, mask)
        return self._finish(x, u, tracing.record(self, "output", y)), [h]

    def _zero_state(self, u):
        return self.get_initial_state(ops.shape(u)[0])[0]

    def _inputs(self, x, mask):
        """Returns x with zeros at masked steps, the same as values u, and the mask."""
        check_sequence("x", x, mask)
        check_width("x", x.shape, self.width)
        mask = None if mask is None else ops.cast(mask, "bool")
        x = masks.zero_masked(as_floats("x", x, self.compute_dtype), mask)
        u = tracing.record(self, "value", ops.cast(x, self.state_dtype))
        return x, u, mask

    def _finish(self, x, u, y):
        """Returns the term of D, the activation, and the projection with a gate."""
        y = y + ops.cast(self.skip, y.dtype) * u
        y = ops.cast(kernels.precise(self.activation)(y), x.dtype)
        a, b = ops.split(kernels.dense(self.output_dense, y), 2, axis=-1)
        return tracing.record(self, "context", a * ops.sigmoid(b))

    def coefficients(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        r"""Computes $\Delta A$ and $C \bar B$, real and imaginary, `(D, N / 2)`."""
        dtype = self.state_dtype
        step = ops.exp(ops.cast(self.log_step, dtype))[:, None]
        re, im = (
            -ops.exp(ops.cast(self.log_rate, dtype)),
            ops.cast(self.frequency, dtype),
        )
        C = ops.cast(self.readout, dtype)
        power = step * re, step * im
        grown = ops.exp(power[0])
        change = grown * ops.cos(power[1]) - 1, grown * ops.sin(power[1])
        square = re * re + im * im
        B = product(change, (re / square, -im / square))  # (e^(ΔA) - 1) / A
        return power, product((C[..., 0], C[..., 1]), B)

    def kernel(self, length: int | Tensor) -> Tensor:
        r"""Computes $K_l$ for the distances l from 0, `(D, length)`.

        Args:
            length: Number of distances.
        """
        CB = tuple(x[..., None] for x in self.coefficients()[1])
        return 2 * ops.sum(product(CB, self.powers(length))[0], axis=1)

    def powers(self, count: int | Tensor) -> tuple[Tensor, Tensor]:
        r"""Computes $\bar A^l$ for l from 0, `(D, N / 2, count)`, real and imaginary.

        Args:
            count: Number of powers.
        """
        re, im = self.coefficients()[0]
        n = ops.cast(ops.arange(count), re.dtype)
        size, angle = ops.exp(re[..., None] * n), im[..., None] * n
        return size * ops.cos(angle), size * ops.sin(angle)

    def recurrence(
        self, u: Tensor, h: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Computes y without the term of D, `(B, T, D)`, and the state, step by step.

        Args:
            u: `(B, T, D)`.
            h: The state before, `(B, D, N / 2, 2)`. It is that of inputs times C B.
            mask: Boolean `(B, T)`, or None.
        """
        if listeners.active():  # a trace has the states of all steps in one array
            return self._all_states(u, h, mask)
        inputs = {"u": u} if mask is None else {"u": u, "mask": mask}
        h, y = kernels.in_pieces(
            lambda h, now: self._all_states(now["u"], h, now.get("mask"))[::-1],
            h,
            inputs,
        )
        return y, h

    def _all_states(self, u, h, mask):
        """Computes y `(B, T, D)` and the state `(B, D, N / 2, 2)` in one piece."""
        (re, im), CB = self.coefficients()
        M = self.state_size // 2
        size = ops.exp(re)
        decay = ops.stack([size * ops.cos(im), size * ops.sin(im)], axis=-1)
        written = u[..., None, None] * ops.stack(CB, axis=-1)  # (B, T, D, N / 2, 2)
        a = _complex(decay)
        flat = self.width * M

        def run(h, now, mask):
            shape = ops.shape(now["written"])
            path, _ = kernels.linear_recurrence(
                ops.reshape(ops.broadcast_to(a, shape[:-1]), (*shape[:2], flat)),
                ops.reshape(_complex(now["written"]), (*shape[:2], flat)),
                ops.reshape(_complex(h), (shape[0], flat)),
                mask=mask,
            )
            path = ops.stack([ops.real(path), ops.imag(path)], axis=-1)
            return ops.reshape(path, shape)

        path = record_states(self, run, h, {"written": written}, mask, axes=STATE_AXES)
        return 2 * ops.sum(path[..., 0], axis=-1), path[:, -1]

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape


def _complex(x):
    """Returns a complex tensor of real and imaginary parts in the last axis."""
    return ops.view_as_complex(x)


def _toeplitz(K, channels, real):
    """Returns K by the distance of two real steps, `(B, channels, T, T)`."""
    age = ops.cumsum(ops.cast(real, "int32"), axis=1)
    distance = age[:, :, None] - age[:, None]  # (B, T, T)
    seen = (distance >= 0) & real[:, :, None] & real[:, None]
    index = ops.where(seen, distance, 0)
    rows = [ops.where(seen, ops.take(K[c], index), 0) for c in channels]
    return ops.stack(rows, axis=1)


def initial_poles(
    initialization: str, state_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns parts of the initial A, real and imaginary, one of each conjugate pair.

    Args:
        initialization: "lin", "inv" or "legs".
        state_size: N.

    Examples:
        >>> real, imaginary = initial_poles("lin", 6)
        >>> print(real, np.round(imaginary, 2))
        [-0.5 -0.5 -0.5] [0.   3.14 6.28]
        >>> print(np.round(initial_poles("legs", 6)[1], 2))
        [ 0.47  2.47 10.95]
    """
    N = state_size
    n = np.arange(N // 2)
    if initialization == "lin":
        imaginary = np.pi * n
    elif initialization == "inv":
        imaginary = N / np.pi * (N / (2 * n + 1) - 1)
    else:  # the eigenvalues of the normal part of HiPPO-LegS
        root = np.sqrt(2 * np.arange(N) + 1)
        S = np.tril(np.outer(root, root), -1) / 2
        imaginary = np.sort(np.linalg.eigvals(S.T - S).imag)[N // 2 :]
    return np.full(N // 2, -0.5), imaginary

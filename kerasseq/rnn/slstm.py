r"""The sLSTM: an LSTM with an exponential input gate, a normalizer and a stabilizer.

Beck et al. 2024 ("xLSTM: Extended Long Short-Term Memory"). The convolution before the
gates and the norm of the heads after them, which the paper has in its blocks, are left
out.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.core import checks, objects
from kerasseq.core.constructors import passes_on
from kerasseq.core.dense import in_float32
from kerasseq.core.serialization import register
from kerasseq.core.types import DType, Identifier, Tensor
from kerasseq.rnn.cell import RecurrentCell
from kerasseq.rnn.docstrings import complete_docstring
from kerasseq.rnn.layer import RecurrentLayer, passes_to_cell
from kerasseq.tracing import record

FIRST_M = -1e38  # m before the first step, where f' is then 0, and i' is 1
FIRST_M_OF_FLOAT16 = -6e4  # which has no number as small


@register
@complete_docstring
class SLSTMCell(RecurrentCell):
    r"""One time step of an sLSTM.

    $$
    \begin{aligned}
    \tilde i_t &= x_t W_i + h_{t-1} U_i + b_i \\
    \log f_t &= \log \sigma(x_t W_f + h_{t-1} U_f + b_f) \\
    z_t &= \tanh(x_t W_z + h_{t-1} U_z + b_z) \\
    o_t &= \sigma(x_t W_o + h_{t-1} U_o + b_o) \\
    m_t &= \max(\log f_t + m_{t-1},\ \tilde i_t) \\
    i'_t &= e^{\tilde i_t - m_t}, \qquad f'_t = e^{\log f_t + m_{t-1} - m_t} \\
    c_t &= f'_t \odot c_{t-1} + i'_t \odot z_t \\
    n_t &= f'_t \odot n_{t-1} + i'_t \\
    h_t &= o_t \odot \frac{c_t}{n_t}
    \end{aligned}
    $$

    The input gate is $e^{\tilde i_t}$. So that it cannot overflow, $c$ and the
    normalizer $n$ are divided by $e^{m_t}$, the largest term so far: $h$ is the same
    for any $m$. The first $m$ is $-10^{38}$, so that $f'$ is 0 in the first step. The
    gate order in the kernels is $i$, $f$, $z$, $o$.

    The units are in heads, with a block of U for each: a gate reads the states of its
    own head only. `recurrent_kernel` is `(units, 4 * units / num_heads)`, the blocks
    below each other.

    `cell.py` documents initializers, regularizers, constraints and dropout.

    Args:
        units: Size of the state.
        activation: Replaces $\tanh$.
        recurrent_activation: Replaces $\sigma$ of the output gate.
        unit_forget_bias: Whether $b_f$ is initialized to 1.
        num_heads: Number of heads; it divides `units`.
        forget_gate: "sigmoid", as above, or "exp": $\log f_t$ is then the
            pre-activation itself, and f may be above 1.

    Raises:
        ValueError: If `num_heads` does not divide `units`, or another argument is out
            of range.

    Examples:
        >>> cell = SLSTMCell(6, num_heads=2)
        >>> h, states = cell(np.ones((2, 5)), cell.get_initial_state(2))
        >>> [keras.ops.shape(state) for state in states]  # h, c, n and m
        [(2, 6), (2, 6), (2, 6), (2, 6)]

    References:
        Beck et al., "xLSTM: Extended Long Short-Term Memory", NeurIPS 2024,
        arXiv:2405.04517.
    """

    state_names: tuple[str, ...] = (
        "hidden_state",
        "cell_state",
        "normalizer",
        "stabilizer",
    )
    gates: int = 4

    @passes_on(RecurrentCell)
    def __init__(
        self,
        units: int,
        activation: Identifier = "tanh",
        recurrent_activation: Identifier = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        recurrent_initializer: Identifier = "orthogonal",
        bias_initializer: Identifier = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Identifier = None,
        recurrent_regularizer: Identifier = None,
        bias_regularizer: Identifier = None,
        kernel_constraint: Identifier = None,
        recurrent_constraint: Identifier = None,
        bias_constraint: Identifier = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        *,
        num_heads: int = 1,
        forget_gate: str = "sigmoid",
        **kwargs: Any,
    ) -> None:
        self.unit_forget_bias: bool = checks.flag("unit_forget_bias", unit_forget_bias)
        self.num_heads: int = checks.size("num_heads", num_heads)
        if self.units % self.num_heads:
            raise ValueError(
                f"num_heads must divide units={self.units}, received num_heads="
                f"{num_heads}. Choose a divisor"
            )
        self.forget_gate: str = checks.one_of(
            "forget_gate", forget_gate, ["sigmoid", "exp"]
        )
        self.keep_gate: int | None = 1 if self.forget_gate == "sigmoid" else None

    def build_recurrent_weights(self) -> None:
        """Adds U, the blocks of all heads below each other."""
        self.recurrent_kernel: keras.Variable = self.add_weight(
            shape=(self.units, self.gates * self.units // self.num_heads),
            name="recurrent_kernel",
            initializer=self.initial_blocks,
            regularizer=self.recurrent_regularizer,
            constraint=self.recurrent_constraint,
        )

    def initial_blocks(
        self, shape: tuple[int, ...], dtype: DType | None = None
    ) -> Tensor:
        """Draws the block of each head by itself, as the kernel of a small cell."""
        H, columns = shape
        blocks = []
        for n in range(self.num_heads):
            draw = objects.copy_initializer(self.recurrent_initializer)
            if isinstance(getattr(draw, "seed", None), int):
                draw.seed = (draw.seed + n) % 2**31
            draw = in_float32(draw)
            blocks.append(draw((H // self.num_heads, columns), dtype=dtype))
        return ops.concatenate(blocks, axis=0)

    def initial_bias(
        self, shape: tuple[int, ...], dtype: DType | None = None
    ) -> Tensor:
        bias = super().initial_bias(shape, dtype)
        if not self.unit_forget_bias:
            return bias
        H = self.units
        ones = ops.ones((H,), dtype=bias.dtype)
        return ops.concatenate([bias[:H], ones, bias[2 * H :]])

    def recurrent_matrix(self) -> Tensor:
        """Returns U `(units, 4 * units)`, with zeros between different heads.

        It is made once for all steps, each of which is then a single product.
        """
        N, H = self.num_heads, self.units
        if N == 1:
            return self.recurrent_kernel
        d, rows = H // N, []
        for n, block in enumerate(ops.split(self.recurrent_kernel, N, axis=0)):
            block = ops.reshape(block, (d, self.gates, d))
            rows.append(ops.pad(block, ((0, 0), (0, 0), (n * d, H - (n + 1) * d))))
        return ops.reshape(ops.concatenate(rows, axis=0), (H, self.gates * H))

    def step(
        self, projected: Tensor, states: Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        h, c, n, m_before = states
        both = projected + self.recurrent_product(h, training)  # pre-activations
        i, f, z, o = ops.split(both, 4, axis=-1)  # each (B, H)
        log_f = ops.log_sigmoid(f) if self.forget_gate == "sigmoid" else f

        # h does not depend on m: no gradient flows through it, and it may be rounded,
        # as Keras' maximum does in float64.
        m = ops.stop_gradient(ops.maximum(log_f + m_before, i))
        m = record(self, "stabilizer", ops.cast(m, i.dtype))
        i = record(self, "input_gate", ops.exp(i - m))
        # The difference first: it is exact where m changes little.
        f = record(self, "forget_gate", ops.exp((m_before - m) + log_f))
        z = record(self, "candidate", self.phi(z))
        c = record(self, "cell_state", f * c + i * z)
        n = record(self, "normalizer", f * n + i)
        o = record(self, "output_gate", self.sigma(o))
        h = record(self, "hidden_state", o * (c / n))
        return h, [h, c, n, m]

    def get_initial_state(self, batch_size: int | Tensor | None = None) -> list[Tensor]:
        *zeros, m = super().get_initial_state(batch_size)
        is_float16 = self.compute_dtype == "float16"
        return [*zeros, m + (FIRST_M_OF_FLOAT16 if is_float16 else FIRST_M)]

    def states_from(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Returns states of four tensors `(batch, units)`; that of n is a logarithm."""
        h, c, n, m = values
        return [h, c, ops.exp(n), m]


@register
@complete_docstring
class SLSTM(RecurrentLayer):
    r"""An sLSTM over a sequence.

    Takes the arguments of `keras.layers.LSTM` in the same order. `SLSTMCell` documents
    the equation and the arguments of the cell, `RNN` the others. Its states are h, c, n
    and m, in this order.

    Examples:
        >>> layer = SLSTM(6, return_sequences=True, num_heads=2)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 6)
    """

    Cell: type[RecurrentCell] = SLSTMCell

    @passes_to_cell
    def __init__(
        self,
        units: int,
        activation: Identifier = "tanh",
        recurrent_activation: Identifier = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        recurrent_initializer: Identifier = "orthogonal",
        bias_initializer: Identifier = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Identifier = None,
        recurrent_regularizer: Identifier = None,
        bias_regularizer: Identifier = None,
        activity_regularizer: Identifier = None,
        kernel_constraint: Identifier = None,
        recurrent_constraint: Identifier = None,
        bias_constraint: Identifier = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        *,
        num_heads: int = 1,
        forget_gate: str = "sigmoid",
        **kwargs: Any,
    ) -> None:
        pass  # nothing is left: the cell and `RNN` have them all

r"""The LSTM, with or without peepholes and coupled gates.

Hochreiter and Schmidhuber 1997; peepholes from Gers et al. 2002. Course slides C and D
have the plain form; slides A give each gate a matrix on the cell state.

`LSTMCell.step` is the equation; `rnn/layer.py` describes how a layer runs it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import DType, Identifier, Shape, Tensor
from kerasseq.rnn.cell import RecurrentCell
from kerasseq.rnn.docstrings import complete_docstring
from kerasseq.rnn.layer import RecurrentLayer, passes_to_cell
from kerasseq.tracing import record


@register
@complete_docstring
class LSTMCell(RecurrentCell):
    r"""One time step of an LSTM.

    $$
    \begin{aligned}
    i_t &= \sigma(x_t W_i + h_{t-1} U_i + p_i \odot c_{t-1} + b_i) \\
    f_t &= \sigma(x_t W_f + h_{t-1} U_f + p_f \odot c_{t-1} + b_f) \\
    g_t &= \tanh(x_t W_g + h_{t-1} U_g + b_g) \\
    c_t &= f_t \odot c_{t-1} + i_t \odot g_t \\
    o_t &= \sigma(x_t W_o + h_{t-1} U_o + p_o \odot c_t + b_o) \\
    h_t &= o_t \odot \tanh(c_t)
    \end{aligned}
    $$

    The gate order in the kernels is $i$, $f$, $g$, $o$, without $i$ if `coupled`, as in
    `keras.layers.LSTMCell`. The peepholes come last, in the order $i$, $f$, $o$: p is
    `(3, units)`, and P `(units, 3 * units)`; 2 for 3 if `coupled`.

    `cell.py` documents initializers, regularizers, constraints and dropout.

    Args:
        units: Size of the state.
        activation: Replaces $\tanh$.
        recurrent_activation: Replaces $\sigma$.
        unit_forget_bias: Whether $b_f$ is initialized to 1.
        peephole: How the gates use the cell state: None, not at all ($p = 0$);
            "diagonal", unit by unit, as above; "full", through matrices, all three on
            the previous cell state: $c_{t-1} P_i$, $c_{t-1} P_f$, $c_{t-1} P_o$.
        coupled: Whether the input gate is $i_t = 1 - f_t$.
        peephole_initializer: Initializer of $p$ or $P$.
        peephole_regularizer: Regularizer of $p$ or $P$.
        peephole_constraint: Constraint on $p$ or $P$.

    Examples:
        >>> cell = LSTMCell(3)
        >>> h, states = cell(np.ones((2, 5)), cell.get_initial_state(2))
        >>> keras.ops.shape(h)
        (2, 3)

    References:
        Hochreiter and Schmidhuber, "Long Short-Term Memory", Neural Computation 1997;
        Gers, Schraudolph and Schmidhuber, "Learning Precise Timing with LSTM Recurrent
        Networks", JMLR 2002 (peepholes). Slides A, B, C, D.
    """

    state_names: tuple[str, ...] = ("hidden_state", "cell_state")
    gates: int = 4
    peephole_initializer: Callable[..., Tensor] | None
    peephole_regularizer: Callable[..., Tensor] | None
    peephole_constraint: Callable[..., Tensor] | None

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
        peephole: str | None = None,
        coupled: bool = False,
        peephole_initializer: Identifier = "zeros",
        peephole_regularizer: Identifier = None,
        peephole_constraint: Identifier = None,
        **kwargs: Any,
    ) -> None:
        self.unit_forget_bias: bool = checks.flag("unit_forget_bias", unit_forget_bias)
        self.peephole: str | None = checks.one_of(
            "peephole", peephole, [None, "diagonal", "full"]
        )
        self.coupled: bool = checks.flag("coupled", coupled)
        if self.coupled:  # without an input gate
            self.gates -= 1
        self.keep_gate: int | None = 0 if self.coupled else 1

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        if self.peephole is None:
            return
        gates = self.gates - 1  # all but the candidate
        full = self.peephole == "full"
        self.peephole_kernel: keras.Variable = self.add_weight(
            shape=(self.units, gates * self.units) if full else (gates, self.units),
            name="peephole_kernel",
            initializer=self.peephole_initializer,
            regularizer=self.peephole_regularizer,
            constraint=self.peephole_constraint,
        )

    def initial_bias(
        self, shape: tuple[int, ...], dtype: DType | None = None
    ) -> Tensor:
        bias = super().initial_bias(shape, dtype)
        if not self.unit_forget_bias:
            return bias
        start = 0 if self.coupled else self.units
        ones = ops.ones((self.units,), dtype=bias.dtype)
        return ops.concatenate([bias[:start], ones, bias[start + self.units :]])

    @property
    def native(self) -> str | None:
        plain = self.peephole is None and not self.coupled and self.is_squashed()
        return "lstm" if plain else None

    def step(
        self, projected: Tensor, states: Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        h, c = states
        sigma, phi = self.sigma, self.phi
        z = projected + self.recurrent_product(h, training)  # pre-activations
        if self.peephole == "full":
            z = z + self.all_peepholes(c)
        *i, f, g, o = ops.split(z, self.gates, axis=-1)  # each (B, H)

        if self.peephole == "diagonal":
            *p_i, p_f, p_o = ops.split(self.peephole_kernel, self.gates - 1)  # (1, H)
            f = f + p_f * c
            i = [i + p_i * c for i, p_i in zip(i, p_i, strict=True)]
        f = record(self, "forget_gate", sigma(f))
        i = record(self, "input_gate", 1 - f if self.coupled else sigma(i[0]))
        g = record(self, "candidate", phi(g))
        c = record(self, "cell_state", f * c + i * g)
        if self.peephole == "diagonal":
            o = o + p_o * c
        o = record(self, "output_gate", sigma(o))
        h = record(self, "hidden_state", o * phi(c))
        return h, [h, c]

    def all_peepholes(self, c: Tensor) -> Tensor:
        """Computes $c P$ for every gate, with zeros for the candidate."""
        product = kernels.matmul(c, self.peephole_kernel)
        candidate = (self.gates - 2) * self.units
        zeros = ops.zeros_like(product[:, : self.units])
        return ops.concatenate(
            [product[:, :candidate], zeros, product[:, candidate:]], axis=-1
        )


@register
@complete_docstring
class LSTM(RecurrentLayer):
    r"""An LSTM over a sequence.

    Takes the arguments of `keras.layers.LSTM` in the same order, and its weights.
    `LSTMCell` documents the equation and the arguments of the cell, `RNN` the others.

    Examples:
        >>> layer = LSTM(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)
    """

    Cell: type[RecurrentCell] = LSTMCell

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
        use_cudnn: bool | str = "auto",
        *,
        peephole: str | None = None,
        coupled: bool = False,
        peephole_initializer: Identifier = "zeros",
        peephole_regularizer: Identifier = None,
        peephole_constraint: Identifier = None,
        **kwargs: Any,
    ) -> None:
        pass  # nothing is left: the cell and `RNN` have them all


@register
class PeepholeLSTM(LSTM):
    r"""An LSTM with peephole connections: `LSTM` with `peephole="diagonal"`.

    Args:
        units: Size of the state and of the cell state.
        *args: As for `LSTM`.
        peephole: As for `LSTM`.
        **kwargs: As for `LSTM`.

    Examples:
        >>> layer = PeepholeLSTM(3)
        >>> layer.build((None, None, 5))
        >>> layer.get_weights()[-1].shape  # input, forget and output gate
        (3, 3)

    References:
        Gers, Schraudolph and Schmidhuber, "Learning Precise Timing with LSTM Recurrent
        Networks", JMLR 2002. Slides A.
    """

    def __init__(
        self, units: int, *args: Any, peephole: str | None = "diagonal", **kwargs: Any
    ) -> None:
        super().__init__(units, *args, peephole=peephole, **kwargs)

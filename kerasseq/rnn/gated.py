r"""The gated network: one gate per unit mixes the old state with a candidate.

Course slides C, on the way from the Elman network to GRU and LSTM.
"""

from collections.abc import Sequence
from typing import Any

from keras import ops

from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Identifier, Tensor
from kerasseq.rnn.cell import RecurrentCell
from kerasseq.rnn.docstrings import complete_docstring
from kerasseq.rnn.layer import RecurrentLayer, passes_to_cell
from kerasseq.tracing import record


@register
@complete_docstring
class GatedCell(RecurrentCell):
    r"""One time step of a network with one gate.

    $$
    \begin{aligned}
    z_t &= \sigma(x_t W_z + h_{t-1} U_z + b_z) \\
    \bar h_t &= \mathrm{ReLU}(x_t W_h + h_{t-1} U_h + b_h) \\
    h_t &= z_t \odot h_{t-1} + (1 - z_t) \odot \bar h_t
    \end{aligned}
    $$

    A gate of 1 copies the state exactly; a gate of 0 makes an Elman network.
    The gate order in the kernels is $z$, $h$.

    `cell.py` documents initializers, regularizers, constraints and dropout.

    Args:
        units: Size of the state.
        activation: Replaces ReLU.
        recurrent_activation: Replaces $\sigma$.

    Examples:
        >>> cell = GatedCell(3)
        >>> h, states = cell(np.ones((2, 5)), cell.get_initial_state(2))
        >>> keras.ops.shape(h)
        (2, 3)

    References:
        Slides C.
    """

    gates: int = 2
    keep_gate: int | None = 0

    @passes_on(RecurrentCell)
    def __init__(
        self,
        units: int,
        activation: Identifier = "relu",
        recurrent_activation: Identifier = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        recurrent_initializer: Identifier = "orthogonal",
        bias_initializer: Identifier = "zeros",
        kernel_regularizer: Identifier = None,
        recurrent_regularizer: Identifier = None,
        bias_regularizer: Identifier = None,
        kernel_constraint: Identifier = None,
        recurrent_constraint: Identifier = None,
        bias_constraint: Identifier = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        pass  # the base class has all of them

    def step(
        self, projected: Tensor, states: Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        (h,) = states
        sigma, phi = self.sigma, self.phi
        both = projected + self.recurrent_product(h, training)
        z, h_bar = ops.split(both, 2, axis=-1)  # each (B, H)
        z = record(self, "forget_gate", sigma(z))
        h_bar = record(self, "candidate", phi(h_bar))
        h = record(self, "hidden_state", z * h + (1 - z) * h_bar)
        return h, [h]


@register
@complete_docstring
class GatedRNN(RecurrentLayer):
    r"""A network with one gate over a sequence.

    `GatedCell` documents the equation and the arguments of the cell, `RNN` the others.

    Examples:
        >>> layer = GatedRNN(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)
    """

    Cell: type[RecurrentCell] = GatedCell

    @passes_to_cell
    def __init__(
        self,
        units: int,
        activation: Identifier = "relu",
        recurrent_activation: Identifier = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        recurrent_initializer: Identifier = "orthogonal",
        bias_initializer: Identifier = "zeros",
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
        **kwargs: Any,
    ) -> None:
        pass  # nothing is left: the cell and `RNN` have them all

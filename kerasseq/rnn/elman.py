r"""The Elman network, a layer whose previous output is part of its input.

Elman 1990; course slides C use ReLU, Keras' `SimpleRNN` tanh.
"""

from collections.abc import Sequence
from typing import Any

import keras

from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Identifier, Tensor
from kerasseq.rnn.cell import RecurrentCell
from kerasseq.rnn.docstrings import complete_docstring
from kerasseq.rnn.layer import RecurrentLayer, passes_to_cell
from kerasseq.tracing import record


@register
@complete_docstring
class ElmanCell(RecurrentCell):
    r"""One time step of an Elman network.

    $$h_t = \mathrm{ReLU}(x_t W + h_{t-1} U + b)$$

    `cell.py` documents initializers, regularizers, constraints and dropout.

    Args:
        units: Size of the state.
        activation: Replaces ReLU; `"tanh"` makes it Keras' `SimpleRNNCell`.

    Raises:
        ValueError: If `units` is below 1, or a dropout is not from 0 to below 1.

    Examples:
        >>> cell = ElmanCell(3)
        >>> h, states = cell(np.ones((2, 5)), cell.get_initial_state(2))
        >>> keras.ops.shape(h)
        (2, 3)

    References:
        Elman, "Finding Structure in Time", Cognitive Science 1990. Slides C.
    """

    gates: int = 1

    @passes_on(RecurrentCell)
    def __init__(
        self,
        units: int,
        activation: Identifier = "relu",
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

    @property
    def native(self) -> str | None:
        known = {keras.activations.tanh: "rnn_tanh", keras.activations.relu: "rnn_relu"}
        return known.get(self.activation)

    def step(
        self, projected: Tensor, states: Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        (h,) = states
        h = self.phi(projected + self.recurrent_product(h, training))
        h = record(self, "hidden_state", h)
        return h, [h]


@register
@complete_docstring
class ElmanRNN(RecurrentLayer):
    r"""An Elman network over a sequence.

    Takes the arguments of `keras.layers.SimpleRNN`, in the same order; only the default
    of `activation` differs. `ElmanCell` documents the equation and the arguments of the
    cell, `RNN` the others.

    Examples:
        >>> layer = ElmanRNN(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)
    """

    Cell: type[RecurrentCell] = ElmanCell

    @passes_to_cell
    def __init__(
        self,
        units: int,
        activation: Identifier = "relu",
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
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        pass  # nothing is left: the cell and `RNN` have them all


@register
@complete_docstring
class SimpleRNN(ElmanRNN):
    r"""An Elman network with tanh, under Keras' name.

    $$h_t = \tanh(x_t W + h_{t-1} U + b)$$

    Takes the arguments of `keras.layers.SimpleRNN` in the same order with the same
    defaults, and its weights. `ElmanRNN` is the same layer with ReLU.

    Args:
        activation: The activation of the state.

    Examples:
        >>> layer = SimpleRNN(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)
    """

    @passes_to_cell
    def __init__(
        self,
        units: int,
        activation: Identifier = "tanh",
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
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        pass  # nothing is left: the cell and `RNN` have them all

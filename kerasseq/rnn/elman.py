r"""The Elman network, a layer whose previous output is part of its input.

Elman 1990; course slides C use ReLU, Keras' `SimpleRNN` tanh.
"""

from collections.abc import Sequence
from typing import Any

import keras

from kerasseq.core.serialization import register
from kerasseq.core.types import Identifier, Tensor
from kerasseq.rnn.cell import RecurrentCell
from kerasseq.rnn.layer import RecurrentLayer, of_cell
from kerasseq.tracing import record


@register
class ElmanCell(RecurrentCell):
    r"""One time step of an Elman network.

    $$h_t = \mathrm{ReLU}(x_t W + h_{t-1} U + b)$$

    Args:
        units: Size of the state.
        activation: Replaces ReLU; `"tanh"` makes it Keras' `SimpleRNNCell`.
        use_bias: Whether to add $b$.
        kernel_initializer: Initializer of $W$.
        recurrent_initializer: Initializer of $U$.
        bias_initializer: Initializer of $b$.
        kernel_regularizer: Regularizer of $W$.
        recurrent_regularizer: Regularizer of $U$.
        bias_regularizer: Regularizer of $b$.
        kernel_constraint: Constraint on $W$.
        recurrent_constraint: Constraint on $U$.
        bias_constraint: Constraint on $b$.
        dropout: Fraction of the inputs to drop in training, from 0 to below 1.
        recurrent_dropout: Fraction of the state to drop in training.
        seed: Seed of the dropout.
        **kwargs: For `keras.layers.Layer`.

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
        super().__init__(
            units,
            gates=1,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            **kwargs,
        )

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
class ElmanRNN(RecurrentLayer):
    r"""An Elman network over a sequence.

    $$h_t = \mathrm{ReLU}(x_t W + h_{t-1} U + b)$$

    Takes the arguments of `keras.layers.SimpleRNN`, in the same order; only the default
    of `activation` differs. `ElmanCell` documents those of the cell, `RNN` the others.

    Args:
        units: Size of the state.
        activation: Replaces ReLU.
        use_bias: Whether to add $b$.
        kernel_initializer: Initializer of $W$.
        recurrent_initializer: Initializer of $U$.
        bias_initializer: Initializer of $b$.
        kernel_regularizer: Regularizer of $W$.
        recurrent_regularizer: Regularizer of $U$.
        bias_regularizer: Regularizer of $b$.
        activity_regularizer: Regularizer of the outputs.
        kernel_constraint: Constraint on $W$.
        recurrent_constraint: Constraint on $U$.
        bias_constraint: Constraint on $b$.
        dropout: Fraction of the inputs to drop in training.
        recurrent_dropout: Fraction of the state to drop in training.
        return_sequences: Whether to return all outputs, not only the last.
        return_state: Whether to return the last state as well.
        go_backwards: Whether to process the last step first.
        stateful: Whether a batch starts from the last state of the previous batch.
        unroll: Whether to unroll the steps instead of looping.
        seed: Seed of the dropout.
        **kwargs: For `RNN`: `zero_output_for_mask`, `name`, `dtype` …

    Examples:
        >>> layer = ElmanRNN(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)

    References:
        Elman, "Finding Structure in Time", Cognitive Science 1990. Slides C.
    """

    Cell: type[RecurrentCell] = ElmanCell

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
        cell = self.Cell(
            units,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            **of_cell(kwargs),
        )
        super().__init__(
            cell,
            activity_regularizer=activity_regularizer,
            return_sequences=return_sequences,
            return_state=return_state,
            go_backwards=go_backwards,
            stateful=stateful,
            unroll=unroll,
            **kwargs,
        )


@register
class SimpleRNN(ElmanRNN):
    r"""An Elman network with tanh, under Keras' name.

    $$h_t = \tanh(x_t W + h_{t-1} U + b)$$

    Takes the arguments of `keras.layers.SimpleRNN` in the same order with the same
    defaults, and its weights. `ElmanRNN` is the same layer with ReLU.

    Args:
        units: Size of the state.
        activation: The activation of the state.
        use_bias: Whether to add $b$.
        kernel_initializer: Initializer of $W$.
        recurrent_initializer: Initializer of $U$.
        bias_initializer: Initializer of $b$.
        kernel_regularizer: Regularizer of $W$.
        recurrent_regularizer: Regularizer of $U$.
        bias_regularizer: Regularizer of $b$.
        activity_regularizer: Regularizer of the outputs.
        kernel_constraint: Constraint on $W$.
        recurrent_constraint: Constraint on $U$.
        bias_constraint: Constraint on $b$.
        dropout: Fraction of the inputs to drop in training.
        recurrent_dropout: Fraction of the state to drop in training.
        return_sequences: Whether to return all outputs, not only the last.
        return_state: Whether to return the last state as well.
        go_backwards: Whether to process the last step first.
        stateful: Whether a batch starts from the last state of the previous batch.
        unroll: Whether to unroll the steps instead of looping.
        seed: Seed of the dropout.
        **kwargs: For `RNN`: `zero_output_for_mask`, `name`, `dtype` …

    Examples:
        >>> layer = SimpleRNN(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)

    References:
        Elman, "Finding Structure in Time", Cognitive Science 1990. Slides C.
    """

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
        super().__init__(
            units,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            activity_regularizer=activity_regularizer,
            return_sequences=return_sequences,
            return_state=return_state,
            go_backwards=go_backwards,
            stateful=stateful,
            unroll=unroll,
            **kwargs,
        )

r"""The gated network: one gate per unit mixes the old state with a candidate.

Course slides C, on the way from the Elman network to GRU and LSTM.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.core import objects
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Identifier, Tensor
from kerasseq.rnn.cell import RecurrentCell
from kerasseq.rnn.layer import RecurrentLayer, of_cell
from kerasseq.tracing import record


@register
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

    Args:
        units: Size of the state.
        activation: Replaces ReLU.
        recurrent_activation: Replaces $\sigma$.
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

    Examples:
        >>> cell = GatedCell(3)
        >>> h, states = cell(np.ones((2, 5)), cell.get_initial_state(2))
        >>> keras.ops.shape(h)
        (2, 3)

    References:
        Slides C.
    """

    keep_gate: int | None = 0

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
        super().__init__(
            units,
            gates=2,
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
        self.recurrent_activation: Callable[[Tensor], Tensor] = objects.activation(
            "recurrent_activation", recurrent_activation
        )

    def own_config(self) -> Config:
        return {
            **super().own_config(),
            "recurrent_activation": keras.activations.serialize(
                self.recurrent_activation
            ),
        }

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
class GatedRNN(RecurrentLayer):
    r"""A network with one gate over a sequence.

    $$
    \begin{aligned}
    z_t &= \sigma(x_t W_z + h_{t-1} U_z + b_z) \\
    \bar h_t &= \mathrm{ReLU}(x_t W_h + h_{t-1} U_h + b_h) \\
    h_t &= z_t \odot h_{t-1} + (1 - z_t) \odot \bar h_t
    \end{aligned}
    $$

    `GatedCell` documents the arguments of the cell, `RNN` the others.

    Args:
        units: Size of the state.
        activation: Replaces ReLU.
        recurrent_activation: Replaces $\sigma$.
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
        seed: Seed of the dropout.
        return_sequences: Whether to return all outputs, not only the last.
        return_state: Whether to return the last state as well.
        go_backwards: Whether to process the last step first.
        stateful: Whether a batch starts from the last state of the previous batch.
        unroll: Whether to unroll the steps instead of looping.
        **kwargs: For `RNN`: `zero_output_for_mask`, `name`, `dtype` …

    Examples:
        >>> layer = GatedRNN(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)

    References:
        Slides C.
    """

    Cell: type[RecurrentCell] = GatedCell

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
        cell = self.Cell(
            units,
            activation=activation,
            recurrent_activation=recurrent_activation,
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

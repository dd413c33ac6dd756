r"""The gated network: one gate decides, unit by unit, what to keep.

Course slides C, on the way from the Elman network to GRU and LSTM.
"""

from keras import ops

from kerasseq.core.serialization import register
from kerasseq.rnn.cell import RecurrentCell
from kerasseq.rnn.layer import RecurrentLayer
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
    Weights stand in the order $z$, $h$.

    Args:
        units: Size of the state.
        activation: What stands for ReLU.
        recurrent_activation: What stands for $\sigma$.
        use_bias: Whether there is a $b$.
        kernel_initializer: Initializer of $W$.
        recurrent_initializer: Initializer of $U$.
        bias_initializer: Initializer of $b$.
        kernel_regularizer: Regularizer of $W$.
        recurrent_regularizer: Regularizer of $U$.
        bias_regularizer: Regularizer of $b$.
        kernel_constraint: Constraint on $W$.
        recurrent_constraint: Constraint on $U$.
        bias_constraint: Constraint on $b$.
        dropout: Fraction of the inputs that is dropped in training, from 0 to below 1.
        recurrent_dropout: Fraction of the state that is dropped in training.
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

    gates = 2
    equation = ("gated",)

    def __init__(
        self,
        units,
        activation="relu",
        recurrent_activation="sigmoid",
        use_bias=True,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        kernel_regularizer=None,
        recurrent_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        recurrent_constraint=None,
        bias_constraint=None,
        dropout=0.0,
        recurrent_dropout=0.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(locals())

    def step(self, projected, states, training=False):
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

    `GatedCell` explains the arguments of the cell, `RNN` the others.

    Args:
        units: Size of the state.
        activation: What stands for ReLU.
        recurrent_activation: What stands for $\sigma$.
        use_bias: Whether there is a $b$.
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
        dropout: Fraction of the inputs that is dropped in training.
        recurrent_dropout: Fraction of the state that is dropped in training.
        seed: Seed of the dropout.
        return_sequences: Whether to return all outputs, not only the last.
        return_state: Whether to return the last state, too.
        go_backwards: Whether to process the last step first.
        stateful: Whether a batch starts from the last state of the one before.
        unroll: Whether to write the steps out instead of looping.
        **kwargs: For `RNN`: `zero_output_for_mask`, `name`, `dtype` …

    Examples:
        >>> layer = GatedRNN(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)

    References:
        Slides C.
    """

    Cell = GatedCell

    def __init__(
        self,
        units,
        activation="relu",
        recurrent_activation="sigmoid",
        use_bias=True,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        kernel_regularizer=None,
        recurrent_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        recurrent_constraint=None,
        bias_constraint=None,
        dropout=0.0,
        recurrent_dropout=0.0,
        seed=None,
        return_sequences=False,
        return_state=False,
        go_backwards=False,
        stateful=False,
        unroll=False,
        **kwargs,
    ):
        super().__init__(locals())

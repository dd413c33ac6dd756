r"""The Elman network: one layer that sees its own last output.

Elman 1990; course slides C use ReLU. `keras.layers.SimpleRNN` is the same with tanh.
"""

from kerasseq.core.serialization import register
from kerasseq.rnn.cell import RecurrentCell
from kerasseq.rnn.layer import RecurrentLayer
from kerasseq.tracing import record


@register
class ElmanCell(RecurrentCell):
    r"""One time step of an Elman network.

    $$h_t = \mathrm{ReLU}(x_t W + h_{t-1} U + b)$$

    Args:
        units: Size of the state.
        activation: What stands for ReLU; `"tanh"` makes it Keras' `SimpleRNNCell`.
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

    equation = ("elman",)

    def __init__(
        self,
        units,
        activation="relu",
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
        h = self.phi(projected + self.recurrent_product(h, training))
        h = record(self, "hidden_state", h)
        return h, [h]


@register
class ElmanRNN(RecurrentLayer):
    r"""An Elman network over a sequence.

    $$h_t = \mathrm{ReLU}(x_t W + h_{t-1} U + b)$$

    Takes the arguments of `keras.layers.SimpleRNN`, in the same order; only the default
    of `activation` differs. `ElmanCell` explains those of the cell, `RNN` the others.

    Args:
        units: Size of the state.
        activation: What stands for ReLU.
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
        return_sequences: Whether to return all outputs, not only the last.
        return_state: Whether to return the last state, too.
        go_backwards: Whether to process the last step first.
        stateful: Whether a batch starts from the last state of the one before.
        unroll: Whether to write the steps out instead of looping.
        seed: Seed of the dropout.
        **kwargs: For `RNN`: `zero_output_for_mask`, `name`, `dtype` …

    Examples:
        >>> layer = ElmanRNN(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)

    References:
        Elman, "Finding Structure in Time", Cognitive Science 1990. Slides C.
    """

    Cell = ElmanCell

    def __init__(
        self,
        units,
        activation="relu",
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
        return_sequences=False,
        return_state=False,
        go_backwards=False,
        stateful=False,
        unroll=False,
        seed=None,
        **kwargs,
    ):
        super().__init__(locals())

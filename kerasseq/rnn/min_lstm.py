"""The minimal LSTM: normalized gates of the input alone.

Feng, Tung, Ahmed, Bengio and Hajimirsadeghi, "Were RNNs all we needed?", 2024,
arXiv:2410.01201, who drop the output gate and the cell state. Their computation in log
space is left out, as in `min_gru.py`.
"""

from typing import Any

from keras import ops

from kerasseq.core.serialization import register
from kerasseq.core.types import Identifier, Tensor
from kerasseq.rnn.layer import RecurrentLayer, of_cell
from kerasseq.rnn.linear import LinearCell, positive_candidate
from kerasseq.tracing import record


@register
class MinLSTMCell(LinearCell):
    r"""One time step of an LSTM whose gates do not depend on the state.

    $$
    \begin{aligned}
    f_t &= \sigma(x_t W_f + b_f) \\
    i_t &= \sigma(x_t W_i + b_i) \\
    \tilde h_t &= g(x_t W_h + b_h) \\
    h_t &= \frac{f_t}{f_t + i_t} \odot h_{t-1} + \frac{i_t}{f_t + i_t} \odot \tilde h_t
    \end{aligned}
    $$

    with $g(x) = x + \frac12$ where $x \ge 0$, else $\sigma(x)$, so that the state is
    positive. The two factors add up to 1; they are recorded as the gates. The gate
    order in the kernel is $f$, $i$, $h$.

    Args:
        units: Size of the state.
        use_bias: Whether to add $b$.
        kernel_initializer: Initializer of $W$.
        bias_initializer: Initializer of $b$.
        kernel_regularizer: Regularizer of $W$.
        bias_regularizer: Regularizer of $b$.
        kernel_constraint: Constraint on $W$.
        bias_constraint: Constraint on $b$.
        dropout: Fraction of the inputs to drop in training, from 0 to below 1.
        seed: Seed of the dropout.
        **kwargs: For `keras.layers.Layer`.

    Examples:
        >>> cell = MinLSTMCell(3)
        >>> h, states = cell(np.ones((2, 5)), cell.get_initial_state(2))
        >>> keras.ops.shape(h)
        (2, 3)

    References:
        Feng et al., "Were RNNs all we needed?", arXiv:2410.01201, 2024; slides A.
    """

    gates: int = 3
    keep_gate: int | None = 0

    def coefficients(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        k_f, k_i, v = ops.split(projected, 3, axis=-1)  # each (..., H)
        # log f - log i: where both gates are nearly 0, f / (f + i) would be 0 / 0.
        d = ops.softplus(-k_i) - ops.softplus(-k_f)
        f = record(self, "forget_gate", ops.sigmoid(d))
        i = record(self, "input_gate", ops.sigmoid(-d))
        h_tilde = record(self, "candidate", positive_candidate(v))
        return f, i * h_tilde


@register
class MinLSTM(RecurrentLayer):
    r"""The minimal LSTM over a sequence: normalized gates, no products with the state.

    $$
    \begin{aligned}
    f_t &= \sigma(x_t W_f + b_f) \\
    i_t &= \sigma(x_t W_i + b_i) \\
    \tilde h_t &= g(x_t W_h + b_h) \\
    h_t &= \frac{f_t}{f_t + i_t} \odot h_{t-1} + \frac{i_t}{f_t + i_t} \odot \tilde h_t
    \end{aligned}
    $$

    with $g(x) = x + \frac12$ where $x \ge 0$, else $\sigma(x)$, so that the state is
    positive.

    `advance(x, states)` continues from a state: any cut of a sequence gives the same
    outputs as the whole. `MinLSTMCell` documents the arguments of the cell, `RNN` the
    others; there is no `recurrent_dropout`, since no weight acts on the state.

    Args:
        units: Size of the state.
        use_bias: Whether to add $b$.
        kernel_initializer: Initializer of $W$.
        bias_initializer: Initializer of $b$.
        kernel_regularizer: Regularizer of $W$.
        bias_regularizer: Regularizer of $b$.
        activity_regularizer: Regularizer of the outputs.
        kernel_constraint: Constraint on $W$.
        bias_constraint: Constraint on $b$.
        dropout: Fraction of the inputs to drop in training.
        seed: Seed of the dropout.
        return_sequences: Whether to return all outputs, not only the last.
        return_state: Whether to return the last state as well.
        go_backwards: Whether to process the last step first.
        stateful: Whether a batch starts from the last state of the previous batch.
        unroll: Whether to unroll the steps instead of looping.
        **kwargs: For `RNN`: `zero_output_for_mask`, `name`, `dtype` …

    Examples:
        >>> layer = MinLSTM(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)

    References:
        Feng et al., "Were RNNs all we needed?", arXiv:2410.01201, 2024; slides A.
    """

    Cell: type[LinearCell] = MinLSTMCell

    def __init__(
        self,
        units: int,
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        kernel_regularizer: Identifier = None,
        bias_regularizer: Identifier = None,
        activity_regularizer: Identifier = None,
        kernel_constraint: Identifier = None,
        bias_constraint: Identifier = None,
        dropout: float = 0.0,
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
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            dropout=dropout,
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

"""The minimal LSTM: normalized gates of the input alone.

Feng, Tung, Ahmed, Bengio and Hajimirsadeghi, "Were RNNs all we needed?", 2024,
arXiv:2410.01201, who drop the output gate and the cell state. Their computation in log
space is left out, as in `min_gru.py`.
"""

from keras import ops

from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor
from kerasseq.rnn.docstrings import complete_docstring
from kerasseq.rnn.linear import LinearCell, LinearRNN, positive_candidate
from kerasseq.tracing import record


@register
@complete_docstring
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

    `cell.py` documents initializers, regularizers, constraints and dropout.

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
@complete_docstring
class MinLSTM(LinearRNN):
    r"""The minimal LSTM over a sequence: normalized gates, no products with the state.

    `advance(x, states)` continues from a state: any cut of a sequence gives the same
    outputs as the whole. `MinLSTMCell` documents the equation and the arguments of the
    cell, `RNN` the others; there is no `recurrent_dropout`, since no weight acts on the
    state.

    Examples:
        >>> layer = MinLSTM(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)
    """

    Cell: type[LinearCell] = MinLSTMCell

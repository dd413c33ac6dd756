"""The minimal GRU: its gate depends on the input alone, not on the state.

Feng, Tung, Ahmed, Bengio and Hajimirsadeghi, "Were RNNs all we needed?", 2024,
arXiv:2410.01201. Their training computes in log space, which needs a positive state; a
linear recurrence does not, but the candidate is theirs. Their convolutions and blocks
around the layer are left out.
"""

from keras import ops

from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor
from kerasseq.rnn.docstrings import complete_docstring
from kerasseq.rnn.linear import LinearCell, LinearRNN, positive_candidate
from kerasseq.tracing import record


@register
@complete_docstring
class MinGRUCell(LinearCell):
    r"""One time step of a GRU whose gate does not depend on the state.

    $$
    \begin{aligned}
    z_t &= \sigma(x_t W_z + b_z) \\
    \tilde h_t &= g(x_t W_h + b_h) \\
    h_t &= (1 - z_t) \odot h_{t-1} + z_t \odot \tilde h_t
    \end{aligned}
    $$

    with $g(x) = x + \frac12$ where $x \ge 0$, else $\sigma(x)$, so that the state is
    positive. A gate of 0 copies the state, as in `GRU(update="replace")`. The gate
    order in the kernel is $z$, $h$.

    `cell.py` documents initializers, regularizers, constraints and dropout.

    Examples:
        >>> cell = MinGRUCell(3)
        >>> h, states = cell(np.ones((2, 5)), cell.get_initial_state(2))
        >>> keras.ops.shape(h)
        (2, 3)

    References:
        Feng et al., "Were RNNs all we needed?", arXiv:2410.01201, 2024; slides A.
    """

    gates: int = 2

    def coefficients(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        k, v = ops.split(projected, 2, axis=-1)  # each (..., H)
        z = record(self, "update_gate", ops.sigmoid(k))
        h_tilde = record(self, "candidate", positive_candidate(v))
        return 1 - z, z * h_tilde


@register
@complete_docstring
class MinGRU(LinearRNN):
    r"""The minimal GRU over a sequence: a GRU without products with the state.

    `advance(x, states)` continues from a state: any cut of a sequence gives the same
    outputs as the whole. `MinGRUCell` documents the equation and the arguments of the
    cell, `RNN` the others; there is no `recurrent_dropout`, since no weight acts on the
    state.

    Examples:
        >>> layer = MinGRU(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)
    """

    Cell: type[LinearCell] = MinGRUCell

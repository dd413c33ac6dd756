r"""The gated recurrent unit (GRU), in every convention in use.

Cho et al. 2014; course slides A, C and D. Books differ on two points: whether $z = 1$
keeps or replaces the state, and whether the reset gate acts before or after
the product.
"""

from collections.abc import Sequence
from typing import Any

from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Identifier, Tensor
from kerasseq.rnn.cell import RecurrentCell
from kerasseq.rnn.docstrings import complete_docstring
from kerasseq.rnn.layer import RecurrentLayer, passes_to_cell
from kerasseq.tracing import record


@register
@complete_docstring
class GRUCell(RecurrentCell):
    r"""One time step of a GRU.

    $$
    \begin{aligned}
    z_t &= \sigma(x_t W_z + h_{t-1} U_z + b_z) \\
    r_t &= \sigma(x_t W_r + h_{t-1} U_r + b_r) \\
    \hat h_t &= \tanh(x_t W_h + r_t \odot (h_{t-1} U_h + b'_h) + b_h) \\
    h_t &= z_t \odot h_{t-1} + (1 - z_t) \odot \hat h_t
    \end{aligned}
    $$

    The gate order in the kernels is $z$, $r$, $h$, as in `keras.layers.GRUCell`; the
    bias has two rows, $b$ and $b'$, with `reset_after`, and one without.

    `cell.py` documents initializers, regularizers, constraints and dropout.

    Args:
        units: Size of the state.
        activation: Replaces $\tanh$.
        recurrent_activation: Replaces $\sigma$.
        reset_after: Whether $r$ acts after the product with $U_h$, as above, or before
            it, on $h_{t-1}$, as in the paper.
        update: What $z = 1$ means: "keep" the old state, as above and in Keras, or
            "replace" it, $h_t = (1 - z_t) \odot h_{t-1} + z_t \odot \hat h_t$.

    Examples:
        >>> cell = GRUCell(3)
        >>> h, states = cell(np.ones((2, 5)), cell.get_initial_state(2))
        >>> keras.ops.shape(h)
        (2, 3)

    References:
        Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder for
        Statistical Machine Translation", EMNLP 2014. Slides A, C, D.
    """

    gates: int = 3

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
        kernel_regularizer: Identifier = None,
        recurrent_regularizer: Identifier = None,
        bias_regularizer: Identifier = None,
        kernel_constraint: Identifier = None,
        recurrent_constraint: Identifier = None,
        bias_constraint: Identifier = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        reset_after: bool = True,
        seed: int | None = None,
        *,
        update: str = "keep",
        **kwargs: Any,
    ) -> None:
        self.reset_after: bool = checks.flag("reset_after", reset_after)
        self.update: str = checks.one_of("update", update, ["keep", "replace"])
        self.keep_gate: int | None = 0 if self.update == "keep" else None

    def bias_shape(self) -> tuple[int, ...]:
        size = self.gates * self.units
        return (2, size) if self.reset_after else (size,)

    def input_bias(self) -> Tensor:
        return self.bias[0] if self.reset_after else ops.convert_to_tensor(self.bias)

    @property
    def native(self) -> str | None:
        plain = self.reset_after and self.update == "keep" and self.is_squashed()
        return "gru" if plain else None

    def recurrent_bias(self) -> Tensor | None:
        two = self.reset_after and self.bias is not None
        return self.bias[1] if two else None

    def step(
        self, projected: Tensor, states: Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        (h,) = states
        sigma, phi = self.sigma, self.phi
        x_z, x_r, x_h = ops.split(projected, 3, axis=-1)  # each (B, H)

        if self.reset_after:
            products = self.recurrent_product(h, training)
            if self.bias is not None:
                products = products + self.bias[1]
            u_z, u_r, u_h = ops.split(products, 3, axis=-1)
        else:
            u_z, u_r = ops.split(
                self.recurrent_product(h, training, last=2), 2, axis=-1
            )

        z = record(self, "update_gate", sigma(x_z + u_z))
        r = record(self, "reset_gate", sigma(x_r + u_r))
        if self.reset_after:
            u_h = r * u_h
        else:
            u_h = self.recurrent_product(r * h, training, first=2)
        h_hat = record(self, "candidate", phi(x_h + u_h))

        kept = z if self.update == "keep" else 1 - z
        h = record(self, "hidden_state", kept * h + (1 - kept) * h_hat)
        return h, [h]


@register
@complete_docstring
class GRU(RecurrentLayer):
    r"""A GRU over a sequence.

    Takes the arguments of `keras.layers.GRU` in the same order, and its weights.
    `GRUCell` documents the equation and the arguments of the cell, `RNN` the others.

    Examples:
        >>> layer = GRU(3, return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)
    """

    Cell: type[RecurrentCell] = GRUCell

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
        reset_after: bool = True,
        use_cudnn: bool | str = "auto",
        *,
        update: str = "keep",
        **kwargs: Any,
    ) -> None:
        pass  # nothing is left: the cell and `RNN` have them all

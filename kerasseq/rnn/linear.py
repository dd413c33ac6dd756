r"""Linear recurrences: the base classes of MinGRU and MinLSTM.

$h_t = a_t \odot h_{t-1} + b_t$, where $a_t$ and $b_t$ depend on the input alone. All
of them are known before the first step, so `kernels.linear_recurrence` computes a
sequence without a product of matrices inside the loop.
"""

from collections.abc import Sequence
from typing import Any

from keras import ops, tree

from kerasseq import kernels
from kerasseq.core.types import Identifier, Tensor
from kerasseq.rnn.cell import ProjectingCell
from kerasseq.rnn.layer import RecurrentLayer, passes_to_cell
from kerasseq.tracing import listeners, record


class LinearCell(ProjectingCell):
    r"""One step of $h_t = a_t \odot h_{t-1} + b_t$.

    A subclass sets `gates` and implements `coefficients`. The state is float32 in
    mixed precision, where a decay near 1 would be rounded to 1; outputs have the
    compute dtype.
    """

    @property
    def state_dtype(self) -> str:
        """The dtype of the state in the loop of kerasseq's layers."""
        return kernels.state_dtype(self.compute_dtype)

    def coefficients(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the decay and what is written, for one step or for all at once.

        Args:
            projected: `project(inputs)`, `(..., gates * units)`, in `state_dtype`.

        Returns:
            $a$ and $b$, each `(..., units)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define coefficients")

    def step(
        self, projected: Tensor, states: Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        (h,) = states
        a, b = self.coefficients(ops.cast(projected, self.state_dtype))
        a = record(self, "decay", a, domain=(0, 1))
        b = record(self, "written", b)
        h = record(self, "hidden_state", a * ops.cast(h, self.state_dtype) + b)
        return ops.cast(h, self.compute_dtype), [h]

    step.is_linear = True  # a subclass that overrides `step` runs it at each step

    def run(
        self,
        inputs: Tensor,
        states: Sequence[Tensor],
        mask: Tensor | None,
        training: bool = False,
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Computes all steps as one operation.

        Args:
            inputs: $x_t$ of all steps, `(time, batch, features)`.
            states: List of one state, `(batch, units)`.
            mask: Boolean `(time, batch)`, or None.
            training: Whether dropout is on.

        Returns:
            The last output `(batch, units)`, all outputs `(time, batch, units)`, and
            the list of the last state.
        """
        if training and self.dropout:
            inputs = inputs * self.get_dropout_mask(inputs[0])
        projected = self.project(ops.swapaxes(inputs, 0, 1))  # (B, T, gates * H)
        with listeners.pause():
            a, b = self.coefficients(ops.cast(projected, self.state_dtype))
        real = None if mask is None else ops.swapaxes(mask, 0, 1)
        path, last = kernels.linear_recurrence(a, b, states[0], mask=real)
        path = ops.swapaxes(path, 0, 1)
        outputs = [ops.cast(h, self.compute_dtype) for h in (last, path)]
        return *outputs, [last]

    def call(
        self, inputs: Tensor, states: Tensor | Sequence[Tensor], training: bool = False
    ) -> tuple[Tensor, Tensor | list[Tensor]]:
        h, after = super().call(inputs, states, training)
        (before,) = tree.flatten(states)  # other loops keep the dtype that it had
        return h, tree.map_structure(lambda h: ops.cast(h, before.dtype), after)


class LinearRNN(RecurrentLayer):
    """A layer whose cell is a `LinearCell`.

    There is no `recurrent_dropout`, since no weight acts on the state.
    """

    Cell: type[LinearCell] = LinearCell

    @passes_to_cell
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
        pass  # nothing is left: the cell and `RNN` have them all


def positive_candidate(x: Tensor) -> Tensor:
    r"""Computes $g(x) = x + \frac12$ where $x \ge 0$, else $\sigma(x)$.

    It is positive and continuous. Near 0 its slope is not zero, and large inputs are
    not saturated.

    Examples:
        >>> y = positive_candidate(np.array([-100.0, 0.0, 3.0], "float32"))
        >>> keras.ops.convert_to_numpy(y).round(3).tolist()
        [0.0, 0.5, 3.5]
    """
    x = ops.convert_to_tensor(x)
    return ops.where(x >= 0, x + 0.5, ops.sigmoid(x))

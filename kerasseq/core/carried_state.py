"""States that a layer carries from one part of a sequence to the next."""

import dataclasses
from collections.abc import Sequence

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.shapes import check_real, check_sequence
from kerasseq.core.types import Nested, Shape, Tensor


@dataclasses.dataclass
class Hidden:
    """Hides states from Keras, which would cast them to the compute dtype."""

    states: Nested
    mask: Tensor | None
    index: int | Tensor | None = None  # of the next keys in a cache


class CarriesState:
    """A layer that continues a sequence from a list of states: a mixin.

    Outputs and states do not depend on where a sequence is cut: the parts, each read
    with the states after the one before, give the outputs of the whole. A masked step
    is skipped, as if it were not there.

    A subclass defines `state_shapes`, and `_advance(x, states, mask)`, which returns
    the outputs and the list of new states. None in place of a state means zeros.
    """

    def state_shapes(self) -> list[Shape]:
        """Returns the shape of each state, without the batch."""
        raise NotImplementedError(f"{type(self).__name__} must define state_shapes")

    def state_dtypes(self) -> list[str]:
        """Returns the dtype of each state: by default the compute dtype."""
        return [self.compute_dtype] * len(self.state_shapes())

    def get_initial_state(self, batch_size: int | Tensor) -> list[Tensor]:
        """Returns the states before the first step: zeros.

        Args:
            batch_size: Number of sequences.

        Raises:
            ValueError: If the layer is not built.
        """
        if not self.built:
            raise ValueError(
                "get_initial_state needs the number of features of the inputs, "
                f"received a layer {self.name} that is not built. Call "
                "layer.build((None, None, features)) first"
            )
        return [
            ops.zeros((batch_size, *shape), dtype)
            for shape, dtype in zip(
                self.state_shapes(), self.state_dtypes(), strict=True
            )
        ]

    def advance(
        self,
        x: Tensor,
        states: Sequence[Tensor] | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Continues from `states`, and returns all outputs and the last states.

        Args:
            x: `(batch, time, features)`.
            states: The states that an earlier call returned; None to start.
            mask: Boolean `(batch, time)`, False at padding. No padding if None.

        Returns:
            The outputs `(batch, time, units)`, and the list of states to continue from.

        Raises:
            TypeError: If `states` is not a list of tensors.
            ValueError: If the states are those of another layer or batch.
        """
        return self._continue(x, states, mask)

    def _continue(self, x, states, mask, *tensors, **options):
        """Continues as `advance` does; `_advance` gets further tensors and options."""
        check_sequence("x", x, mask)
        if not self.built:
            self.build(x.shape)
        shapes = self.state_shapes()
        if states is None:
            states = [None] * len(shapes)
        else:
            states = checked_states(states, shapes, self.state_dtypes(), x.shape[0])
        hidden = Hidden(states, mask)
        return MethodLayer(self, "_advance_hidden")(
            x, *tensors, hidden=hidden, **options
        )

    def _advance_hidden(self, x, *tensors, hidden, **options):
        return self._advance(x, hidden.states, hidden.mask, *tensors, **options)


def carries_state(layer: keras.Layer) -> bool:
    """Returns whether a layer continues a sequence from states, as those of `rnn` do.

    Examples:
        >>> carries_state(keras.layers.GRU(3))
        False
    """
    return hasattr(layer, "advance") and hasattr(layer, "get_initial_state")


def checked_states(
    states: Sequence[Tensor],
    shapes: Sequence[Shape],
    dtypes: Sequence[str],
    batch_size: int | None,
) -> list[Tensor]:
    """Returns states in their dtypes, if there is one of each shape and real.

    Args:
        states: The states.
        shapes: The shape of each, without the batch.
        dtypes: The dtype of each.
        batch_size: Number of sequences; None if it is not known.

    Raises:
        TypeError: If the states are not a list of tensors of numbers.
        ValueError: If their number, a shape or the batch size is another.

    Examples:
        >>> checked_states([np.zeros((3, 4, 5))], [(4, 5)], ["float32"], 2)
        Traceback (most recent call last):
        ...
        ValueError: states[0] must have shape (2, 4, 5), received shape (3, 4, 5). \
Pass the states that advance of this layer returned for these sequences
    """
    advice = "Pass the states that advance of this layer returned for these sequences"
    check_states("states", states, shapes, batch_size, advice)
    return [ops.cast(*pair) for pair in zip(states, dtypes, strict=True)]


def check_states(
    name: str,
    states: Sequence[Tensor],
    shapes: Sequence[Shape],
    batch_size: int | None,
    advice: str,
) -> None:
    """Raises unless there is a state of each shape, of real numbers.

    Args:
        name: The argument.
        states: Its value.
        shapes: The shape of each state, without the batch.
        batch_size: Number of sequences; None if it is not known.
        advice: What to do, for messages.
    """
    if not isinstance(states, list | tuple):
        raise TypeError(
            f"{name} must be a list of {len(shapes)} tensors, received "
            f"{checks.short(states)}. {advice}"
        )
    if len(states) != len(shapes):
        raise ValueError(
            f"{name} must have {len(shapes)} tensors, received {len(states)}. {advice}"
        )
    for n, (state, shape) in enumerate(zip(states, shapes, strict=True)):
        actual = getattr(state, "shape", None)
        if actual is None:
            raise TypeError(
                f"{name}[{n}] must be a tensor, received {checks.short(state)}. "
                f"{advice}"
            )
        wanted = (batch_size, *shape)
        if len(actual) != len(wanted) or any(
            None not in (a, b) and a != b for a, b in zip(actual, wanted, strict=True)
        ):
            shown = ", ".join("batch" if a is None else str(a) for a in wanted)
            raise ValueError(
                f"{name}[{n}] must have shape ({shown}), received shape "
                f"{tuple(actual)}. {advice}"
            )
        check_real(f"{name}[{n}]", state)

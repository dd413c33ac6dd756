"""`RNN` for any cell, and the base class of the layers named after their cell.

How `LSTM.call` works, in the order of the calls:

1. `RNN.call` below checks the sequences; Keras' `RNN.call` takes or makes the initial
   states, and calls `inner_loop` below, which checks the mask.
2. `run_through_time` (`loop.py`) runs all steps as one operation, or one by one while a
   value inside is replaced; both call `step` of the cell, where the equation stands.
3. `kernels.recurrence` derives the operation from `step`, once: `kernels/derived/`
   writes the step and its gradient as a graph, which `derived.py` in the folder of the
   backend runs through time. A native kernel, such as cuDNN's, takes its place where a
   trial shows that it computes what `step` says.

For another gate, change `step`, in a subclass or on the cell: that is what runs. The
`gates` of the class say how many blocks of columns the kernels have: one for each gate.
"""

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import keras
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import arguments, checks
from kerasseq.core.carried_state import check_states, checked_states
from kerasseq.core.constructors import Listed, before_body
from kerasseq.core.method_layer import MethodLayer
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.shapes import (
    as_floats,
    check_mask,
    check_sequence,
    check_shape,
)
from kerasseq.core.sublayers import WithSublayers
from kerasseq.core.types import Config, Shape, Tensor
from kerasseq.rnn.batch_states import BatchStates
from kerasseq.rnn.cell import DropoutMasks, DropoutRNNCell, RecurrentCell
from kerasseq.rnn.explanation import Explanation, explain_cell
from kerasseq.rnn.loop import run_through_time


@register
class RNN(WithSublayers, keras.layers.RNN):
    """Runs any Keras cell through time, with values that can be traced.

    The same as `keras.layers.RNN`, argument by argument, but masks mean the same on
    every backend: a masked step leaves the state as it was, the last output is that
    of the last real step, and outputs before the first real step are zeros.

    Args:
        cell: A cell, with `state_size` and `call(inputs, states)`.
        return_sequences: Whether to return all outputs, not only the last.
        return_state: Whether to return the last states, too.
        go_backwards: Whether to process the last step first.
        stateful: Whether a batch starts from the last states of the one before, in
            calls, `fit`, `evaluate` and `predict`, on all backends. They are in
            `layer.states`; `reset_state` sets them to the first ones, mostly zeros.
            They are not weights: a file has none, and a loaded layer starts anew.
        unroll: Whether to write the steps out instead of looping.
        zero_output_for_mask: Whether outputs at masked steps are zeros. Otherwise they
            repeat the last real output.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        sequences: `(batch, time, features)`.
        initial_state: List of the states to start from, each `(batch, units)`.
        mask: Boolean, `(batch, time)`, True where a step is real.
        training: Whether dropout is on.

    Returns:
        `(batch, units)`, or `(batch, time, units)` with `return_sequences`; a tuple of
        this and the states with `return_state`.

    Raises:
        ValueError: If there is no step.

    Examples:
        >>> import kerasseq
        >>> layer = kerasseq.layers.RNN(keras.layers.GRUCell(3), return_sequences=True)
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 3)
    """

    def __init__(
        self,
        cell: keras.layers.Layer | list[keras.layers.Layer],
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        zero_output_for_mask: bool = False,
        **kwargs: Any,
    ) -> None:
        cells = cell if isinstance(cell, list | tuple) else [cell]
        if not cells or not all(
            callable(getattr(each, "call", None)) for each in cells
        ):
            raise TypeError(
                "cell must be a cell with `call` and `state_size`, or a list of at "
                f"least one, received {checks.short(cell)}"
            )
        super().__init__(
            cell,
            return_sequences=checks.flag("return_sequences", return_sequences),
            return_state=checks.flag("return_state", return_state),
            go_backwards=checks.flag("go_backwards", go_backwards),
            stateful=checks.flag("stateful", stateful),
            unroll=checks.flag("unroll", unroll),
            zero_output_for_mask=checks.flag(
                "zero_output_for_mask", zero_output_for_mask
            ),
            **kwargs,
        )
        check_float64(self)
        self.batch_states: BatchStates | None = None
        self.supports_masking = True  # Keras 3.16 no longer sets it

    def build(
        self, sequences_shape: Shape, initial_state_shape: Sequence[Shape] | None = None
    ) -> None:
        super().build(sequences_shape, initial_state_shape)
        if self.stateful and self.batch_states is None:
            self.batch_states = BatchStates(self.states, self.variable_dtype)

    @property
    def states(self) -> list[keras.Variable] | None:
        """The states that the next batch starts from, if the layer is stateful."""
        held = getattr(self, "batch_states", None)
        return self._untracked_states if held is None else held.states

    @states.setter
    def states(self, states: list[keras.Variable] | None) -> None:
        self._untracked_states = states  # of Keras, until `build` has others

    def reset_state(self) -> None:
        """Sets the states of a stateful layer to those before the first step: zeros.

        A cell may have others: the stabilizer of an `SLSTMCell` is not 0.
        """
        states = tree.flatten(self.states or [])
        if states:
            first = tree.flatten(self.get_initial_state(states[0].shape[0]))
            for state, value in zip(states, first, strict=True):
                state.assign(ops.cast(value, state.dtype))

    def call(
        self,
        sequences: Tensor,
        initial_state: Sequence[Tensor] | None = None,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> Tensor | tuple[Tensor, ...]:
        check_sequence("sequences", sequences, more=True)
        sequences = as_floats("sequences", sequences, self.compute_dtype)
        if initial_state is not None:
            self._check_initial_state(initial_state, sequences.shape[0])
        try:
            return super().call(
                sequences, initial_state=initial_state, mask=mask, training=training
            )
        except BaseException:  # as from an intervention: the next call draws its own
            if isinstance(self.cell, DropoutRNNCell):
                self.cell.reset_dropout_mask()
                self.cell.reset_recurrent_dropout_mask()
            raise

    def inner_loop(
        self,
        sequences: Tensor,
        initial_state: Sequence[Tensor],
        mask: Tensor | None,
        training: bool = False,
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        own = isinstance(self.cell, DropoutMasks)  # of which Keras does not know
        if own and training:
            self.cell.get_dropout_mask(sequences[:, 0])
            self.cell.get_recurrent_dropout_mask(initial_state[0])
        mask = as_mask(mask, sequences.shape)
        options = {"training": training, "return_sequences": self.return_sequences}
        with _errors_of_dtypes(self):
            outputs = run_through_time(
                self, sequences, initial_state, mask=mask, **options
            )
        if own:
            self.cell.reset_dropout_mask()
            self.cell.reset_recurrent_dropout_mask()
        return outputs

    def advance(
        self,
        sequences: Tensor,
        states: Sequence[Tensor] | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Continues from `states`, and returns all outputs and the last states.

        Args:
            sequences: `(batch, time, features)`.
            states: The states that an earlier call returned; None to start.
            mask: Boolean `(batch, time)`, False at padding. No padding if None.

        Returns:
            All outputs `(batch, time, units)`, and the list of states to continue from.

        Raises:
            TypeError: If `states` is not a list of tensors of numbers.
            ValueError: If there is no step, or the states are those of another layer
                or batch.
        """
        check_sequence("sequences", sequences, more=True)
        mask = as_mask(mask, sequences.shape)
        if not self.built:
            self.build(sequences.shape)
        # A linear cell has states in float32, which Keras would cast.
        wide = getattr(self.cell, "state_dtype", None)
        if states is None:
            states = self.get_initial_state(ops.shape(sequences)[0])
        else:
            states = self._checked_states(states, sequences.shape[0])
        if wide is not None:
            sequences = ops.cast(sequences, self.compute_dtype)
        advance = MethodLayer(self, "_advance", casts=wide is None)
        return advance(sequences, states, mask)

    def explain(self, training: bool = False) -> Explanation:
        """Returns what is derived from the step of the cell, as its `explain` does.

        Args:
            training: Whether dropout is on: m is then the mask of the state.

        Raises:
            ValueError: If the layer has a stack of cells, or is not built and its cell
                cannot be copied.

        Examples:
            >>> import kerasseq
            >>> layer = kerasseq.layers.RNN(keras.layers.LSTMCell(3))
            >>> print(layer.explain().backward[0])
            ∂L/∂z_3 = ∂L/∂h_t ⊙ tanh(c_t) ⊙ o ⊙ (1 − o)
        """
        return explain_cell(self.cell, training)

    def _check_initial_state(self, states, batch_size):
        """Raises if a state has another shape: oneDNN reads its memory without a check.

        Those of stacked cells, and states that are no vectors, are left to the cells.
        """
        if any(map(tree.is_nested, self.state_size)):
            return
        states = states if tree.is_nested(states) else [states]
        shapes = [(size,) for size in self.state_size]
        advice = (
            "Pass a state of the cell for each sequence, as return_state gives them"
        )
        check_states("initial_state", states, shapes, batch_size, advice)

    def _checked_states(self, states, batch_size):
        """Returns the states of `advance`, nested if those of the cells are."""
        sizes = tree.flatten(self.state_size)
        dtype = getattr(self.cell, "state_dtype", self.compute_dtype)
        nested = any(map(tree.is_nested, self.state_size))
        flat = checked_states(
            tree.flatten(states) if nested else states,
            [(size,) for size in sizes],
            [dtype] * len(sizes),
            batch_size,
        )
        return tree.pack_sequence_as(states, flat) if nested else flat

    def _advance(self, sequences, states, mask):
        with _errors_of_dtypes(self):
            _, outputs, states = run_through_time(self, sequences, states, mask=mask)
        return outputs, states


def as_mask(mask: Tensor | None, shape: Shape) -> Tensor | None:
    """Returns the boolean mask `(batch, time)` of sequences of this shape, or None.

    Raises:
        ValueError: If the mask has another rank, batch size or length.
    """
    mask = tree.flatten(mask)[0] if tree.is_nested(mask) else mask
    if mask is None:
        return None
    check_mask("mask", mask, ("batch", "time"), shape[:2], broadcasts=False)
    return ops.cast(mask, "bool")


@contextlib.contextmanager
def _errors_of_dtypes(layer: keras.layers.RNN) -> Iterator[None]:
    """Names the dtype policies in errors of a layer whose cell has another one.

    Some of these pairs work on some backends, as casts of Keras make up for it.

    Args:
        layer: A recurrent layer.

    Raises:
        TypeError: In place of an error of the backend, if the policies differ.

    Examples:
        >>> layer = keras.layers.RNN(keras.layers.GRUCell(3), dtype="float64")
        >>> with _errors_of_dtypes(layer):
        ...     raise RuntimeError("types differ")
        Traceback (most recent call last):
        ...
        TypeError: the cell must have the dtype policy of its layer, 'float64', \
received 'float32'. Pass dtype='float64' to the cell, too, or set both by \
keras.config.set_dtype_policy
    """
    try:
        yield
    except Exception as error:
        own, other = layer.dtype_policy.name, _other_policy(layer)
        if other is None:
            raise
        raise TypeError(
            f"the cell must have the dtype policy of its layer, {own!r}, received "
            f"{other!r}. Pass dtype={own!r} to the cell, too, or set both by "
            "keras.config.set_dtype_policy"
        ) from error


def _other_policy(layer: Any) -> str | None:
    """Returns the policy of the first cell that has not that of the layer, or None."""
    cells = getattr(layer.cell, "cells", [layer.cell])
    policies = [getattr(cell, "dtype_policy", None) for cell in cells]
    own = layer.dtype_policy.name
    names = [policy.name for policy in policies if policy is not None]
    return next((name for name in names if name != own), None)


OF_LAYER = {"activity_regularizer", "use_cudnn", *arguments.names(RNN)}


def passes_to_cell(init: Callable[Listed, None]) -> Callable[Listed, None]:
    """Makes the cell of a layer from the arguments that `RecurrentLayer` does not take.

    That takes the others, and `**kwargs`. The class of the cell is `Cell`.
    """
    return before_body(init, _make_cell)


def _make_cell(layer, listed, more):
    own = {name: listed.pop(name) for name in OF_LAYER & listed.keys()}
    shared = {name: more[name] for name in ("dtype", "trainable") if name in more}
    cell = layer.Cell(**listed, **shared, name="cell")
    RecurrentLayer.__init__(layer, cell, **own, **more)


class RecurrentLayer(RNN):
    """A layer with the arguments of its cell and those of `RNN` together.

    A subclass sets `Cell`, and lists its arguments in an `__init__` that
    `passes_to_cell`.

    Args:
        cell: The cell.
        activity_regularizer: Regularizer of the outputs.
        use_cudnn: Whether cuDNN runs it: "auto", on PyTorch with a GPU where it
            computes the same thing; True, or else an error; False, never. None is for
            equations that cuDNN does not have.
        **kwargs: For `RNN`: `zero_output_for_mask`, `name`, `dtype` …
    """

    Cell: type[RecurrentCell]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Gives the layer its cell's attributes: `layer.units`, `layer.dropout`."""
        super().__init_subclass__(**kwargs)
        for name in arguments.names(cls.Cell):
            setattr(cls, name, property(operator.attrgetter(f"cell.{name}")))

    def __init__(
        self, cell: RecurrentCell, *, use_cudnn: bool | str | None = None, **kwargs: Any
    ) -> None:
        if use_cudnn is not None:
            checks.one_of("use_cudnn", use_cudnn, ["auto", True, False])
        if use_cudnn is True and not kernels.has_cudnn():
            raise ValueError(
                "`use_cudnn=True` needs an NVIDIA GPU with cuDNN, but "
                f"{keras.backend.backend()} does not find one. "
                'Use "auto" or False, which run anywhere'
            )
        super().__init__(cell, **kwargs)
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.use_cudnn = use_cudnn
        if use_cudnn is True and keras.backend.backend() == "tensorflow":
            self.supports_jit = False  # XLA cannot compile cuDNN's operation

    def __call__(self, sequences: Tensor, *args: Any, **kwargs: Any) -> Any:
        # Before Keras, whose error does not name the axes.
        if (getattr(sequences, "ndim", None) or 3) < 3:
            check_shape("sequences", sequences.shape)
        return super().__call__(sequences, *args, **kwargs)

    def build(
        self, sequences_shape: Shape, initial_state_shape: Sequence[Shape] | None = None
    ) -> None:
        super().build(sequences_shape, initial_state_shape)
        self.input_spec: keras.layers.InputSpec = keras.layers.InputSpec(
            ndim=3, axes={-1: sequences_shape[-1]}
        )

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Builds the layer; `use_cudnn=True` becomes "auto" where cuDNN is missing."""
        if config.get("use_cudnn") is True and not kernels.has_cudnn():
            config = {**config, "use_cudnn": "auto"}
        return cls(**config)

    def get_config(self) -> Config:
        config = super().get_config()
        del config["cell"]
        config.setdefault("activity_regularizer", None)
        if self.use_cudnn is not None:
            config["use_cudnn"] = self.use_cudnn
        return {**config, **self.cell.own_config()}

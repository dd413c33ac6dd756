"""The loop that runs every cell through time.

Cells of kerasseq run in `kernels.recurrence`, which computes all steps in one
operation. The loop calls `cell.step` for each step instead while values inside it are
replaced, with `unroll=True`, for a single step, and for cells whose equation the
kernels do not know: those of others, and subclasses that override `step`. Values that
are only traced come from a second run of the steps. Both follow the same
rule for masks: a masked step leaves the state unchanged. A `LinearCell`, whose
coefficients do not depend on the state, runs in `kernels.linear_recurrence`.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.tracing import listeners, loops

Carry: TypeAlias = tuple[Tensor, list[Tensor]]  # the output and the states


def run_through_time(
    layer: keras.layers.RNN,
    sequences: Tensor,
    initial_state: Sequence[Tensor],
    *,
    mask: Tensor | None = None,
    training: bool = False,
    return_sequences: bool = True,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Runs `layer.cell` over a batch of sequences.

    Args:
        layer: A recurrent layer. Its `cell`, `go_backwards`, `unroll` and
            `zero_output_for_mask` are used; traced values are recorded under its path.
        sequences: Tensor of shape `(batch, time, ...)`.
        initial_state: List of states, each `(batch, units)`.
        mask: Boolean tensor `(batch, time)`, True where a step is real. The other
            steps are not read.
        training: Passed to the cell.
        return_sequences: Whether to return all outputs, not only the last.

    Returns:
        The output at the last real step `(batch, units)`, all outputs
        `(batch, time, units)` in order of processing (or that last one alone,
        `(batch, 1, units)`), and the list of states after the last real step.
    """
    real = None
    if mask is not None:
        sequences = masks.zero_masked(sequences, mask)
        real = time_first(mask, layer.go_backwards)  # (T, B)
    x = time_first(sequences, layer.go_backwards)  # (T, B, ...)
    states = first_states(layer, initial_state)
    observed = observe(layer)
    changes = observed is not None and observed.changes
    single = x.shape[0] == 1 and not kernels.is_exporting()  # one step needs no loop
    slow = layer.unroll or changes or single
    fast = None if slow else as_one_operation(layer, x, training, return_sequences)
    if fast is not None:
        last, outputs, last_states = fast(states, real)
        if real is not None:
            last, outputs = apply_output_mask(
                last, outputs, real, layer.zero_output_for_mask
            )
    observes = observed is not None and observed.observes
    if fast is None or observes:
        steps = Steps(layer, x, real, states, training, return_sequences)
    if fast is None and not changes:
        last, outputs, last_states = steps.run()
    if observes:
        # Without a change a second run, so that recording cannot change the result.
        found = steps.run_observed(observed)
        if changes:
            last, outputs, last_states = found
    outputs = ops.swapaxes(outputs, 0, 1) if return_sequences else last[:, None]
    return last, outputs, last_states


def observe(layer: keras.layers.RNN) -> loops.ObservedLoop | None:
    """Returns the listeners of the cell; None if nothing is traced."""
    if not listeners.active():
        return None
    owner = loops.Owner(layer, layer.cell)
    return loops.observe(owner, backwards=layer.go_backwards)


def first_states(
    layer: keras.layers.RNN, initial_state: Sequence[Tensor]
) -> list[Tensor]:
    """Returns the states before the first step, in the dtype that the steps use."""
    states = list(initial_state)
    if hasattr(layer.cell, "state_dtype"):
        states = [ops.cast(state, layer.cell.state_dtype) for state in states]
    if layer.stateful:  # Keras assigns the new states before gradients are computed
        states = tree.map_structure(ops.copy, states)
    return states


def as_one_operation(
    layer: keras.layers.RNN, x: Tensor, training: bool, return_sequences: bool
) -> Callable[..., tuple[Tensor, Tensor | None, list[Tensor]]] | None:
    """Returns a function of the states and the mask that runs all steps at once.

    It returns the last output, all outputs with time first, and the list of the last
    states. None if the cell must run step by step.
    """
    cell = layer.cell
    if hasattr(cell, "coefficients") and has_steps(cell):
        own = issubclass(definer(cell, "run"), definer(cell, "step"))
        return functools.partial(cell.run, x, training=training) if own else None
    fast = fast_recurrence(layer, x, training)
    if fast is None:
        return None
    fast = dataclasses.replace(fast, path=return_sequences)

    def run(states, mask):
        outputs, last_states = kernels.recurrence(fast, states, mask)
        return last_states[0], outputs, last_states

    return run


def fast_recurrence(
    layer: keras.layers.RNN, x: Tensor, training: bool
) -> kernels.Recurrence | None:
    """Describes the cell for `kernels.recurrence`; None if it must run step by step.

    A subclass that overrides a part of the step, but not `equation`, runs step by step.
    """
    cell = layer.cell
    if getattr(cell, "equation", None) is None or not has_steps(cell):
        return None
    parts = ("project", "step", "recurrent_product", "all_peepholes", "phi", "sigma")
    parts = [part for part in parts if hasattr(type(cell), part)]
    equation: tuple[str, ...] | None = definer(cell, "equation")
    if not all(issubclass(equation, definer(cell, part)) for part in parts):
        return None
    return cell.recurrence(x, training, getattr(layer, "use_cudnn", "auto"))


def definer(cell: keras.Layer, name: str) -> type:
    """Returns the class that defines a method or attribute of a cell."""
    return next(c for c in type(cell).__mro__ if name in vars(c))


def has_steps(cell: keras.Layer) -> bool:
    """Whether `call` is `project` and `step`, and no subclass overrides it."""
    if not (hasattr(cell, "project") and hasattr(cell, "step")):
        return False
    return issubclass(definer(cell, "step"), definer(cell, "call"))


def apply_output_mask(
    last: Tensor, path: Tensor | None, real: Tensor, zero_output_for_mask: bool
) -> tuple[Tensor, Tensor | None]:
    """Computes the last output and all outputs from the hidden states.

    At a masked step the output is zero with `zero_output_for_mask`; without it, it is
    zero only before the first real step. `path` may be None.
    """
    started = ops.cumsum(ops.cast(real, "int32"), axis=0) > 0  # (T, B)
    if path is not None:
        visible = real if zero_output_for_mask else started
        path = where_real(visible, path, ops.zeros_like(path))
    return where_real(started[-1], last, ops.zeros_like(last)), path


class Steps:
    """The steps of one call of a layer, for `kernels.scan`.

    Args:
        layer: The recurrent layer.
        x: Inputs of the steps, time first.
        real: Mask `(time, batch)`, or None.
        states: The states before the first step.
        training: Passed to the cell.
        return_sequences: Whether to return all outputs, not only the last.
    """

    def __init__(
        self,
        layer: keras.layers.RNN,
        x: Tensor,
        real: Tensor | None,
        states: list[Tensor],
        training: bool,
        return_sequences: bool,
    ) -> None:
        cell = layer.cell
        inputs = {"x": cell.project(x, training) if has_steps(cell) else x}
        mask = {} if real is None else {"mask": real}
        self.inputs: dict[str, Any] = {**inputs, **mask}
        self.layer: keras.layers.RNN = layer
        self.cell: Any = cell
        self.carry: Carry = (first_output(cell, states), states)
        self.training: bool = training
        self.return_sequences: bool = return_sequences

    def run(self) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Returns the last output, all outputs and the last states."""
        with listeners.pause():
            (last, states), outputs = kernels.scan(
                self.step, self.carry, self.inputs, unroll=self.layer.unroll
            )
        return last, outputs, states

    def run_observed(
        self, observed: loops.ObservedLoop
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Does the same, and records and changes values of the cell."""
        (last, states), outputs = observed.run(
            self.step,
            self.carry,
            self.inputs,
            functools.partial(self.complete, observed.key),
            unroll=self.layer.unroll,
        )
        return last, outputs, states

    def step(self, carry: Carry, now: dict[str, Any]) -> tuple[Carry, Tensor]:
        """One step, which keeps the state where masked."""
        output, states = carry
        new_output, new_states = self.advance(now["x"], states)
        emitted = new_output
        if "mask" in now:
            real, zeros = now["mask"], self.layer.zero_output_for_mask
            held = ops.zeros_like(output) if zeros else output
            emitted = where_real(real, new_output, held)
            new_output = where_real(real, new_output, output)
            new_states = where_real(real, new_states, states)
        return (new_output, new_states), emitted if self.return_sequences else ()

    def advance(self, x: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The output and the new states of the cell."""
        if has_steps(self.cell):
            return self.cell.step(x, states, self.training)
        output, new_states = call_keras_cell(self.cell, x, states, self.training)
        return record_states(self.cell, output, new_states)

    def complete(
        self,
        key: Callable[[int, str], str],
        values: dict[str, Tensor],
        carry: Carry,
        now: dict[str, Any],
    ) -> dict[str, Tensor]:
        """The recorded values of a step: where masked, old states and else zeros."""
        if "mask" in now:
            values = {
                name: where_real(now["mask"], v, ops.zeros_like(v))
                for name, v in values.items()
            }
        states = named_states(self.cell, carry[1]).items()
        return {**values, **{key(0, name): state for name, state in states}}


def record_states(
    cell: keras.Layer, output: Tensor, states: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Records the states of a third-party cell; its output may be one of them."""
    if hasattr(cell, "state_names") or not listeners.active():
        return output, states
    flat = tree.flatten(states)
    new = [listeners.record(cell, f"state_{n}", s) for n, s in enumerate(flat)]
    for before, after in zip(flat, new, strict=True):
        output = after if output is before else output
    return output, tree.pack_sequence_as(states, new)


def named_states(cell: keras.Layer, states: Sequence[Tensor]) -> dict[str, Tensor]:
    """Returns the states by name; those of a third-party cell are numbered."""
    flat = tree.flatten(states)
    names = getattr(cell, "state_names", [f"state_{n}" for n in range(len(flat))])
    return dict(zip(names, flat, strict=True))


def call_keras_cell(
    cell: keras.Layer, x: Tensor, states: Sequence[Tensor], training: bool
) -> tuple[Tensor, list[Tensor]]:
    """Calls a Keras cell: some take no `training`, some return a bare state."""
    takes_training = "training" in inspect.signature(cell.call).parameters
    options = {"training": training} if takes_training else {}
    output, states = cell(x, states, **options)
    return output, list(states) if tree.is_nested(states) else [states]


def time_first(x: Tensor, backwards: bool) -> Tensor:
    """Moves time to axis 0; with `backwards`, the last step comes first."""
    x = ops.swapaxes(x, 0, 1)
    return ops.flip(x, axis=0) if backwards else x


def where_real(real: Tensor, new: Any, old: Any) -> Any:
    """Selects `new` in the rows where `real`, else `old`, in nested structures."""

    def choose(new, old):
        column = real
        for _ in range(len(new.shape) - len(real.shape)):
            column = ops.expand_dims(column, -1)
        return ops.where(column, new, old)

    return tree.map_structure(choose, new, old)


def first_output(cell: keras.Layer, initial_state: Sequence[Tensor]) -> Tensor:
    """Returns zeros, the output before the first real step."""
    like = tree.flatten(initial_state)[0]
    size = getattr(cell, "output_size", None) or like.shape[-1]
    dtype = cell.compute_dtype if hasattr(cell, "state_dtype") else like.dtype
    return ops.zeros((ops.shape(like)[0], size), dtype=dtype)

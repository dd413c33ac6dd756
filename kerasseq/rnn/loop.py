"""The loop that runs every cell through time.

Cells of kerasseq run in `kernels.recurrence`, which computes all steps in one
operation. The loop calls `cell.step` for each step instead while values inside it are
traced, with `unroll=True`, for a single step, and for cells whose equation the kernels
do not know: those of others, and subclasses that override `step`. Both follow the same
rule for masks: a masked step leaves the state unchanged.
"""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import keras
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.tracing import recording

Carry: TypeAlias = tuple[Tensor, list[Tensor]]  # the output and the states
Step: TypeAlias = Callable[[Carry, dict[str, Any]], tuple[Carry, Tensor]]


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
    sequences = masks.zero_masked(sequences, mask)
    x = time_first(sequences, layer.go_backwards)  # (T, B, ...)
    real = None if mask is None else time_first(mask, layer.go_backwards)  # (T, B)
    states = list(initial_state)
    if layer.stateful:  # Keras assigns the new states before gradients are computed
        states = tree.map_structure(ops.copy, states)
    listener = recording.current_listener()
    has_probes = hasattr(listener, "probes")
    single = x.shape[0] == 1 and not kernels.is_exporting()  # one step needs no loop
    slow = layer.unroll or has_probes or single
    fast = None if slow else fast_recurrence(layer, x, training)
    if fast is not None:
        fast = dataclasses.replace(fast, path=return_sequences)
        outputs, last_states = kernels.recurrence(fast, states, real)
        last = last_states[0]
        if real is not None:
            last, outputs = apply_output_mask(
                last, outputs, real, layer.zero_output_for_mask
            )
    if fast is None or isinstance(listener, recording.Trace):
        inputs = inputs_of_steps(layer, x, real, training)
        if has_probes:
            inputs["probes"] = {
                name: time_first(probe, layer.go_backwards)
                for name, probe in listener.probes(layer).items()
            }
        step = masked_step(layer.cell, training, layer.zero_output_for_mask)
        carry = (first_output(layer.cell, states), states)
    if fast is None:
        last, outputs, last_states = step_by_step(
            layer, step, carry, inputs, return_sequences
        )
    if isinstance(listener, recording.Trace):
        # A second run, so that recording cannot change the result.
        record_steps(layer, step, carry, inputs)
    outputs = ops.swapaxes(outputs, 0, 1) if return_sequences else last[:, None]
    return last, outputs, last_states


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
    parts = [part for part in parts if hasattr(cell, part)]
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


def inputs_of_steps(
    layer: keras.layers.RNN, x: Tensor, real: Tensor | None, training: bool
) -> dict[str, Any]:
    """Collects the inputs of the steps, time first."""
    cell = layer.cell
    inputs = {"x": cell.project(x, training) if has_steps(cell) else x}
    return inputs if real is None else {**inputs, "mask": real}


def step_by_step(
    layer: keras.layers.RNN,
    step: Step,
    carry: Carry,
    inputs: dict[str, Any],
    return_sequences: bool,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Runs the steps; returns the last output, all outputs and the last states."""

    def emit(carry, now):
        carry, output = step(carry, now)
        return carry, output if return_sequences else ()

    with recording.pause():
        (last, states), outputs = kernels.scan(emit, carry, inputs, unroll=layer.unroll)
    return last, outputs, states


def masked_step(cell: keras.Layer, training: bool, zero_output_for_mask: bool) -> Step:
    """Returns the step for `kernels.scan`, which keeps the state where masked."""

    def advance(now, states):
        if has_steps(cell):
            return cell.step(now["x"], states, training)
        output, states = call_keras_cell(cell, now["x"], states, training)
        return output, states

    def step(carry, now):
        output, states = carry
        if "probes" in now:
            with recording.add_probes(cell, now["probes"]):
                new_output, new_states = advance(now, states)
        else:
            new_output, new_states = advance(now, states)
        if "mask" not in now:
            return (new_output, new_states), new_output
        real = now["mask"]
        held = ops.zeros_like(output) if zero_output_for_mask else output
        emitted = where_real(real, new_output, held)
        new_output = where_real(real, new_output, output)
        return (new_output, where_real(real, new_states, states)), emitted

    return step


def record_steps(
    layer: keras.layers.RNN, step: Step, carry: Carry, inputs: dict[str, Any]
) -> None:
    """Runs the steps once more, with the values that the cell records as outputs."""

    def recorded_step(carry, now):
        with recording.collect_step(layer.cell) as values:
            carry, _ = step(carry, now)
        if "mask" in now:
            values = {
                name: where_real(now["mask"], v, ops.zeros_like(v))
                for name, v in values.items()
            }
        return carry, {**values, **named_states(layer.cell, carry[1])}

    _, values = kernels.scan(recorded_step, carry, inputs, unroll=layer.unroll)
    for name, value in values.items():
        value = ops.swapaxes(value, 0, 1)  # (B, T, H)
        if layer.go_backwards:
            value = ops.flip(value, axis=1)
        recording.record(layer, name, value)


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
    return ops.zeros((ops.shape(like)[0], size), dtype=like.dtype)

"""The one loop that drives every cell through time.

A cell of ours is handed to `kernels.recurrence`, which runs all steps as one operation.
Where somebody looks inside, or the cell is foreign, it goes step by step, and that is
also the definition. The rules for masks stand here once: a masked step leaves the state
as it was.
"""

import dataclasses
import inspect

from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import masks
from kerasseq.tracing import recording


def run_through_time(
    layer,
    sequences,
    initial_state,
    *,
    mask=None,
    training=False,
    return_sequences=True,
):
    """Run `layer.cell` over a batch of sequences.

    Args:
        layer: A recurrent layer. Its `cell`, `go_backwards`, `unroll` and
            `zero_output_for_mask` count, and tracing files values under its path.
        sequences: Tensor of shape `(batch, time, ...)`.
        initial_state: List of states, each `(batch, units)`.
        mask: Boolean tensor `(batch, time)`, True where a step is real. What stands at
            the others is not read.
        training: Passed to the cell.
        return_sequences: Whether all outputs are wanted, not only the last.

    Returns:
        The output at the last real step `(batch, units)`, all outputs
        `(batch, time, units)` in order of processing (or that last one alone,
        `(batch, 1, units)`), and the list of states after the last real step.
    """
    sequences = masks.zero_masked(sequences, mask)
    x = time_first(sequences, layer.go_backwards)  # (T, B, ...)
    real = None if mask is None else time_first(mask, layer.go_backwards)  # (T, B)
    states = list(initial_state)
    if layer.stateful:  # what is kept is written over before gradients are taken
        states = tree.map_structure(ops.copy, states)
    listener = recording.current_listener()
    looked_into = hasattr(listener, "probes")
    slow = layer.unroll or looked_into or x.shape[0] == 1  # one step is no loop
    fast = None if slow else fast_recurrence(layer, x, training)
    if fast is not None:
        fast = dataclasses.replace(fast, path=return_sequences)
        outputs, last_states = kernels.recurrence(fast, states, real)
        last = last_states[0]
        if real is not None:
            last, outputs = as_seen(last, outputs, real, layer.zero_output_for_mask)
    if fast is None or isinstance(listener, recording.Trace):
        inputs = inputs_of_steps(layer, x, real, training)
        if looked_into:
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
        # A second run, so that recording cannot change a bit of the result.
        record_steps(layer, step, carry, inputs)
    outputs = ops.swapaxes(outputs, 0, 1) if return_sequences else last[:, None]
    return last, outputs, last_states


def fast_recurrence(layer, x, training):
    """The cell as `kernels.recurrence` takes it; None if it must go step by step.

    A class that changes the step of one of our cells, without saying which equation it
    has now, goes step by step.
    """
    cell = layer.cell
    if getattr(cell, "equation", None) is None or not has_steps(cell):
        return None
    parts = ("project", "step", "recurrent_product", "all_peepholes", "phi", "sigma")
    parts = [part for part in parts if hasattr(cell, part)]
    equation = definer(cell, "equation")
    if not all(issubclass(equation, definer(cell, part)) for part in parts):
        return None
    return cell.recurrence(x, training, getattr(layer, "use_cudnn", "auto"))


def definer(cell, name):
    """The class that says what a method or attribute of a cell is."""
    return next(c for c in type(cell).__mro__ if name in vars(c))


def has_steps(cell) -> bool:
    """Whether a cell is `project` and `step`: no subclass has another `call` since."""
    if not (hasattr(cell, "project") and hasattr(cell, "step")):
        return False
    return issubclass(definer(cell, "step"), definer(cell, "call"))


def as_seen(last, path, real, zero_output_for_mask):
    """The last output and all outputs, from the last hidden state and the path to it.

    At a masked step the output is zero, or zero only until the first real step. There
    are no outputs where there is no path.
    """
    started = ops.cumsum(ops.cast(real, "int32"), axis=0) > 0  # (T, B)
    if path is not None:
        shown = real if zero_output_for_mask else started
        path = where_real(shown, path, ops.zeros_like(path))
    return where_real(started[-1], last, ops.zeros_like(last)), path


def inputs_of_steps(layer, x, real, training):
    """What each step of the loop reads, time first."""
    cell = layer.cell
    inputs = {"x": cell.project(x, training) if has_steps(cell) else x}
    return inputs if real is None else {**inputs, "mask": real}


def step_by_step(layer, step, carry, inputs, return_sequences):
    """The last output, all outputs if they are wanted, and the last states."""

    def emit(carry, now):
        carry, output = step(carry, now)
        return carry, output if return_sequences else ()

    with recording.pause():
        (last, states), outputs = kernels.scan(emit, carry, inputs, unroll=layer.unroll)
    return last, outputs, states


def masked_step(cell, training, zero_output_for_mask):
    """The step for `kernels.scan`: the cell's, undone where the mask is False."""

    def advance(now, states):
        if has_steps(cell):
            return cell.step(now["x"], states, training)
        output, states = call_foreign(cell, now["x"], states, training)
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


def record_steps(layer, step, carry, inputs):
    """Run through time once more, with all that the cell records as outputs."""

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


def named_states(cell, states):
    """The states by name; those of a foreign cell are numbered."""
    flat = tree.flatten(states)
    names = getattr(cell, "state_names", [f"state_{n}" for n in range(len(flat))])
    return dict(zip(names, flat, strict=True))


def call_foreign(cell, x, states, training):
    """Call any Keras cell: some take no `training`, some give a bare state."""
    takes_training = "training" in inspect.signature(cell.call).parameters
    options = {"training": training} if takes_training else {}
    output, states = cell(x, states, **options)
    return output, list(states) if tree.is_nested(states) else [states]


def time_first(x, backwards):
    """`(batch, time, ...)` to `(time, batch, ...)`; backwards, the last step first."""
    x = ops.swapaxes(x, 0, 1)
    return ops.flip(x, axis=0) if backwards else x


def where_real(real, new, old):
    """`new` in the rows where `real`, else `old`, through any structure of tensors."""

    def choose(new, old):
        column = real
        for _ in range(len(new.shape) - len(real.shape)):
            column = ops.expand_dims(column, -1)
        return ops.where(column, new, old)

    return tree.map_structure(choose, new, old)


def first_output(cell, initial_state):
    """Zeros, the output before the first real step."""
    like = tree.flatten(initial_state)[0]
    size = getattr(cell, "output_size", None) or like.shape[-1]
    return ops.zeros((ops.shape(like)[0], size), dtype=like.dtype)

"""The loop that runs every cell through time.

`kernels.recurrence` derives the loop and its gradient from the `step` of the cell, ours
or yours, and computes all steps in one operation. `Steps` calls `step` at each step
instead while values inside it are replaced, with `unroll=True`, for a single step, and
for a step that cannot be derived; `cell.explain()` says why. Values that are only
traced come from a second run of the steps. Both follow the same rule for masks: a
masked step leaves the state unchanged. A `LinearCell`, whose coefficients do not depend
on the state, runs in `kernels.linear_recurrence`.
"""

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
    fast = None
    if not slow:
        fast = as_one_operation(layer, x, states, real, training, return_sequences)
    if fast is not None:
        last, outputs, last_states = fast
    observes = observed is not None and observed.observes
    if fast is None or observes:
        steps = Steps(layer, x, real, states, training, return_sequences)
    if fast is None and not changes:
        last, outputs, last_states = steps.run()
    if observes:
        # Without a change a second run, so that recording cannot change the result.
        replaced = steps.run_observed(observed)
        if changes:
            last, outputs, last_states = replaced
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
        states = copies(states)
    return states


def copies(states: Any) -> Any:
    """Copies states in plain lists: JAX takes none of those in which Keras tracks."""
    if isinstance(states, list | tuple):
        return [copies(state) for state in states]
    return ops.copy(states)


def as_one_operation(
    layer: keras.layers.RNN,
    x: Tensor,
    states: list[Tensor],
    real: Tensor | None,
    training: bool,
    return_sequences: bool,
) -> tuple[Tensor, Tensor | None, list[Tensor]] | None:
    """Runs all steps at once.

    Returns:
        The last output, all outputs with time first, and the list of the last states;
        None if the cell must run step by step.
    """
    cell, by_step = layer.cell, has_steps(layer.cell)
    if by_step and getattr(cell.step, "is_linear", False):
        last, outputs, states = cell.run(x, states, real, training=training)
        return *with_output_mask(layer, last, outputs, real), states

    def step(cell: Any, x: Tensor, flat: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        with listeners.pause():
            nested = tree.pack_sequence_as(states, flat)
            return one_step(cell, x, nested, training, by_step)

    run = kernels.Recurrence(
        cell,
        step,
        x,
        functools.partial(projected, cell),
        training=training,
        noise=state_noise(cell, states, training),
        cudnn=getattr(layer, "use_cudnn", "auto"),
        path=return_sequences,
    )
    if by_step and hasattr(cell, "native"):
        run.native, run.as_native = cell.native, cell.as_native
    results = kernels.recurrence(run, tree.flatten(states), real)
    if results is None:
        return None
    last, outputs, last_states = results
    last_states = tree.pack_sequence_as(states, last_states)
    return *with_output_mask(layer, last, outputs, real), last_states


def one_step(
    cell: Any, x: Tensor, states: list[Tensor], training: bool, by_step: bool
) -> tuple[Tensor, list[Tensor]]:
    """Computes one step of any cell, with `x` as `projected` returns it.

    Raises:
        ValueError: If `step` does not return an output and as many states as it takes.
    """
    if not by_step:
        return call_keras_cell(cell, x, states, training)
    result = cell.step(x, states, training)
    pair = isinstance(result, tuple) and len(result) == 2
    if not pair or len(tree.flatten(result[1])) != len(states):
        got = (
            f"{len(tree.flatten(result[1]))} states" if pair else type(result).__name__
        )
        raise ValueError(
            "`step` of the cell must return the output and a list of the states, as "
            f"many as it takes, {len(states)}, as `return h, [h]` does for one; "
            f"received {got}"
        )
    return result


def projected(cell: Any, x: Tensor, training: bool) -> Tensor:
    """Computes what a step takes of the inputs, for all steps at once."""
    return cell.project(x, training) if has_steps(cell) else x


def state_noise(cell: Any, states: list[Tensor], training: bool) -> Any:
    """Returns the mask of recurrent dropout, a list of one for each gate, or None."""
    if not training or not getattr(cell, "recurrent_dropout", 0):
        return None
    return cell.get_recurrent_dropout_mask(ops.ones_like(tree.flatten(states)[0]))


def has_steps(cell: keras.Layer) -> bool:
    """Returns whether `call` is `project` and `step`, and nothing overrides it."""
    if "call" in vars(cell) or not (hasattr(cell, "project") and hasattr(cell, "step")):
        return False
    names = next(
        vars(c) for c in type(cell).__mro__ if {"step", "call"} & vars(c).keys()
    )
    return "step" in names  # a class that overrides `call` alone means `call`


def with_output_mask(
    layer: keras.layers.RNN, last: Tensor, path: Tensor | None, real: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Computes the last output and all outputs from those that repeat where masked.

    At a masked step the output is zero with `zero_output_for_mask`; without it, it is
    zero only before the first real step. `path` may be None.
    """
    if real is None:
        return last, path
    started = ops.cumsum(ops.cast(real, "int32"), axis=0) > 0  # (T, B)
    if path is not None:
        visible = real if layer.zero_output_for_mask else started
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
        inputs = {"x": projected(cell, x, training)}
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
        """Computes one step, which keeps the state where masked."""
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
        """Returns the output and the new states of the cell."""
        by_step = has_steps(self.cell)
        output, new_states = one_step(self.cell, x, states, self.training, by_step)
        return record_states(self.cell, output, new_states)

    def complete(
        self,
        key: Callable[[int, str], str],
        values: dict[str, Tensor],
        carry: Carry,
        now: dict[str, Any],
    ) -> dict[str, Tensor]:
        """Returns recorded values: where masked, old states and else zeros."""
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

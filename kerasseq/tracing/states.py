"""States that a layer computes for all steps at once, recorded and replaced.

A replaced state must be continued from: the layer then runs step by step, as the cells
in a loop over time do. Otherwise all steps are one operation, and the gradient at a
state is that at what is written.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.tracing import listeners
from kerasseq.tracing.intervention import is_replaced
from kerasseq.tracing.loops import Owner, observe

Inputs = dict[str, Any]
NAME = "hidden_state"


def record_states(
    layer: keras.Layer,
    run: Callable[[Tensor, Inputs, Tensor | None], Tensor],
    state: Tensor,
    inputs: Inputs,
    mask: Tensor | None = None,
    *,
    axes: Sequence[str],
) -> Tensor:
    r"""Computes and records the states of all steps, under the name "hidden_state".

    Args:
        layer: The layer.
        run: Function of the state before, the inputs and a mask that returns the states
            of all steps, `(B, T, ...)`, for any number of steps.
        state: The state before the first step, `(B, ...)`.
        inputs: What `run` reads of each step, by name, each `(B, T, ...)`. "written" is
            added to the state, and has its shape.
        mask: Boolean `(B, T)`, or None. A masked step leaves the state as it is.
        axes: Names of the axes of the states, of which the first two are "rows" and
            "steps".

    Returns:
        The states to continue with, `(B, T, ...)`.

    Examples:
        >>> def run(state, inputs, mask):
        ...     return state[:, None] + keras.ops.cumsum(inputs["written"], axis=1)
        >>> start, one = keras.ops.zeros((1, 1)), keras.ops.ones((1, 3, 1))
        >>> layer, axes = keras.layers.Dense(3), ("rows", "steps", "units")
        >>> path = record_states(layer, run, start, {"written": one}, axes=axes)
        >>> keras.ops.convert_to_numpy(path).ravel().tolist()
        [1.0, 2.0, 3.0]
    """
    if is_replaced(layer, NAME):
        return _step_by_step(layer, run, state, inputs, mask, axes)
    written = listeners.write(layer, NAME, inputs["written"])
    path = run(state, {**inputs, "written": written}, mask)
    return listeners.record(layer, NAME, path, axes=axes)


def _step_by_step(layer, run, state, inputs, mask, axes):
    """Computes states `(B, T, ...)`; each step continues from the replaced state."""
    observed = observe(Owner(layer, layer))
    one_step = (axes[0], *axes[2:])

    def step(state, now):
        one = {name: x[:, None] for name, x in now.items() if name != "mask"}
        after = run(state, one, None)[:, 0]
        after = listeners.record(layer, NAME, after, axes=one_step)
        if mask is not None:
            after = ops.where(_column(now["mask"], after), after, state)
        return after, after

    def complete(values, after, now):
        return {**values, observed.key(0, NAME): after}

    given = dict(inputs) if mask is None else {**inputs, "mask": mask}
    given = {name: ops.swapaxes(x, 0, 1) for name, x in given.items()}
    _, path = observed.run(step, state, given, complete)
    return ops.swapaxes(path, 0, 1)


def _column(mask, like):
    """Returns the mask `(B,)` with as many axes as a state."""
    return ops.reshape(mask, (-1, *[1] * (len(like.shape) - 1)))

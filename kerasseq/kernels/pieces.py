"""A recurrence in pieces, for layers that hold the states of all steps in an array."""

from collections.abc import Callable

from keras import ops, tree

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.scan import scan

PIECE = 1024


def in_pieces(
    run: Callable[[Nested, Nested], tuple[Nested, Tensor]],
    state: Nested,
    inputs: Nested,
    *,
    steps: int | None = None,
) -> tuple[Nested, Tensor]:
    """Runs a recurrence over a piece of the sequence at a time.

    The states of all steps may need a hundred times the memory of the inputs. Without
    gradients, only those of one piece exist at a time. A sequence whose length is not
    known while it is compiled is run as a whole.

    Args:
        run: Function `(state, inputs) -> (state, outputs)` of any number of steps.
        state: Structure of tensors, the state before the first step.
        inputs: Structure of tensors `(batch, time, ...)`.
        steps: Steps in a piece; `PIECE` if None.

    Returns:
        The state after the last step, and the outputs `(batch, time, ...)`.

    Examples:
        >>> def add(total, x):
        ...     sums = total + keras.ops.cumsum(x, axis=1)
        ...     return sums[:, -1:], sums
        >>> total, sums = in_pieces(add, np.zeros((1, 1)), np.ones((1, 7)), steps=3)
        >>> keras.ops.convert_to_numpy(sums).tolist()
        [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]]
    """
    steps = PIECE if steps is None else steps
    inputs = tree.map_structure(ops.convert_to_tensor, inputs)
    time = tree.flatten(inputs)[0].shape[1]
    if not isinstance(time, int) or time <= steps:
        return run(state, inputs)
    count, rest = divmod(time, steps)
    whole = tree.map_structure(lambda x: _split(x, count, steps), inputs)
    state, y = scan(run, state, whole)
    y = ops.swapaxes(y, 0, 1)
    y = ops.reshape(y, (y.shape[0] or -1, count * steps, *y.shape[3:]))
    if rest:
        last = tree.map_structure(lambda x: x[:, -rest:], inputs)
        state, end = run(state, last)
        y = ops.concatenate([y, end], axis=1)
    return state, y


def _split(x, count, steps):
    """Splits `(batch, time, ...)` into `(count, batch, steps, ...)`."""
    x = x[:, : count * steps]
    batch = ops.shape(x)[0]
    return ops.swapaxes(ops.reshape(x, (batch, count, steps, *x.shape[2:])), 0, 1)

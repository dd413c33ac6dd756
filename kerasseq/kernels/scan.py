"""One loop over time for the three backends.

`keras.ops.scan` is not used: on TensorFlow it drops outputs that differ from the carry
in structure, and its gradient fails under `jit_compile=True`.
"""

from collections.abc import Callable

from keras import ops, tree

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.functions import has_convertible_loops, is_exporting
from kerasseq.kernels.operations import backend_module
from kerasseq.kernels.reference import scan as reference

PIECE = 1024  # steps, see `in_pieces`


def scan(
    step: Callable,
    carry: Nested,
    inputs: Nested,
    *,
    unroll: bool = False,
    reverse: bool = False,
) -> tuple[Nested, Nested]:
    """Carries a state through time and stacks the outputs of the steps.

    Args:
        step: Function `(carry, inputs_t) -> (carry, outputs_t)`. The carry keeps its
            structure, shapes and dtypes; `outputs_t` is any structure of tensors.
        carry: Structure of tensors, the state before the first step.
        inputs: Structure of tensors with time on axis 0, of one length, at least 1.
        unroll: Write the steps out one by one; the length must then be known.
        reverse: Start from the last step. The outputs stay in the order of the inputs.

    Returns:
        The carry after the last step, and the outputs with time on axis 0.

    Raises:
        ValueError: If the length is 0, or unknown when `unroll` is set.

    Examples:
        >>> def add(total, x):
        ...     return total + x, total + x
        >>> total, sums = scan(add, np.float32(0), np.array([1, 2, 3], "float32"))
        >>> float(total), keras.ops.convert_to_numpy(sums).tolist()
        (6.0, [1.0, 3.0, 6.0])
    """
    inputs = tree.map_structure(ops.convert_to_tensor, inputs)
    carry = tree.map_structure(ops.convert_to_tensor, carry)
    length = tree.flatten(inputs)[0].shape[0]
    if length == 0:
        raise ValueError("expected at least one time step, received a length of 0")
    if unroll and length is None:
        raise ValueError(
            "`unroll=True` needs a known number of time steps, received a dynamic "
            "length. Give the input a fixed length, or leave `unroll` out"
        )
    # One step needs no loop, and a loop would be compiled again at each eager call.
    if (unroll or length == 1) and not is_exporting():
        return reference.scan(step, carry, inputs, reverse)
    functions = backend_module("functions")
    if has_convertible_loops():
        return functions.scan_in_order(step, carry, inputs, reverse)
    return functions.scan(step, carry, inputs, reverse)


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

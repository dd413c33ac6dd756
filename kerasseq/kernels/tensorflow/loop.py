"""The loop over time of TensorFlow's recurrences, with operations in order.

TensorFlow moves operations that could run in parallel between threads, which takes
longer than the small operations of a step. Control dependencies keep them in order.
"""

import functools
from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any, TypeAlias

import tensorflow as tf

from kerasseq.core.types import Tensor
from kerasseq.kernels.tensorflow.functions import keep_shapes

# Steps in one iteration, since the iteration itself takes time. Where the number of
# steps is unknown, one at a time is traced sooner.
AT_ONCE = 4

TensorArray: TypeAlias = Any  # tf.TensorArray, which stubs of TensorFlow leave out


class InOrder:
    """TensorFlow's functions, each of which waits for the previous one to finish.

    `do.add(a, b)` is `tf.add(a, b)`, and `do(f, a, b)` is f(a, b) for any f.
    """

    def __init__(self) -> None:
        self.last: list[Tensor] = []

    def __call__(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls a function that returns a tensor, a list of them or a `TensorArray`."""
        with tf.control_dependencies(self.last):
            result = function(*args, **options)
        first = tf.nest.flatten(result)[0]
        self.last = [getattr(first, "flow", first)]
        return result

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(self, getattr(tf, name))


def loop(
    step: Callable,
    steps: int | Tensor,
    states: Sequence[Tensor],
    widths: Sequence[int],
    inputs: Sequence[Tensor | TensorArray] = (),
    *,
    reverse: bool = False,
    xla: bool = False,
) -> tuple[list[Tensor], list[TensorArray]]:
    """Runs the steps, and writes what each returns into arrays.

    Args:
        step: Function `(do, t, now, states) -> (states, values)`; `do` is an `InOrder`,
            and `now` a list of the inputs at step t.
        steps: Number of steps, an integer or a tensor.
        states: List of tensors.
        widths: Number of columns of each of the values, whose rows are those of the
            states.
        inputs: Tensors with time on axis 0, and arrays.
        reverse: Start from the last step.
        xla: Whether XLA compiles the loop. One step is one iteration then, and XLA can
            differentiate it.

    Returns:
        List of the states after the last step, and a list of `tf.TensorArray`, from
        which gradients may read without a copy.
    """
    rows, dtype = states[0].shape[0], states[0].dtype
    arrays = [
        tf.TensorArray(dtype, steps, element_shape=(rows, n), clear_after_read=False)
        for n in widths
    ]

    def group(count):
        def run(n, states, arrays):
            do, written = InOrder(), []
            *ts, n = [n, *(do.add(n, k) for k in range(1, count + 1))]
            ts = [do.subtract(steps - 1, k) for k in ts] if reverse else ts
            read = [_read(do, x, ts, reverse) for x in inputs]
            for k, t in enumerate(ts):
                new, values = step(do, t, [each(k) for each in read], states)
                states = keep_shapes(new, states)
                written.append((t, values))
            # Nothing waits for the writes: without a backward pass they are pruned.
            for t, values in written:
                pairs = zip(arrays, values, strict=True)
                arrays = [do(a.write, t, v) for a, v in pairs]
            return n, states, arrays

        return run

    carried = (tf.constant(0), list(states), arrays)
    if xla:
        bound = tf.maximum(steps, 1)  # XLA needs one, above 0, to keep what it needs
        _, states, arrays = _repeat(group(1), 1, 0, steps, carried, bound)
        return states, arrays
    end = steps - steps % AT_ONCE if isinstance(steps, int) else 0
    carried = _repeat(group(AT_ONCE), AT_ONCE, 0, end, carried)
    _, states, arrays = _repeat(group(1), 1, end, steps, carried)
    return states, arrays


def _read(do, x, ts, reverse):
    """Returns a function that reads an input at one of the steps `ts`."""
    if hasattr(x, "read"):
        return lambda k: do(x.read, ts[k])
    if len(ts) == 1:
        return lambda k: do(getitem, x, ts[k])
    # One operation for all: each costs more than it takes to copy its result.
    start = ts[-1] if reverse else ts[0]
    begin = do.stack([start, *[0] * (len(x.shape) - 1)])
    size = [len(ts), *[-1] * (len(x.shape) - 1)]
    together = do.unstack(do.slice(x, begin, size), len(ts))
    together = together[::-1] if reverse else together
    return together.__getitem__


def saved_arrays(
    arrays: list[TensorArray], steps: int | Tensor
) -> Callable[[], list[TensorArray]]:
    """Returns a function that returns the arrays, readable where it is called.

    The backward pass of a saved model, and of a Jacobian of eager code, is traced in a
    graph of its own, which can read the tensors of the forward pass but not its arrays.
    """
    graph = tf.compat.v1.get_default_graph()
    stacked = None  # traced now, but computed only if it is read
    if not tf.executing_eagerly():
        stacked = [a.stack() for a in arrays]

    def copied(tensor: Tensor) -> TensorArray:
        shape = tensor.shape[1:]
        array = tf.TensorArray(
            tensor.dtype, steps, element_shape=shape, clear_after_read=False
        )
        return array.unstack(tensor)

    def get():
        if tf.compat.v1.get_default_graph() is graph:
            return arrays
        return [copied(tensor) for tensor in stacked or [a.stack() for a in arrays]]

    return get


def _repeat(
    body: Callable,
    count: int,
    start: int,
    end: int | Tensor,
    carried: tuple[Any, ...],
    bound: Tensor | None = None,
) -> tuple[Any, ...]:
    """Calls a body that computes `count` steps at a time until the end."""
    times = (end - start) // count if isinstance(end, int) else None
    if times in (0, 1):
        return body(*carried) if times else carried
    return tf.while_loop(
        lambda n, *_: n < end,
        body,
        carried,
        maximum_iterations=bound,
        parallel_iterations=1,  # each step waits for the previous one
    )

"""The loop over time of TensorFlow's recurrences, with operations in order.

TensorFlow moves operations that could run in parallel between threads, which takes
longer than the small operations of a step. Control dependencies keep them in order.
"""

import functools
from collections.abc import Callable, Sequence
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
    reverse: bool = False,
) -> tuple[list[Tensor], list[TensorArray]]:
    """Runs the steps, and writes what each returns into arrays.

    Args:
        step: Function `(do, t, states) -> (states, values)`; `do` is an `InOrder`.
        steps: Number of steps, an integer or a tensor.
        states: List of tensors.
        widths: Number of columns of each of the values, whose rows are those of the
            states.
        reverse: Start from the last step.

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
            for _ in range(count):
                t = do.subtract(steps - 1, n) if reverse else n
                new, values = step(do, t, states)
                states = keep_shapes(new, states)
                written.append((t, values))
                n = do.add(n, 1)
            # Nothing waits for the writes: without a backward pass they are pruned.
            for t, values in written:
                pairs = zip(arrays, values, strict=True)
                arrays = [do(a.write, t, v) for a, v in pairs]
            return n, states, arrays

        return run

    end = steps - steps % AT_ONCE if isinstance(steps, int) else 0
    carried = (tf.constant(0), list(states), arrays)
    carried = _repeat(group(AT_ONCE), AT_ONCE, 0, end, carried)
    _, states, arrays = _repeat(group(1), 1, end, steps, carried)
    return states, arrays


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
    body: Callable, count: int, start: int, end: int | Tensor, carried: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Calls a body that computes `count` steps at a time until the end."""
    times = (end - start) // count if isinstance(end, int) else None
    if times in (0, 1):
        return body(*carried) if times else carried
    return tf.while_loop(
        lambda n, *_: n < end,
        body,
        carried,
        parallel_iterations=1,  # each step waits for the previous one
    )

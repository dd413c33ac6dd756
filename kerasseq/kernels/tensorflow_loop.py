"""The loop over time of TensorFlow's recurrences, and operations in order.

TensorFlow hands what could run at the same time from one thread to another, which takes
longer than the small operations of a step do. So each waits for the one before it.
"""

import functools

import tensorflow as tf

from kerasseq.kernels.tensorflow_scan import keep_shapes


class InOrder:
    """TensorFlow's functions, each of which waits for the one before to finish.

    `do.add(a, b)` is `tf.add(a, b)`, and `do(f, a, b)` is f(a, b) for any f.
    """

    def __init__(self):
        self.last = []

    def __call__(self, function, *args, **options):
        """Call any function that gives a tensor, a list of them or a `TensorArray`."""
        with tf.control_dependencies(self.last):
            result = function(*args, **options)
        first = tf.nest.flatten(result)[0]
        self.last = [getattr(first, "flow", first)]
        return result

    def __getattr__(self, name):
        return functools.partial(self, getattr(tf, name))


def loop(step, steps, states, widths, reverse=False):
    """Go through time, and write down what each step gives.

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

    def body(n, states, arrays):
        do = InOrder()
        t = do.subtract(steps - 1, n) if reverse else n
        new, values = step(do, t, states)
        n = do.add(n, 1)
        # Nothing waits for what is written: without a way back it is never computed.
        arrays = [do(a.write, t, v) for a, v in zip(arrays, values, strict=True)]
        return n, keep_shapes(new, states), arrays

    start = (tf.constant(0), list(states), arrays)
    if isinstance(steps, int) and steps == 1:
        _, states, arrays = body(*start)
    else:
        _, states, arrays = tf.while_loop(
            lambda n, *_: n < steps,
            body,
            start,
            parallel_iterations=1,  # each step waits for the one before it
        )
    return states, arrays

"""The linear recurrence on TensorFlow: a `while_loop` forward and backward."""

from collections.abc import Callable

import tensorflow as tf

from kerasseq.core.types import Tensor
from kerasseq.kernels.tensorflow.loop import InOrder, loop


def run(a: Tensor, b: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the states at all steps `(B, T, D)` and the last one `(B, D)`."""
    if a.shape[1] == 1:  # without arrays, which converters cannot read here
        h = a[:, 0] * h + b[:, 0]
        return h[:, None], h
    return _run(*map(tf.convert_to_tensor, (a, b, h)))  # no variables


@tf.custom_gradient
def _run(
    a: Tensor, b: Tensor, h: Tensor
) -> tuple[tuple[Tensor, Tensor], Callable[..., tuple[Tensor, Tensor, Tensor]]]:
    steps, width = a.shape[1] or tf.shape(a)[1], [a.shape[2]]

    def step(do: InOrder, t: Tensor, _, states: list[Tensor]) -> tuple[list, list]:
        h = do.multiply(do(_at, a, t), states[0])
        h = do.add(h, do(_at, b, t))
        return [h], [h]

    (last,), (path,) = loop(step, steps, [h], width)
    path = tf.transpose(path.stack(), (1, 0, 2))
    path.set_shape(b.shape)

    def gradient(d_path: Tensor, d_last: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        d_path, a_bar = tf.convert_to_tensor(d_path), tf.math.conj(a)

        def step(do: InOrder, t: Tensor, _, states: list[Tensor]) -> tuple[list, list]:
            d_h = do.add(states[0], do(_at, d_path, t))
            return [do.multiply(do(_at, a_bar, t), d_h)], [d_h]

        (d_first,), (d_b,) = loop(step, steps, [d_last], width, reverse=True)
        d_b = tf.transpose(d_b.stack(), (1, 0, 2))
        before = tf.concat([h[:, None], path[:, :-1]], axis=1)
        return d_b * tf.math.conj(before), d_b, d_first

    return (path, last), gradient


def _at(x, t):
    return x[:, t]

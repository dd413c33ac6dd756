"""Sums over all rows on TensorFlow, as products with ones.

`tf.reduce_sum` takes up to five times as long, the gradient of `tf.nn.bias_add` twice.
"""

import tensorflow as tf


def over_rows(a):
    """The sum over all axes but the last."""
    rows = tf.reshape(a, (-1, a.shape[-1]))
    return tf.linalg.matvec(rows, tf.ones_like(rows[:, 0]), transpose_a=True)


def plus(x, b):
    """Add b, a tensor or a variable, over the last axis of x."""
    return _plus(x, tf.convert_to_tensor(b))


@tf.custom_gradient
def _plus(x, b):
    return x + b, lambda dy: (dy, over_rows(dy))

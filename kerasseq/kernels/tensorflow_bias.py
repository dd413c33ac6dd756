"""The sum with a bias on TensorFlow, whose gradient is a product with ones.

To sum rows takes `tf.reduce_sum` up to five times as long.
"""

import tensorflow as tf


def plus(x, b):
    """Add b, a tensor or a variable, over the last axis of x."""
    return _plus(x, tf.convert_to_tensor(b))


@tf.custom_gradient
def _plus(x, b):
    def gradient(dy):
        rows = tf.reshape(dy, (-1, b.shape[0]))
        return dy, tf.linalg.matvec(rows, tf.ones_like(rows[:, 0]), transpose_a=True)

    return x + b, gradient

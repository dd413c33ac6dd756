"""Sums over all rows on TensorFlow, as products with ones.

`tf.reduce_sum` takes up to five times as long, and stops growing at 2048 ones in
float16; the gradient of `tf.nn.bias_add` twice as long, and stops at 256 in bfloat16.
"""

import tensorflow as tf


def over_rows(a):
    """The sum over all axes but the last."""
    rows = tf.reshape(a, (-1, a.shape[-1]))
    return tf.linalg.matvec(rows, tf.ones_like(rows[:, 0]), transpose_a=True)

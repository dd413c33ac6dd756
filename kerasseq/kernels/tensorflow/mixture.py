"""The weights of experts on TensorFlow, with a gradient that is a plain tensor."""

import tensorflow as tf


@tf.custom_gradient
def take(weights: tf.Tensor, experts: tf.Tensor) -> tf.Tensor:
    """Selects the weights `(C, ...)` of experts `(C,)` from `(E, ...)`.

    The gradient of `tf.gather` lists the rows that were read, and an optimizer with
    momentum would leave experts without tokens as they are.
    """

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, None]:
        return tf.math.unsorted_segment_sum(upstream, experts, weights.shape[0]), None

    return tf.gather(weights, experts), gradient

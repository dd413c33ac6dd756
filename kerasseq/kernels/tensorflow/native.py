"""TensorFlow's cuDNN operation, which XLA cannot compile."""

from collections.abc import Sequence

import tensorflow as tf

from kerasseq.core.types import Tensor
from kerasseq.kernels.cudnn import flat_weights, is_best, why_no_cudnn
from kerasseq.kernels.recurrence import Native

__all__ = ["is_best", "run", "why_no_cudnn"]


def run(
    name: str, native: Native, states: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Returns the path of the hidden state and the last states."""
    x, gru = native.inputs, name == "gru"
    hidden = [state[None] for state in states]
    path, h, c, _, _ = tf.raw_ops.CudnnRNNV3(
        input=x,
        input_h=hidden[0],
        input_c=tf.zeros_like(hidden[0]) if gru else hidden[1],
        params=flat_weights(name, native),
        sequence_lengths=tf.fill([tf.shape(x)[1]], tf.shape(x)[0]),
        rnn_mode="gru" if gru else "lstm",
        is_training=True,
        time_major=True,
    )
    return path, [h[0]] if gru else [h[0], c[0]]

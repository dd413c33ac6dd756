"""cuDNN through TensorFlow's operation, which XLA cannot compile."""

import tensorflow as tf

from kerasseq.kernels.cudnn import flat_weights


def run(cell, states):
    """See `kerasseq.kernels.recurrence`."""
    x, gru = cell.inputs, cell.equation.name == "gru"
    hidden = [state[None] for state in states]
    path, h, c, _, _ = tf.raw_ops.CudnnRNNV3(
        input=x,
        input_h=hidden[0],
        input_c=tf.zeros_like(hidden[0]) if gru else hidden[1],
        params=flat_weights(cell),
        sequence_lengths=tf.fill([tf.shape(x)[1]], tf.shape(x)[0]),
        rnn_mode="gru" if gru else "lstm",
        is_training=True,
        time_major=True,
    )
    return path, [h[0]] if gru else [h[0], c[0]]

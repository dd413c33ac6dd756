"""The fast recurrence on TensorFlow: a `while_loop` forward and, by hand, backward."""

import tensorflow as tf
from keras import tree

from kerasseq.kernels import cudnn, tensorflow_cudnn
from kerasseq.kernels.derivatives import backward
from kerasseq.kernels.equations import forward


def run(cell, states, mask):
    """See `kerasseq.kernels.recurrence`."""
    if cudnn.asked_for(cell, mask, "tensorflow"):
        return tensorflow_cudnn.run(cell, states)
    weights = dict(cell.weights)
    fixed = {"dropout": weights.pop("dropout")} if "dropout" in weights else {}
    x = cell.project(cell.inputs)
    learned = {"x": x, "states": list(states), "weights": weights}
    learned = tree.map_structure(tf.convert_to_tensor, learned)  # no variables

    @tf.custom_gradient
    def function(*flat):
        a = tree.pack_sequence_as(learned, list(flat))
        w = {**a["weights"], **fixed}
        paths, last, gates = forward(cell.equation, a["x"], a["states"], w, mask)

        def gradient(d_path, *d_last):
            dx, d_states, d_w = backward(
                cell.equation, (paths, gates), a["states"], w, mask, d_path, d_last
            )
            return tree.flatten({"x": dx, "states": d_states, "weights": d_w})

        return (paths[0], *last), gradient

    path, *last = function(*tree.flatten(learned))
    return path, last

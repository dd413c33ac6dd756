"""The recurrence on TensorFlow: a `while_loop` forward and, by hand, backward.

XLA fuses the operations of a step, so under XLA the reference equations run, as on JAX.
Without XLA each operation costs time, and `equations.py` needs fewer of them: with the
reference equations a training step takes 1.18 times as long for an LSTM, 1.24 with
peepholes and 1.19 for a GRU, inference 1.18, 1.32 and 1.09 times (batch 32, 64 steps,
64 to 128 units, one thread of an AMD EPYC with AVX-512).
"""

from collections.abc import Sequence
from operator import getitem

import tensorflow as tf
from keras import tree

from kerasseq.core.types import Tensor
from kerasseq.kernels import cudnn
from kerasseq.kernels.recurrence import Recurrence
from kerasseq.kernels.reference.derivatives import backward
from kerasseq.kernels.reference.equations import forward
from kerasseq.kernels.tensorflow.equations import of as kind_of
from kerasseq.kernels.tensorflow.loop import loop, saved_arrays

try:
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext
except ImportError:
    GraphOrParentsInXlaContext = None


def run(
    cell: Recurrence, states: Sequence[Tensor], mask: Tensor | None
) -> tuple[Tensor | None, list[Tensor]]:
    """See `kerasseq.kernels.recurrence`."""
    if cell.cudnn is True:
        cudnn.check(cell, mask, "tensorflow")
        return _cudnn(cell, states)
    weights = dict(cell.weights)
    fixed = {"dropout": weights.pop("dropout")} if "dropout" in weights else {}
    x = cell.project(cell.inputs)
    learned = {"x": x, "states": list(states), "weights": weights}
    learned = tree.map_structure(tf.convert_to_tensor, learned)  # no variables
    way = _for_xla if for_xla() else _in_order

    @tf.custom_gradient
    def function(*flat):
        a = tree.pack_sequence_as(learned, list(flat))
        weights = {**a["weights"], **fixed}
        path, last, back = way(cell.equation, a["x"], a["states"], weights, mask)

        def gradient(*d_outputs):
            d_outputs = [tf.convert_to_tensor(d) for d in d_outputs]  # no slices
            d_last, d_path = d_outputs[: len(last)], d_outputs[len(last) :]
            dx, d_states, d_w = back(d_last, *d_path)
            return tree.flatten({"x": dx, "states": d_states, "weights": d_w})

        # An unused path would have a gradient of zeros at each step.
        return (*last, path()) if cell.path else tuple(last), gradient

    *last, path = outputs = function(*tree.flatten(learned))
    return (path, last) if cell.path else (None, list(outputs))


def _cudnn(cell: Recurrence, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Runs TensorFlow's cuDNN operation, which XLA cannot compile."""
    x, gru = cell.inputs, cell.equation.name == "gru"
    hidden = [state[None] for state in states]
    path, h, c, _, _ = tf.raw_ops.CudnnRNNV3(
        input=x,
        input_h=hidden[0],
        input_c=tf.zeros_like(hidden[0]) if gru else hidden[1],
        params=cudnn.flat_weights(cell),
        sequence_lengths=tf.fill([tf.shape(x)[1]], tf.shape(x)[0]),
        rnn_mode="gru" if gru else "lstm",
        is_training=True,
        time_major=True,
    )
    return path, [h[0]] if gru else [h[0], c[0]]


def for_xla() -> bool:
    """Whether XLA compiles the function that is traced now.

    TensorFlow has no public name for this. Where the private one is missing, the answer
    is True: the reference equations run with and without XLA.
    """
    if GraphOrParentsInXlaContext is None:
        return True
    return GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def _for_xla(equation, x, states, w, mask):
    """Returns a function for the path, the last states, and the backward function."""
    paths, last, gates = forward(equation, x, states, w, mask)

    def back(d_last, d_path=None):
        d_path = tf.zeros_like(paths[0]) if d_path is None else d_path
        return backward(equation, (paths, gates), states, w, mask, d_path, d_last)

    return lambda: paths[0], last, back


def _in_order(equation, x, states, w, mask):
    """As `_for_xla`, with one operation after the other."""
    math = kind_of(equation)(equation, w, tf.shape(x)[1])
    steps = x.shape[0] or tf.shape(x)[0]
    real = None
    if mask is not None:
        real = tf.expand_dims(mask, -1)  # (T, B, 1)
    last, arrays = _forward(math, steps, x, states, real)
    handed = saved_arrays(arrays, steps)

    def back(d_last, d_path=None):
        path, *kept = handed()
        math.prepare_backward()
        d_states, dz = _backward(math, steps, kept, real, d_last, d_path)
        h_before = tf.concat([states[0][None], path.stack()[:-1]], 0)
        dx, dw = math.finish(h_before, kept, last, [a.stack() for a in dz])
        return dx, d_states, dw

    return arrays[0].stack, last, back


def _forward(math, steps, x, states, real):
    """Returns the last states, and arrays of h and of what the backward pass needs."""

    def step(do, t, _, states):
        new, kept = math.step(do, do(getitem, x, t), *states)
        if real is not None:
            now, pairs = do(getitem, real, t), zip(new, states, strict=True)
            new = [do.where(now, a, b) for a, b in pairs]
        return new, [new[0], *kept]

    widths = [math.units] * (1 + math.kept)
    return loop(step, steps, states, widths)


def _backward(math, steps, kept, real, d_last, d_path):
    """Returns the gradients of the first states and of the pre-activations."""

    def step(do, t, _, d_states):
        if d_path is not None:
            dh = do.add(d_states[0], do(getitem, d_path, t))
            d_states = [dh, *d_states[1:]]
        dz, before = math.step_back(do, [do(a.read, t) for a in kept], *d_states)
        if real is not None:  # a masked step passes the gradient on unchanged
            now, zero = do(getitem, real, t), tf.zeros((), dz[0].dtype)
            dz = [do.where(now, d, zero) for d in dz]
            pairs = zip(before, d_states, strict=True)
            before = [do.where(now, zero if b is None else b, d) for b, d in pairs]
        return math.earlier(do, dz, before), dz

    return loop(step, steps, d_last, math.written, reverse=True)

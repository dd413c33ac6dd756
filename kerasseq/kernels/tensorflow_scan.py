"""The loop over time on TensorFlow: a `while_loop` over arrays of tensors.

The first step stands before the loop: it tells the shapes and types of the outputs, and
nothing is computed twice.
"""

import tensorflow as tf
from keras import tree


def scan(step, carry, inputs, reverse=False):
    """See `kerasseq.kernels.scan`."""
    flat_inputs = tree.flatten(inputs)
    length = flat_inputs[0].shape[0] or tf.shape(flat_inputs[0])[0]

    # Reading from arrays keeps the backward pass linear in the length: the gradient of
    # a slice would be as large as the whole input at every step.
    sources = [tf.TensorArray(x.dtype, size=length).unstack(x) for x in flat_inputs]

    def place(n):
        return length - 1 - n if reverse else n

    carry_0 = tree.flatten(carry)
    after_first, first = step(
        carry, tree.pack_sequence_as(inputs, [x[place(0)] for x in flat_inputs])
    )
    arrays = [
        tf.TensorArray(y.dtype, size=length, element_shape=y.shape).write(place(0), y)
        for y in tree.flatten(first)
    ]

    def body(n, flat_carry, arrays):
        t = place(n)
        inputs_t = [
            told(source.read(t), x.shape[1:])
            for source, x in zip(sources, flat_inputs, strict=True)
        ]
        new_carry, output = step(
            tree.pack_sequence_as(carry, flat_carry),
            tree.pack_sequence_as(inputs, inputs_t),
        )
        flat_output = tree.flatten(output)
        arrays = [a.write(t, y) for a, y in zip(arrays, flat_output, strict=True)]
        return n + 1, keep_shapes(new_carry, carry_0), arrays

    _, last, arrays = tf.while_loop(
        lambda n, *_: n < length,
        body,
        (tf.constant(1), keep_shapes(after_first, carry_0), arrays),
        maximum_iterations=length - 1,  # XLA needs a bound to keep what gradients need
        parallel_iterations=1,  # each step waits for the one before it
    )
    outputs = tree.pack_sequence_as(first, [a.stack() for a in arrays])
    return tree.pack_sequence_as(carry, last), outputs


def keep_shapes(carry, like):
    """The tensors of `carry`, told the shapes that are known of those in `like`."""
    flat = tree.flatten(carry)
    return [told(new, old.shape) for new, old in zip(flat, like, strict=True)]


def told(x, shape):
    """`x`, which knows its shape, without an operation at run time to check it."""
    x.set_shape(shape)
    return x

"""Loops, compiled functions and gradients on TensorFlow.

The loop over time is a `tf.while_loop` over arrays of tensors. The first step stands
before the loop: it determines the shapes and dtypes of the outputs, and no step is
computed twice.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import tree

from kerasseq.core.types import Nested, Shape, Tensor
from kerasseq.kernels.functions import has_convertible_loops
from kerasseq.kernels.operations import matmul
from kerasseq.kernels.operations import plus as add_bias

no_gradients = contextlib.nullcontext
# Computes with numbers inside the block, also where a graph is traced.
eagerly: Callable[[], contextlib.AbstractContextManager[Any]] = tf.init_scope


def compiled(
    function: Callable[..., Nested], *, jit: bool, donated: bool
) -> Callable[..., Nested]:
    """Compiles a function of structures of tensors into a graph; by XLA if `jit`."""
    return tf.function(function, autograph=False, jit_compile=jit)


def gradients(function: Callable[..., Nested], arguments: Nested) -> Nested:
    """Computes the gradients of a scalar function, of the shapes of the arguments."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tree.flatten(arguments))
        result = function(arguments)
    flat = tape.gradient(
        result,
        tree.flatten(arguments),
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return tree.pack_sequence_as(arguments, flat)


def output_specs(function: Callable[..., Nested], *args: Nested) -> Nested:
    """Infers shapes and dtypes of what a function returns, by tracing it."""
    graph = tf.function(function, autograph=False).get_concrete_function(*args)
    return graph.structured_outputs


def default_jit_compile() -> bool:
    """Returns whether models compile with XLA if not told: on one device."""
    return tf.distribute.get_strategy().num_replicas_in_sync == 1


def has_cudnn() -> bool:
    """Returns whether TensorFlow has a GPU."""
    return bool(tf.config.list_physical_devices("GPU"))


def is_concrete(value: Tensor) -> bool:
    """Returns whether a tensor holds numbers, and is no tensor of a graph."""
    return not tf.is_tensor(value) or hasattr(value, "numpy")


def plus(x: Tensor, bias: Tensor) -> Tensor:
    """Computes $x + b$, by `tf.nn.bias_add` where its gradient is faster and exact.

    The gradient takes a third of the time of that of a sum, and is right in float16,
    where a sum stops at 2048. In bfloat16 that of `bias_add` would stop at 256.
    """
    if x.dtype == bias.dtype != "bfloat16" and len(x.shape) > 1:
        return tf.nn.bias_add(x, bias)
    return x + bias


def project(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """Computes x W + b for x `(..., D)`; the bias is one more row of W, `(D, N)`.

    An operation of its own takes 4 % of the time in which an LSTM learns, 9 % with XLA.
    """
    if bias is None or x.dtype.size == 2 or len(x.shape) < 2:
        return add_bias(matmul(x, weights), bias)
    ones = tf.ones_like(x[..., :1])
    return matmul(tf.concat([x, ones], -1), tf.concat([weights, bias[None]], 0))


def scan(
    step: Callable, carry: Nested, inputs: Nested, reverse: bool = False
) -> tuple[Nested, Nested]:
    """Carries a state over axis 0 of the inputs, and stacks the outputs."""
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
        # XLA needs a bound, above 0, to keep what gradients need.
        maximum_iterations=max(length - 1, 1)
        if isinstance(length, int)
        else tf.maximum(length - 1, 1),
        parallel_iterations=1,  # each step waits for the one before it
    )
    outputs = tree.pack_sequence_as(first, [a.stack() for a in arrays])
    return tree.pack_sequence_as(carry, last), outputs


def scan_in_order(
    step: Callable, carry: Nested, inputs: Nested, reverse: bool = False
) -> tuple[Nested, Nested]:
    """Runs `scan` as converters can read it: from the first step on, for inference.

    The first step is also traced outside the loop, for the shapes of the outputs; it is
    not computed there.
    """
    flat_inputs = tree.flatten(inputs)
    if reverse:
        flat_inputs = [tf.reverse(x, [0]) for x in flat_inputs]
    length = flat_inputs[0].shape[0] or tf.shape(flat_inputs[0])[0]
    carry_0 = tree.flatten(carry)
    _, first = step(carry, tree.pack_sequence_as(inputs, [x[0] for x in flat_inputs]))
    arrays = [
        tf.TensorArray(y.dtype, size=length, element_shape=y.shape)
        for y in tree.flatten(first)
    ]

    def body(t, flat_carry, arrays):
        new_carry, output = step(
            tree.pack_sequence_as(carry, flat_carry),
            tree.pack_sequence_as(inputs, [x[t] for x in flat_inputs]),
        )
        flat_output = tree.flatten(output)
        arrays = [a.write(t, y) for a, y in zip(arrays, flat_output, strict=True)]
        return t + 1, keep_shapes(new_carry, carry_0), arrays

    _, last, arrays = tf.while_loop(
        lambda t, *_: t < length, body, (tf.constant(0), carry_0, arrays)
    )
    outputs = [a.stack() for a in arrays]
    if reverse:
        outputs = [tf.reverse(y, [0]) for y in outputs]
    return tree.pack_sequence_as(carry, last), tree.pack_sequence_as(first, outputs)


def keep_shapes(carry: Nested, like: Sequence[Tensor]) -> list[Tensor]:
    """Returns `carry` flat, told the shapes that are known of those in `like`."""
    flat = tree.flatten(carry)
    return [told(new, old.shape) for new, old in zip(flat, like, strict=True)]


def told(x: Tensor, shape: Shape | tf.TensorShape) -> Tensor:
    """Returns `x`, which knows its shape, without an operation to check it."""
    x.set_shape(shape)
    return x


def running_maximum(x: tf.Tensor) -> tf.Tensor:
    """Returns the maximum of each step and those before, `(B, T, ...)`.

    TensorFlow has only running sums and products.
    """

    def step(largest, now):
        largest = tf.maximum(largest, now)
        return largest, largest

    if x.shape[1] is not None and x.shape[1] <= 2:  # as for one step after a state
        largest = tf.reduce_max(x, axis=1, keepdims=True)
        return tf.concat([x[:, :-1], largest], axis=1)
    order = [1, 0, *range(2, len(x.shape))]
    steps = tf.transpose(x, order)
    loop = scan_in_order if has_convertible_loops() else scan
    _, path = loop(step, steps[0], steps, reverse=False)
    return tf.transpose(path, order)


def add_to_rows(table: keras.Variable, rows: Tensor, values: Tensor) -> None:
    """Adds values `(*rows.shape, ...)` to the rows of a table `(V, ...)` in place."""
    table.value.scatter_add(tf.IndexedSlices(values, rows))


def train_steps(
    model: keras.Model, step: Callable[[Nested], None], data: Nested
) -> Any:
    """Runs a step for each update on axis 0 of the data, and returns the metrics."""
    count = tf.shape(tree.flatten(data)[0])[0]

    def body(n: Tensor) -> tuple[Tensor]:
        step(tree.map_structure(lambda x: x[n], data))
        return (n + 1,)

    tf.while_loop(lambda n: n < count, body, (tf.constant(0),), parallel_iterations=1)
    return model.get_metrics_result()

"""The two ways of the recurrence on TensorFlow, and the order of its operations."""

import itertools

import numpy as np
import pytest

from kerasseq.core import backend

if backend.chosen() != "tensorflow":
    pytest.skip("TensorFlow's own way", allow_module_level=True)

import tensorflow as tf
from keras import tree

import kerasseq
from kerasseq import kernels
from kerasseq.kernels.operations import affine
from kerasseq.kernels.tensorflow import loop as tensorflow_loop
from kerasseq.kernels.tensorflow import recurrence as tensorflow_recurrence
from kerasseq.kernels.tensorflow.loop import InOrder, loop
from tests.kernels.test_recurrence import (
    EQUATIONS,
    B,
    H,
    T,
    case,
    dropout_for,
    fast,
    name_of,
    reference,
)

pytestmark = pytest.mark.everywhere("kernels differ between backends")

MASK = np.array([[0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 1, 1], [0, 1, 0]], bool)


@pytest.fixture(autouse=True)
def loops(monkeypatch):
    """T steps are two rounds of two steps, in a loop, and one more step."""
    monkeypatch.setattr(tensorflow_loop, "AT_ONCE", 2)


def outputs_and_gradients(run, equation, arrays, mask, dropout):
    """Of a loss in which each output counts."""
    leaves = tree.flatten(arrays)
    with tf.GradientTape() as tape:
        tape.watch(leaves)
        outputs = tree.flatten(list(run(equation, arrays, mask, dropout)))
        loss = sum(tf.reduce_sum(y * tf.cos(y + 0.5)) for y in outputs)
    return outputs + tape.gradient(loss, leaves)


@pytest.mark.parametrize("jit", [True, False], ids=["xla", "graph"])
@pytest.mark.parametrize(
    "masked",
    [
        pytest.param(True, id="mask"),
        pytest.param(False, id="", marks=pytest.mark.full("less than with a mask")),
    ],
)
@pytest.mark.parametrize("equation", EQUATIONS, ids=name_of)
def test_compiled_recurrence_is_the_equation(equation, masked, jit):
    arrays = tree.map_structure(tf.constant, case(equation))
    mask = tf.constant(MASK) if masked else None
    dropout = dropout_for(equation) if masked else None
    ways = []

    @tf.function(jit_compile=jit)
    def compiled(arrays):
        ways.append(tensorflow_recurrence.for_xla())
        return outputs_and_gradients(fast, equation, arrays, mask, dropout)

    found = compiled(arrays)
    expected = outputs_and_gradients(reference, equation, arrays, mask, dropout)
    assert ways == [jit]
    for a, b in zip(found, expected, strict=True):
        size = max(1.0, np.abs(b).max())
        np.testing.assert_allclose(a / size, b / size, atol=1e-5)


@pytest.mark.parametrize("jit", [True, False], ids=["xla", "graph"])
def test_without_tensorflows_private_name_the_reference_runs(jit, monkeypatch):
    monkeypatch.setattr(tensorflow_recurrence, "GraphOrParentsInXlaContext", None)
    arrays = tree.map_structure(tf.constant, case(EQUATIONS[0]))

    @tf.function(jit_compile=jit)
    def compiled(arrays):
        assert tensorflow_recurrence.for_xla()
        return outputs_and_gradients(fast, EQUATIONS[0], arrays, None, None)

    expected = outputs_and_gradients(reference, EQUATIONS[0], arrays, None, None)
    for a, b in zip(compiled(arrays), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("equation", EQUATIONS, ids=name_of)
def test_number_of_steps_and_batch_may_be_unknown(equation):
    arrays = tree.map_structure(tf.constant, case(equation))
    width = equation.gates * H
    signature = {
        "x": tf.TensorSpec((None, None, width)),
        "states": [tf.TensorSpec((None, H)) for _ in arrays["states"]],
        "weights": tree.map_structure(
            lambda w: tf.TensorSpec(w.shape), arrays["weights"]
        ),
    }

    @tf.function(input_signature=[signature, tf.TensorSpec((None, None), tf.bool)])
    def compiled(arrays, mask):
        return outputs_and_gradients(fast, equation, arrays, mask, None)

    for steps in (T, 1):
        now = {**arrays, "x": arrays["x"][:steps]}
        found = compiled(now, tf.constant(MASK[:steps]))
        expected = outputs_and_gradients(reference, equation, now, MASK[:steps], None)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)


def before(op):
    """All operations that an operation waits for."""
    seen, todo = set(), [op]
    while todo:
        now = todo.pop()
        todo += {*(x.op for x in now.inputs), *now.control_inputs} - seen
        seen.add(now)
    return seen - {op}


def test_operations_wait_for_each_other():
    @tf.function(autograph=False)
    def traced():
        do = InOrder()
        x = tf.zeros((2, 3))
        results = [do.tanh(x), do.sigmoid(x), do.split(x, 3, 1)[0]]
        results += [do(lambda a: tf.exp(a) + 1, x)]
        results += [do(tf.TensorArray(tf.float32, 2).write, 0, x).flow, do.add(x, x)]
        operations = [r.op for r in results]
        for earlier, later in itertools.pairwise(operations):
            assert earlier in before(later)
        assert operations[0] not in before(tf.tanh(x).op)
        return x

    traced()


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("reverse", [True, False], ids=["reverse", ""])
def test_rounds_of_several_steps_are_the_steps(reverse, known, at_once, monkeypatch):
    monkeypatch.setattr(tensorflow_loop, "AT_ONCE", at_once)

    def run(steps):
        def step(do, t, states):
            h = do.add(do.multiply(states[0], 3.0), tf.cast(t, "float32"))
            return [h], [h, do.add(h, 1.0)]

        (h,), arrays = loop(step, steps, [tf.ones((2, 1))], [1, 1], reverse)
        return h, [a.stack() for a in arrays]

    unknown = tf.function(run, input_signature=[tf.TensorSpec((), tf.int32)])
    for steps in (0, 1, 3, 4, 5, 8, 11):
        path, h = np.zeros((steps, 2, 1), "float32"), np.ones((2, 1), "float32")
        for t in reversed(range(steps)) if reverse else range(steps):
            path[t] = h = 3 * h + t
        last, written = tf.function(run)(steps) if known else unknown(steps)
        for expected, found in zip((h, path, path + 1), (last, *written), strict=True):
            np.testing.assert_array_equal(found, expected)


TWICE = [e for e in EQUATIONS if e.phi != "softsign"]  # TensorFlow has it only once


@pytest.mark.parametrize("equation", TWICE, ids=name_of)
def test_second_derivatives(equation):
    arrays = tree.map_structure(tf.constant, case(equation))

    def second(run):
        with tf.GradientTape() as outer:
            outer.watch(arrays["weights"]["U"])
            with tf.GradientTape() as inner:
                inner.watch(arrays["weights"]["U"])
                path, _ = run(equation, arrays)
                loss = tf.reduce_sum(path**2)
            slope = inner.gradient(loss, arrays["weights"]["U"])
            total = tf.reduce_sum(slope**2)
        return outer.gradient(total, arrays["weights"]["U"])

    a, b = second(fast), second(reference)
    size = max(1.0, np.abs(b).max())
    np.testing.assert_allclose(a / size, b / size, atol=1e-5)


def test_unused_path_is_none_and_changes_nothing():
    equation = EQUATIONS[-1]
    arrays = tree.map_structure(tf.constant, case(equation))

    def run(wanted):
        def last(equation, arrays, mask, dropout):
            x, states, weights = (arrays[name] for name in ("x", "states", "weights"))
            cell = kernels.Recurrence(equation, weights, x, lambda x: x, path=wanted)
            path, last = kernels.recurrence(cell, states, mask)
            assert (path is not None) == wanted
            return last

        return outputs_and_gradients(last, equation, arrays, MASK, None)

    for a, b in zip(run(False), run(True), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("shape", [(5, 7), (3, 5, 7), (2, 3, 5, 7), (0, 7)])
def test_gradient_of_a_bias_is_the_sum(shape):
    rng = np.random.default_rng(0)
    x, factor = (tf.constant(rng.normal(size=shape).astype("float32")) for _ in "ab")
    b = tf.Variable(rng.normal(size=7).astype("float32"))
    W = tf.eye(7)
    with tf.GradientTape() as tape:
        y = kernels.project(x, W, b)
        loss = tf.reduce_sum(y * factor)
    expected = np.asarray(factor).reshape(-1, 7).sum(0)
    np.testing.assert_allclose(y, x + b, rtol=1e-6)
    if len(x):
        row = affine(x[0], W, b) if len(shape) == 2 else y[0]
        np.testing.assert_allclose(row, y[0], rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, b), expected, atol=1e-6)


def test_layers_train_with_and_without_xla_alike():
    x = np.random.default_rng(0).normal(size=(B, 11, 5)).astype("float32")
    layer = kerasseq.layers.PeepholeLSTM(H)
    layer.build(x.shape)
    variables = [w.value for w in layer.trainable_variables]

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x, training=True) ** 2)
        return tape.gradient(loss, variables)

    with_xla, without = (tf.function(gradients, jit_compile=j)() for j in (True, False))
    for a, b in zip(with_xla, without, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)

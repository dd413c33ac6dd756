"""The two ways of the recurrence on TensorFlow, and the order of its operations."""

import numpy as np
import pytest

from kerasseq.core import backend

if backend.chosen() != "tensorflow":
    pytest.skip("TensorFlow's own way", allow_module_level=True)

import tensorflow as tf
from keras import tree

import kerasseq
from kerasseq import kernels
from kerasseq.kernels.tensorflow import loop as tensorflow_loop
from kerasseq.kernels.tensorflow import recurrence as tensorflow_recurrence
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

"""Recurrences in graphs as TensorFlow's users make them: saved, nested, in any type."""

import keras
import numpy as np
import pytest

from kerasseq.core import backend

if backend.chosen() != "tensorflow":
    pytest.skip("TensorFlow's own graphs", allow_module_level=True)

import tensorflow as tf

import kerasseq
from kerasseq import kernels
from kerasseq.kernels.operations import affine

pytestmark = pytest.mark.everywhere("kernels differ between backends")

B, H = 3, 7
x = np.random.default_rng(0).normal(size=(B, 11, 5)).astype("float32")


def layer(name, **options):
    keras.utils.set_random_seed(0)
    made = getattr(kerasseq.layers, name)(H, **options)
    made.build(x.shape)
    return made, [w.value for w in made.trainable_variables]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("plus", [affine, kernels.project])
def test_gradient_of_a_bias_over_many_rows(plus, dtype):
    b, rows = tf.zeros(7, dtype), tf.zeros((4096, 5), dtype)
    with tf.GradientTape() as tape:
        tape.watch(b)
        y = plus(rows, tf.ones((5, 7), dtype), b)
    np.testing.assert_array_equal(tf.cast(tape.gradient(y, b), "float32"), 4096.0)


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


@pytest.mark.parametrize("all_steps", [True, False])
@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_a_loss_of_a_few_rows(name, all_steps):
    """Its gradient is given as slices, some rows twice."""
    fast, slow = (layer(name, return_sequences=all_steps, unroll=u) for u in (0, 1))

    def gradients(layer, variables):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(layer(x), [0, 2, 2]) ** 2)
        return tape.gradient(loss, variables)

    found = tf.function(lambda: gradients(*fast))()
    for a, b in zip(found, gradients(*slow), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("name", ["PeepholeLSTM", "GRU"])
def test_jacobians(name):
    """Of eager code and of compiled code, whose way back is another graph."""
    (fast, variables), (slow, others) = (layer(name, unroll=u) for u in (0, 1))

    def jacobian(call, variables):
        with tf.GradientTape() as tape:
            y = call(x[:, :5])
        return tape.jacobian(y, variables[:2])

    expected = jacobian(slow, others)
    for call in (fast, tf.function(fast)):
        for a, b in zip(jacobian(call, variables), expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.everywhere("kernels differ between backends", cases=1)
@pytest.mark.parametrize("name", ["PeepholeLSTM", "GRU"])
def test_second_derivatives_in_a_graph(name):
    (fast, variables), (slow, others) = (layer(name, unroll=u) for u in (0, 1))

    def second(layer, variables):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = tf.reduce_sum(layer(x) ** 2)
            slopes = inner.gradient(loss, variables)
            total = sum(tf.reduce_sum(slope**2) for slope in slopes)
        return outer.gradient(total, variables)

    found = tf.function(lambda: second(fast, variables))()
    for a, b in zip(found, second(slow, others), strict=True):
        size = max(1.0, np.abs(b).max())
        np.testing.assert_allclose(a / size, b / size, atol=1e-4)


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_a_saved_model_answers_and_learns(name, tmp_path):
    made, _ = layer(name)
    inputs = keras.Input((None, 5))
    outputs = made(keras.layers.Masking()(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1)(outputs))
    padded = x * (np.arange(11) < 7)[:, None]

    def slope(call):
        with tf.GradientTape() as tape:
            given = tf.constant(padded)
            tape.watch(given)
            loss = tf.reduce_sum(call(given) ** 2)
        return tape.gradient(loss, given)

    tf.saved_model.save(model, str(tmp_path / "saved"))
    model.export(str(tmp_path / "exported"), verbose=False)
    saved, exported = (
        tf.saved_model.load(str(tmp_path / name)) for name in ("saved", "exported")
    )
    signature = saved.signatures["serving_default"]
    (key,) = signature.structured_outputs
    for call in (lambda x: signature(x)[key], exported.serve):
        for some in (padded, padded[:1, :1], padded[:2, :3]):
            found = call(tf.constant(some))
            np.testing.assert_allclose(found, model(some), atol=1e-6)
        np.testing.assert_allclose(slope(call), slope(model), atol=1e-5)

"""`kernels.scan` equals `reference/scan.py`, on every backend and compiled."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops, tree

from kerasseq import kernels
from kerasseq.kernels.reference.scan import scan as reference_scan
from tests.layer_checks import assert_close

pytestmark = pytest.mark.everywhere("kernels differ between backends")

W = np.random.default_rng(0).normal(size=(3, 3)).astype("float32")
X = np.random.default_rng(1).normal(size=(5, 2, 3)).astype("float32")
H = np.ones((2, 3), "float32")


def step(carry, now):
    """Outputs of another structure, size and type than the carry."""
    h = ops.tanh(ops.matmul(carry["h"], W) + now["x"] * now["scale"])
    carry = {"h": h, "count": carry["count"] + 1}
    return carry, (ops.sum(h, axis=-1), [ops.concatenate([h, h], axis=-1), h > 0])


def arguments(length):
    carry = {"h": H, "count": np.array(0, "int32")}
    return carry, {"x": X[:length], "scale": np.arange(1, length + 1, dtype="float32")}


def assert_same(actual, expected):
    tree.assert_same_structure(actual, expected)
    for a, b in zip(tree.flatten(actual), tree.flatten(expected), strict=True):
        assert a.dtype == b.dtype
        assert_close(a, b)


@given(length=st.integers(1, 5), unroll=st.booleans())
@settings(max_examples=4)
def test_is_its_definition(length, unroll):
    carry, inputs = arguments(length)
    expected = reference_scan(
        step,
        tree.map_structure(ops.convert_to_tensor, carry),
        tree.map_structure(ops.convert_to_tensor, inputs),
    )
    actual = kernels.scan(step, carry, inputs, unroll=unroll)
    assert_same(actual, expected)
    carry, (sums, [doubled, positive]) = actual
    assert int(carry["count"]) == length
    assert sums.shape == (length, 2) and doubled.shape == (length, 2, 6)
    assert positive.shape == (length, 2, 3)


@pytest.mark.parametrize("reverse", [False, True])
def test_loops_that_converters_read_are_the_same(reverse):
    carry, inputs = arguments(5)
    expected = kernels.scan(step, carry, inputs, reverse=reverse)
    with kernels.convertible_loops():
        on_tensorflow = keras.backend.backend() == "tensorflow"
        assert kernels.has_convertible_loops() == on_tensorflow
        actual = kernels.scan(step, carry, inputs, reverse=reverse)
    assert not kernels.has_convertible_loops()
    assert_same(actual, expected)


def test_follows_a_loop_in_numpy():
    h, sums = H, []
    for t in range(5):
        h = np.tanh(h @ W + X[t] * (t + 1))
        sums.append(h.sum(axis=-1))
    carry, (actual, _) = kernels.scan(step, *arguments(5))
    assert_close(carry["h"], h)
    assert_close(actual, np.stack(sums))


def test_shapes_are_those_of_the_results():
    """On PyTorch, Keras asks with 83 and with 89 steps: one stands for all."""
    taken = []

    def counted(carry, now):
        taken.append(now)
        return step(carry, now)

    class Scan(keras.layers.Layer):
        def call(self, carry, inputs):
            return kernels.scan(counted, carry, inputs)

    carry, inputs = tree.map_structure(ops.convert_to_tensor, arguments(5))
    expected = kernels.scan(step, carry, inputs)
    for length in (5, None):

        def symbolic(x, length=length):
            shape = tuple(length if size == 5 else size for size in x.shape)
            return keras.KerasTensor(shape, keras.backend.standardize_dtype(x.dtype))

        wanted, given = tree.map_structure(symbolic, (expected, (carry, inputs)))
        found = Scan()(*given)
        for a, b in zip(tree.flatten(found), tree.flatten(wanted), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
    if keras.backend.backend() == "torch":
        assert len(taken) == 3


def test_no_outputs_at_all():
    carry, outputs = kernels.scan(lambda c, x: (c + x, ()), H, X)
    assert_close(carry, H + X.sum(axis=0))
    assert outputs == ()


def loss(x, scan=kernels.scan):
    def step(h, x):
        return ops.tanh(ops.matmul(h, W) + x), ops.sum(h)

    h, sums = scan(step, ops.convert_to_tensor(H), x)
    return ops.sum(h * h) + ops.sum(ops.sin(sums))


def reference_gradient(x):
    return kernels.gradients(lambda x: loss(x, reference_scan), x)


def test_gradient():
    assert_close(kernels.gradients(loss, X), reference_gradient(X))


@pytest.mark.skipif(
    keras.backend.backend() == "torch",
    reason="compiling on torch is inductor: 50 s a layer and a C++ compiler",
)
def test_gradient_when_compiled():
    gradient = lambda x: kernels.gradients(loss, x)  # noqa: E731
    if keras.backend.backend() == "jax":
        import jax

        compiled = jax.jit(gradient)
    else:
        import tensorflow as tf

        compiled = tf.function(gradient, jit_compile=True)
    assert_close(compiled(ops.convert_to_tensor(X)), reference_gradient(X))


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="only TensorFlow runs code with a length that is not known",
)
def test_unknown_length():
    import tensorflow as tf

    signature = [tf.TensorSpec([None, 2, 3])]
    compiled = tf.function(
        lambda x: (loss(x), kernels.gradients(loss, x)), input_signature=signature
    )
    for length in (1, 2, 5):
        value, gradient = compiled(tf.constant(X[:length]))
        assert_close(value, loss(X[:length]))
        assert_close(gradient, reference_gradient(X[:length]))

    @tf.function(input_signature=signature)
    def unrolled(x):
        return kernels.scan(lambda h, x: (h + x, ()), H, x, unroll=True)[0]

    with pytest.raises(ValueError, match="needs a known number"):
        unrolled(tf.constant(X))


def test_length_zero():
    with pytest.raises(ValueError, match="at least one time step"):
        kernels.scan(step, *arguments(0))

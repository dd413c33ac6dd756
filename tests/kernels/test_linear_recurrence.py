"""The linear recurrence: values, gradients by hand, masks, segments, types."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from kerasseq import kernels
from kerasseq.core import backend
from kerasseq.kernels.reference import linear_recurrence as reference
from tests.layer_checks import float64_is_there

pytestmark = pytest.mark.everywhere("kernels differ between backends")

B, T, D = 2, 7, 3
MASK = np.array([[0, 1, 1, 0, 1, 1, 0], [1, 0, 0, 1, 1, 0, 1]], bool)
SEGMENTS = np.array([[5, 5, 5, 9, 2, 2, 5], [1, 7, 7, 1, 3, 3, 3]])


def arrays(dtype="float64", seed=0, time=T):
    """Decays, what is written, and a first state."""
    rng = np.random.default_rng(seed)
    shapes = (B, time, D), (B, time, D), (B, D)
    parts = [rng.normal(size=shape) for shape in shapes]
    if "complex" in dtype:
        parts = [x + 1j * rng.normal(size=x.shape) for x in parts]
    return [x.astype(dtype) for x in parts]


def in_numpy(a, b, h, mask=None, segment_ids=None):
    """The equation, step by step."""
    h, path = h.copy(), []
    current = [None] * len(h)
    for t in range(a.shape[1]):
        for n in range(len(h)):
            if mask is not None and not mask[n, t]:
                continue
            if segment_ids is not None:
                if current[n] not in (None, segment_ids[n, t]):
                    h[n] = 0
                current[n] = segment_ids[n, t]
            h[n] = a[n, t] * h[n] + b[n, t]
        path.append(h.copy())
    return np.stack(path, 1), h


def numpy(x):
    return ops.convert_to_numpy(x)


OPTIONS = {
    "plain": {},
    "mask": {"mask": MASK},
    "segments": {"segment_ids": SEGMENTS},
    "both": {"mask": MASK, "segment_ids": SEGMENTS},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_equals_the_equation(dtype, options):
    a, b, h = arrays(dtype)

    def run(a, b, h):
        return kernels.linear_recurrence(a, b, h, **options)

    outputs = kernels.compiled(run, jit=True)(a, b, h)
    for found, expected in zip(outputs, in_numpy(a, b, h, **options), strict=True):
        assert keras.backend.standardize_dtype(found.dtype) == dtype
        np.testing.assert_allclose(numpy(found), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.full("the same kernel under other masks")
@given(st.data())
def test_any_mask_and_segments(data):
    bits = st.lists(st.booleans(), min_size=B * T, max_size=B * T)
    ids = st.lists(st.integers(0, 2), min_size=B * T, max_size=B * T)
    mask = np.reshape(data.draw(bits), (B, T))
    segments = np.reshape(data.draw(ids), (B, T))
    a, b, h = arrays("float32")
    found = kernels.linear_recurrence(a, b, h, mask=mask, segment_ids=segments)
    for x, y in zip(found, in_numpy(a, b, h, mask, segments), strict=True):
        np.testing.assert_allclose(numpy(x), y, atol=1e-5, rtol=1e-5)


def gradients(run, parts):
    """Of a loss in which each state has another weight, with respect to all parts."""

    def loss(parts):
        rng, total = np.random.default_rng(7), 0
        for y in run(*[p[0] if len(p) == 1 else as_complex(*p) for p in parts]):
            for piece in real_parts(y):
                weights = rng.normal(size=piece.shape).astype("float32")
                total += ops.sum(ops.convert_to_tensor(weights) * piece)
                total += ops.sum(piece**2)
        return total

    return kernels.gradients(loss, parts)


def as_complex(real, imaginary):
    real, imaginary = (ops.cast(x, "complex64") for x in (real, imaginary))
    return real + 1j * imaginary


def real_parts(y):
    return [y] if "complex" not in str(y.dtype) else [ops.real(y), ops.imag(y)]


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_gradients_equal_those_of_the_definition(dtype):
    parts = [
        [x.real.copy(), x.imag.copy()] if dtype == "complex64" else [x]
        for x in arrays(dtype)
    ]
    found = gradients(kernels.linear_recurrence, parts)
    expected = gradients(reference.run, parts)
    for pair, others in zip(found, expected, strict=True):
        for x, y in zip(pair, others, strict=True):
            np.testing.assert_allclose(numpy(x), numpy(y), atol=1e-4, rtol=1e-5)


def test_masked_steps_may_hold_nan_and_get_no_gradient():
    a, b, h = arrays("float32")
    a[~MASK] = b[~MASK] = np.nan

    def loss(x):
        path, last = kernels.linear_recurrence(x["a"], x["b"], x["h"], mask=MASK)
        return ops.sum(path**2) + ops.sum(last)

    found = kernels.gradients(loss, {"a": a, "b": b, "h": h})
    assert all(np.isfinite(numpy(g)).all() for g in found.values())
    assert not numpy(found["a"])[~MASK].any()
    assert not numpy(found["b"])[~MASK].any()


def test_any_cut_gives_the_whole():
    a, b, h = arrays("float32")
    path, last = kernels.linear_recurrence(a, b, h)
    for cut in (1, 5):
        first, state = kernels.linear_recurrence(a[:, :cut], b[:, :cut], h)
        second, state = kernels.linear_recurrence(a[:, cut:], b[:, cut:], state)
        both = np.concatenate([numpy(first), numpy(second)], 1)
        np.testing.assert_allclose(both, numpy(path), atol=1e-6)
        np.testing.assert_allclose(numpy(state), numpy(last), atol=1e-6)


@pytest.mark.parametrize("low", [1e-6, 0.9], ids=["strong", "weak"])
def test_10_000_steps_of_decay(low):
    """Products of decays underflow: a kernel that divides by them gives NaN."""
    rng = np.random.default_rng(0)
    a = rng.uniform(low, 10 * low if low < 0.1 else 1, (1, 10_000, 2))
    b = rng.normal(size=(1, 10_000, 2))
    expected, last = in_numpy(a, b, np.zeros((1, 2)))
    run = kernels.compiled(lambda a, b: kernels.linear_recurrence(a, b), jit=True)
    found = run(a.astype("float32"), b.astype("float32"))
    np.testing.assert_allclose(numpy(found[0]), expected, atol=2e-5, rtol=1e-5)
    np.testing.assert_allclose(numpy(found[1]), last, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_64_bits_are_exact(dtype):
    if not float64_is_there():
        pytest.skip("JAX computes in 32 bits unless told otherwise")
    a, b, h = arrays(dtype)
    for found, expected in zip(
        kernels.linear_recurrence(a, b, h), in_numpy(a, b, h), strict=True
    ):
        assert keras.backend.standardize_dtype(found.dtype) == dtype
        np.testing.assert_allclose(numpy(found), expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_has_a_state_in_float32(dtype):
    a = ops.ones((1, 3001, 1), dtype)
    run = kernels.compiled(lambda a: kernels.linear_recurrence(a, a), jit=True)
    path, last = run(a)
    assert keras.backend.standardize_dtype(path.dtype) == "float32"
    assert float(numpy(last)[0, 0]) == 3001


def test_in_a_model_of_unknown_batch_and_time():
    a = keras.Input((None, D))
    outputs = keras.layers.Lambda(
        lambda a: kernels.linear_recurrence(a, a)[0], output_shape=(None, D)
    )(a)
    model = keras.Model(a, outputs)
    x = arrays("float32")[0]
    expected, _ = in_numpy(x, x, np.zeros((B, D)))
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-5)


@pytest.mark.skipif(backend.chosen() != "tensorflow", reason="a graph of TensorFlow's")
@pytest.mark.parametrize("jit", [False, True])
def test_training_in_a_graph_of_unknown_length(jit):
    import tensorflow as tf

    a, b, h = map(tf.constant, arrays("float32"))

    def slopes(a, b, h):
        with tf.GradientTape() as tape:
            tape.watch([a, b, h])
            path, last = kernels.linear_recurrence(a, b, h)
            loss = tf.reduce_sum(path**2) + tf.reduce_sum(last)
        return tape.gradient(loss, [a, b, h])

    unknown = [tf.TensorSpec([None, None, D])] * 2 + [tf.TensorSpec([None, D])]
    function = tf.function(slopes, unknown, jit_compile=jit)
    for found, expected in zip(function(a, b, h), slopes(a, b, h), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.once("errors")
@pytest.mark.parametrize(
    ("a", "h", "message"),
    [
        ((B, T, 1), None, "`a` and `b` must have one shape"),
        ((T, D), None, "`a` and `b` must have one shape"),
        ((B, T, D), (5, D), r"`initial_state` must have the shape .*\(2, 3\)"),
    ],
)
def test_wrong_shapes(a, h, message):
    h = None if h is None else np.zeros(h, "float32")
    with pytest.raises(ValueError, match=message):
        kernels.linear_recurrence(np.ones(a, "float32"), arrays("float32")[1], h)


@pytest.mark.once("errors")
def test_no_steps():
    with pytest.raises(ValueError, match="at least one time step"):
        kernels.linear_recurrence(*[np.ones((B, 0, D), "float32")] * 2)


def test_one_step_after_a_state():
    a, b, h = arrays("float32", time=1)
    found = map(numpy, kernels.linear_recurrence(a, b, h))
    for x, expected in zip(found, in_numpy(a, b, h), strict=True):
        np.testing.assert_allclose(x, expected, rtol=1e-6)


@pytest.mark.parametrize("time", [1, 2, 3])
def test_running_maximum_of_few_steps(time):
    x = arrays("float32", time=time)[0]
    found = numpy(kernels.running_maximum(ops.convert_to_tensor(x)))
    np.testing.assert_array_equal(found, np.maximum.accumulate(x, axis=1))

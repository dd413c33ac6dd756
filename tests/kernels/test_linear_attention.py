"""Linear attention equals its definition, step by step, whatever the chunks."""

import functools

import keras
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from keras import ops, tree

from kerasseq import kernels
from kerasseq.kernels.reference.linear_attention import linear_attention as reference
from tests.layer_checks import assert_close, float64_is_there

pytestmark = pytest.mark.everywhere("kernels differ between backends")

B, N, K, V = 2, 3, 5, 7
DECAYS = (None, "head", "step", "channel")
ERASE = (None, "delta", "pair")


def inputs(time, decay=None, erase=None, seed=0, strength=1.0):
    """Arguments of the kernel; every other decay is strong."""
    rng = np.random.default_rng(seed)
    given = {n: rng.normal(size=(B, time, N, K)) for n in ("q", "k", "b", "c")}
    given["v"] = rng.normal(size=(B, time, N, V))
    shapes = {"head": (N,), "step": (B, time, N), "channel": (B, time, N, K)}
    if decay:
        given["log_decay"] = -strength * np.exp(2 * rng.normal(size=shapes[decay]))
    # Otherwise the state would grow without bound.
    if erase == "delta":
        given["k"] /= np.linalg.norm(given["k"], axis=-1, keepdims=True)
        given["c"] = given["k"]
    given["c"] /= np.linalg.norm(given["c"], axis=-1, keepdims=True)
    given["b"] = -0.7 * given["c"] + 0.03 * given["b"]
    unused = {None: ("b", "c"), "delta": ("b",), "pair": ()}[erase]
    return {n: x.astype("float32") for n, x in given.items() if n not in unused}


def numpy(q, k, v, log_decay=None, b=None, c=None, state=None, mask=None, ids=None):
    """The equation in float64."""
    q, k, v = (x.astype("float64") for x in (q, k, v))
    S = np.zeros((len(q), N, q.shape[-1], v.shape[-1])) if state is None else state
    alpha = np.ones(()) if log_decay is None else np.exp(log_decay.astype("float64"))
    alpha = {0: alpha, 1: alpha[..., None]}.get(alpha.ndim, alpha)  # a number a head
    alpha = alpha[..., None] if alpha.ndim == 3 else alpha
    alpha = np.broadcast_to(alpha, q.shape)
    b = -k if b is None else b
    outputs = np.zeros(v.shape)
    for t in range(q.shape[1]):
        if ids is not None and t:
            S = np.where((ids[:, t] == ids[:, t - 1])[:, None, None, None], S, 0)
        new = alpha[:, t, ..., None] * S + np.einsum("bnk,bnv->bnkv", k[:, t], v[:, t])
        if c is not None:
            new += np.einsum("bnk,bnj,bnjv->bnkv", b[:, t], c[:, t], S)
        real = np.ones(len(q), bool) if mask is None else mask[:, t]
        S = np.where(real[:, None, None, None], new, S)
        outputs[real, t] = np.einsum("bnk,bnkv->bnv", q[:, t], S)[real]
    return outputs, S


@kernels.compiled
def attend(arguments):
    return kernels.linear_attention(**arguments)


@given(
    time=st.sampled_from([1, 2, 13, 61, 67, 131]),
    decay=st.sampled_from(DECAYS),
    erase=st.sampled_from(ERASE),
    extra=st.sets(st.sampled_from(["state", "mask", "segments"])),
)
@example(time=67, decay="channel", erase=None, extra={"state", "mask", "segments"})
@example(time=67, decay="step", erase="delta", extra={"state", "mask", "segments"})
@example(time=131, decay="head", erase=None, extra=set())
@example(time=131, decay="channel", erase="pair", extra=set())
@settings(max_examples=20 if keras.backend.backend() == "torch" else 2)
def test_chunks_are_steps(time, decay, erase, extra):
    rng = np.random.default_rng(1)
    arguments = inputs(time, decay, erase)
    mask, ids, state = (
        rng.random((B, time)) < 0.7,
        np.cumsum(rng.random((B, time)) < 0.03, axis=1),
        rng.normal(size=(B, N, K, V)).astype("float32"),
    )
    mask, ids, state = (
        value if name in extra else None
        for name, value in (("mask", mask), ("segments", ids), ("state", state))
    )
    outputs, last = numpy(**arguments, state=state, mask=mask, ids=ids)
    options = {"initial_state": state, "mask": mask, "segment_ids": ids}
    arguments |= {name: x for name, x in options.items() if x is not None}
    y, S = attend(arguments)
    assert keras.backend.standardize_dtype(S.dtype) == "float32"
    largest = max(1, np.abs(last).max())
    assert_close(y, outputs, atol=1e-5 * largest)
    assert_close(S, last, atol=1e-5 * largest)


def loss(arguments, attend=kernels.linear_attention):
    y, S = attend(**arguments)
    return ops.sum(ops.sin(y)) + ops.sum(S * S)


def defined(q, k, v, log_decay=None, b=None, c=None):
    """The definition with the arguments of the kernel."""
    if log_decay is not None and len(log_decay.shape) == 3:
        log_decay = log_decay[..., None]
    return reference(q, k, v, log_decay, b, c, ops.zeros((B, N, K, V)))


def compiled_on_jax(function):
    """Eagerly JAX would compile each operation separately."""
    if keras.backend.backend() != "jax":
        return function
    return kernels.compiled(function)


@pytest.mark.parametrize(
    ("decay", "erase"), [(None, "delta"), ("step", "pair"), ("channel", None)]
)
def test_gradients_are_those_of_the_definition(decay, erase):
    arguments = inputs(67, decay, erase)
    if decay is not None:
        arguments["log_decay"] = np.maximum(arguments["log_decay"], -3)

    def both(a):
        expected = kernels.gradients(lambda a: loss(a, defined), a)
        return kernels.gradients(loss, a), expected

    found, expected = compiled_on_jax(both)(arguments)
    for name, value in expected.items():
        largest = np.abs(ops.convert_to_numpy(value)).max()
        assert largest > 1e-3
        assert_close(found[name], value, atol=1e-5 * largest)


@pytest.mark.parametrize("decay", ["step", "channel"])
def test_strong_decay_over_thousands_of_steps(decay):
    arguments = inputs(2003, decay, strength=30.0)
    arguments["log_decay"][:, ::3] *= 1e-5  # weak ones beside strong ones
    arguments["log_decay"][:, 7::11] = -np.inf
    outputs, last = numpy(**arguments)
    y, S = attend(arguments)
    assert_close(y, outputs)
    assert_close(S, last)


def test_equal_keys():
    """Each step erases all that the one before wrote: the hardest system to solve."""
    arguments = inputs(67, None, "delta")
    arguments["k"][:] = arguments["c"][:] = arguments["k"][:, :1]
    outputs, last = numpy(**arguments)
    y, S = attend(arguments)
    largest = np.abs(outputs).max()
    assert_close(y, outputs, atol=1e-5 * largest)
    assert_close(S, last, atol=1e-5 * largest)


@pytest.mark.skipif(not float64_is_there(), reason="JAX has no float64 by default")
@pytest.mark.parametrize(("decay", "erase"), [("step", "delta"), ("channel", None)])
def test_float64_is_exact(decay, erase):
    arguments = {n: x.astype("float64") for n, x in inputs(67, decay, erase).items()}
    for found, expected in zip(attend(arguments), numpy(**arguments), strict=True):
        assert keras.backend.standardize_dtype(found.dtype) == "float64"
        np.testing.assert_allclose(
            ops.convert_to_numpy(found), expected, rtol=0, atol=1e-12
        )


def test_the_state_of_short_types_is_float32():
    short = {n: ops.cast(x, "bfloat16") for n, x in inputs(13, "step").items()}
    wide = {n: ops.cast(x, "float32") for n, x in short.items()}
    (y, S), (y_wide, S_wide) = attend(short), attend(wide)
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    assert keras.backend.standardize_dtype(S.dtype) == "float32"
    assert_close(S, S_wide)
    assert_close(ops.cast(y, "float32"), ops.cast(ops.cast(y_wide, y.dtype), "float32"))


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="reads programs of JAX")
@pytest.mark.parametrize("decay", DECAYS)
def test_no_array_grows_with_the_square_of_the_length(decay):
    import jax

    def largest(time):
        program = jax.make_jaxpr(jax.grad(loss))(inputs(time, decay, "delta"))
        return max(sizes(program.jaxpr))

    def sizes(program):
        for equation in program.eqns:
            yield from (x.aval.size for x in equation.outvars)
            for value in keras.tree.flatten(list(equation.params.values())):
                value = getattr(value, "jaxpr", value)
                if hasattr(value, "eqns"):
                    yield from sizes(value)

    assert largest(2048) <= 8.1 * largest(256)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="only TensorFlow runs code with sizes that are not known",
)
def test_unknown_sizes_and_xla():
    import tensorflow as tf

    def unknown(x):
        return tf.TensorSpec([None if n in (B, 67) else n for n in x.shape], x.dtype)

    arguments = inputs(67, "channel", "delta")
    mask = np.arange(67)[None] < np.array([[67], [5]])

    def attend(a, mask):
        attend = functools.partial(kernels.linear_attention, mask=mask)
        gradient = kernels.gradients(lambda a: loss(a, attend), a)
        return *attend(**a), gradient["q"]

    run = tf.function(
        attend,
        input_signature=tree.map_structure(unknown, [arguments, mask]),
        jit_compile=True,
    )
    for time in (67, 1):
        part = {n: x[:, :time] for n, x in arguments.items()}
        y, S, gradient = run(part, mask[:, :time])
        outputs, last = numpy(**part, mask=mask[:, :time])
        assert_close(y, outputs)
        assert_close(S, last)
        assert_close(gradient, attend(part, mask[:, :time])[2], atol=1e-4)


@pytest.mark.once("error messages")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": (B, 5, N, 4)}, r"k must have shape \(2, 5, 3, 5\) .* \(2, 5, 3, 4\)"),
        ({"v": (B, 4, N, V)}, r"v must have shape .* received shape \(2, 4, 3, 7\)"),
        ({"log_decay": (5, N)}, r"log_decay must have shape \(N,\), .* \(5, 3\)"),
        ({"log_decay": (2,)}, r"log_decay must have shape \(3,\) .* shape \(2,\)"),
        ({"initial_state": (3, N, K, V)}, r"initial_state must have shape \(2, 3, 5"),
        ({"b": (B, 5, N, K)}, "b must be None without c"),
        ({"mask": (B, 4)}, r"mask must have shape .* = \(2, 5\), received .* \(2, 4\)"),
        ({"segment_ids": (5,)}, r"segment_ids must have shape .* = \(2, 5\)"),
        (
            {n: (B, 0, N, d) for n, d in zip("qkv", (K, K, V), strict=True)},
            "length of 0",
        ),
    ],
)
def test_errors(changes, message):
    changes = {name: np.ones(shape, "float32") for name, shape in changes.items()}
    with pytest.raises(ValueError, match=message):
        kernels.linear_attention(**inputs(5) | changes)

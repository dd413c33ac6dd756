"""The fast recurrence: values, gradients by hand, masks, dropout, types, fallbacks."""

import contextlib
import dataclasses

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import backend
from kerasseq.kernels.reference.equations import Equation, run_steps
from tests.layer_checks import compiled_on_jax

pytestmark = pytest.mark.everywhere("kernels differ between backends")

T, B, H = 5, 3, 7
LSTMS = [(p, c) for p in (None, "diagonal", "full") for c in (False, True)]
EQUATIONS = [
    Equation("elman", "tanh"),
    Equation("elman", "relu"),
    Equation("gated", "relu"),
    Equation("gated", "tanh"),
    *(Equation("lstm", "tanh", peephole=p, coupled=c) for p, c in LSTMS),
    Equation("lstm", "softsign", "hard_sigmoid", peephole="diagonal"),
    *(
        Equation("gru", "tanh", reset_after=after, update=update)
        for after in (True, False)
        for update in ("keep", "replace")
    ),
]


def name_of(equation):
    values = dataclasses.astuple(equation)
    return "-".join(str(v) for v in values)


def case(equation, seed=0, steps=T, dtype="float32"):
    """Arrays that an equation learns from: projected inputs, states, weights."""
    rng = np.random.default_rng(seed)
    gates = equation.gates

    def normal(*shape, scale=1.0):
        return (scale * rng.normal(size=shape)).astype(dtype)

    weights = {"U": normal(H, gates * H, scale=0.4)}
    if equation.name == "gru" and equation.reset_after:
        weights["b"] = normal(gates * H)
    if equation.peephole == "diagonal":
        weights["p"] = normal(gates - 1, H)
    if equation.peephole == "full":
        weights["p"] = normal(H, (gates - 1) * H, scale=0.4)
    states = [normal(B, H) for _ in range(1 + (equation.name == "lstm"))]
    return {"x": normal(steps, B, gates * H), "states": states, "weights": weights}


def with_dropout(arrays, dropout):
    """All as tensors, and the weights with dropout masks where there are any."""
    arrays = tree.map_structure(ops.convert_to_tensor, arrays)
    if dropout is not None:
        arrays["weights"] = {**arrays["weights"], "dropout": dropout}
    return arrays["x"], arrays["states"], arrays["weights"]


def fast(equation, arrays, mask=None, dropout=None):
    x, states, weights = with_dropout(arrays, dropout)
    cell = kernels.Recurrence(equation, weights, x, lambda x: x)
    return kernels.recurrence(cell, states, mask)


def reference(equation, arrays, mask=None, dropout=None):
    """The definition, which the backend differentiates."""
    return run_steps(equation, *with_dropout(arrays, dropout), mask)


def dropout_for(equation, seed=1):
    rng = np.random.default_rng(seed)
    masks = [
        ops.convert_to_tensor(2.0 * (rng.random((B, H)) < 0.5).astype("float32"))
        for _ in range(equation.gates)
    ]
    return masks if equation.gates > 1 else masks[0]


def assert_same(equation, arrays, mask=None, dropout=None, tolerance=1e-5):
    """Values, and gradients of all outputs together in all that is learned."""
    mask = None if mask is None else ops.convert_to_tensor(mask)
    rng = np.random.default_rng(2)
    dtype, steps = arrays["x"].dtype, arrays["x"].shape[0]
    shapes = [(steps, B, H)] + [(B, H)] * len(arrays["states"])
    factors = [ops.convert_to_tensor(rng.normal(size=s).astype(dtype)) for s in shapes]

    def gradients(run):
        def loss(arrays):
            outputs = tree.flatten(list(run(equation, arrays, mask, dropout)))
            return sum(ops.sum(y * f) for y, f in zip(outputs, factors, strict=True))

        return [numpy(g) for g in tree.flatten(kernels.gradients(loss, arrays))]

    tensors = tree.map_structure(ops.convert_to_tensor, arrays)
    values, expected = (
        [*map(numpy, values_of(run, equation, mask, dropout)(tensors))]
        for run in (fast, reference)
    )
    for a, b in zip(values, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance)
    for a, b in zip(gradients(fast), gradients(reference), strict=True):
        assert a.dtype == dtype
        size = max(1.0, np.abs(b).max())
        np.testing.assert_allclose(a / size, b / size, atol=tolerance)


def values_of(run, equation, *options):
    """The outputs as a function of the arrays."""
    return compiled_on_jax(
        lambda arrays: tree.flatten(list(run(equation, arrays, *options)))
    )


def numpy(x):
    return ops.convert_to_numpy(x)


rest = pytest.mark.full("mask and dropout each without the other")


@pytest.mark.parametrize(
    ("masked", "dropped"),
    [
        pytest.param(False, False, id="-"),
        pytest.param(True, True, id="mask-dropout"),
        pytest.param(True, False, id="mask-", marks=rest),
        pytest.param(False, True, id="-dropout", marks=rest),
    ],
)
@pytest.mark.parametrize("equation", EQUATIONS, ids=name_of)
def test_values_and_gradients_are_those_of_the_equation(equation, masked, dropped):
    mask = None
    if masked:
        mask = np.array([[0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 1, 1], [0, 1, 0]], bool)
    dropout = dropout_for(equation) if dropped else None
    assert_same(equation, case(equation), mask, dropout)


@given(
    equation=st.sampled_from(EQUATIONS),
    steps=st.integers(1, 6),
    seed=st.integers(0, 99),
    masked=st.booleans(),
)
def test_any_length_and_mask(equation, steps, seed, masked):
    mask = np.random.default_rng(seed).random((steps, B)) < 0.5 if masked else None
    assert_same(equation, case(equation, seed, steps), mask)


@pytest.mark.parametrize("equation", EQUATIONS, ids=name_of)
def test_gradients_are_finite_differences(equation):
    arrays = case(equation, dtype="float64" if float64_works() else "float32")
    step, tolerance = (1e-6, 1e-6) if float64_works() else (1e-2, 3e-3)

    def loss(arrays):
        path, last = fast(equation, arrays)
        return ops.sum(path[1:3] ** 2) / 9 + sum(ops.sum(s**2) for s in last) / 9

    found = tree.flatten(kernels.gradients(loss, arrays))
    flat = tree.flatten(arrays)
    rng = np.random.default_rng(3)
    for k, gradient in enumerate(found):
        direction = rng.normal(size=flat[k].shape).astype(flat[k].dtype)
        direction /= np.linalg.norm(direction)

        def moved(by, k=k, direction=direction):
            parts = [a + by * direction if j == k else a for j, a in enumerate(flat)]
            return float(loss(tree.pack_sequence_as(arrays, parts)))

        slope = (moved(step) - moved(-step)) / (2 * step)
        assert np.sum(numpy(gradient) * direction) == pytest.approx(
            slope, abs=tolerance, rel=tolerance
        )


def float64_works():
    return backend.chosen() != "jax"


@pytest.mark.full("all layers are tested in float64 everywhere")
def test_float64_is_exact_to_1e_9():
    mask = np.array([[0, 1, 0], [0, 1, 1], [0, 0, 1], [0, 1, 1], [0, 1, 0]], bool)
    with float64():
        for equation in {equation.name: equation for equation in EQUATIONS}.values():
            arrays = case(equation, dtype="float64")
            assert_same(equation, arrays, mask, tolerance=1e-9)


def float64():
    """Lets JAX compute in float64; elsewhere nothing."""
    if float64_works():
        return contextlib.nullcontext()
    import jax

    return jax.enable_x64(True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_short_floats_come_near(dtype):
    for equation in EQUATIONS:
        arrays = tree.map_structure(lambda a: ops.cast(a, dtype), case(equation))
        path, *last = values_of(fast, equation)(arrays)
        assert {keras.backend.standardize_dtype(y.dtype) for y in (path, *last)} == {
            dtype
        }
        exact, _ = reference(equation, case(equation))
        error = numpy(ops.cast(path, "float32")) - numpy(exact)
        assert np.abs(error).max() < (0.15 if dtype == "bfloat16" else 0.02)


def test_an_activation_without_a_known_slope_has_no_equation():
    assert kernels.equation_of("elman", keras.activations.gelu) is None
    assert kernels.equation_of("lstm", keras.activations.tanh, lambda x: x) is None


def test_no_step_is_an_error():
    arrays = case(EQUATIONS[0], steps=1)
    arrays["x"] = arrays["x"][:0]
    with pytest.raises(ValueError, match="length of 0"):
        fast(EQUATIONS[0], arrays)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("equation", EQUATIONS, ids=name_of)
def test_native_kernels_compute_the_same(equation, bias):
    rng = np.random.default_rng(4)
    columns = equation.gates * H
    x = ops.convert_to_tensor(rng.normal(size=(T, B, 2)).astype("float32"))
    kernel = ops.convert_to_tensor(rng.normal(size=(2, columns)).astype("float32"))
    b = ops.convert_to_tensor(rng.normal(size=columns).astype("float32"))
    projected = ops.matmul(x, kernel) + (b if bias else 0)
    arrays = {**case(equation), "x": projected}
    if not bias:
        arrays["weights"].pop("b", None)
    _, states, weights = with_dropout(arrays, None)
    cell = kernels.Recurrence(
        equation, weights, x, lambda x: projected, kernel, b if bias else None
    )
    runs = [kernels.recurrence(cell, states)]
    if backend.chosen() == "torch":
        from kerasseq.kernels import cudnn
        from kerasseq.kernels.torch.recurrence import run_native

        if cell.why_not_native(None, cudnn.BUILT_FOR["torch"]) is None:
            runs.append(run_native(cell, states))
    expected = tree.flatten(list(reference(equation, arrays)))
    for run in runs:
        for a, b in zip(tree.flatten(list(run)), expected, strict=True):
            np.testing.assert_allclose(numpy(a), numpy(b), atol=1e-5)

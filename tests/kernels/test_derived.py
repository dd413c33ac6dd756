"""The derived loop of each cell against its steps, one after the other.

The reference calls `step` in a Python loop, and the backend differentiates it. The loss
is the sum of all outputs times `factors`; its gradients with respect to these are the
outputs, so that one call gives values and gradients.
"""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Sequence

import keras
import numpy as np
import pytest
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import backend
from kerasseq.kernels.derived.derive import Derived, derive
from kerasseq.kernels.operations import backend_module
from tests.kernels.own_cells import (
    CELLS,
    FEATURES,
    OWN,
    PUBLIC,
    UNITS,
    Float64NormLSTMCell,
    LayerNormLSTMCell,
)
from tests.layer_checks import compiled_on_jax

pytestmark = pytest.mark.everywhere("each backend has its own loop")

STEPS, BATCH = 7, 5
# A column for each sequence: left padding, right padding, holes, only padding, none.
MASK = np.array(
    [
        [0, 0, 0, 0, 0, 1, 1],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 0, 1, 1, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 1, 1],
    ],
    bool,
).T
SHORT = [] if backend.chosen() == "torch" else ["bfloat16", "float16"]


@dataclasses.dataclass
class Case:
    """A cell, what its loop starts from, and the derived loop.

    Attributes:
        cell: The cell, built.
        step: Function `(cell, x, states)`.
        arrays: What gets gradients: "x", "states", "weights", and "factors".
        derived: As `derive` returns it.
        noise: Masks of recurrent dropout.
        mask: Boolean `(T, B)`, or None.
        path: Whether outputs at all steps are wanted.
    """

    cell: keras.Layer
    step: object
    arrays: dict[str, object]
    derived: Derived
    noise: Sequence[np.ndarray] = ()
    mask: np.ndarray | None = None
    path: bool = True

    def weights(self, floats):
        """The values of all variables, from those of floats."""
        rest, variables = iter(floats), self.cell.variables
        return [v.value if "int" in v.dtype else next(rest) for v in variables]

    def by_steps(self, arrays):
        """The path of the output and the last states, step by step."""
        cell, d = self.cell, self.derived
        if self.noise:
            masks = [ops.convert_to_tensor(m) for m in self.noise]
            masks = masks if len(masks) > 1 else masks[0]
            cell.get_recurrent_dropout_mask = lambda *_: masks

        def step(states, now):
            output, new = self.step(cell, now["x"], states[: len(states) - d.extra])
            new = [*new, output] if d.extra else list(new)
            if self.mask is not None:
                real = now["mask"][:, None]
                new = [ops.where(real, *p) for p in zip(new, states, strict=True)]
            return new, new[d.output]

        inputs = {"x": arrays["x"]}
        if self.mask is not None:
            inputs["mask"] = ops.convert_to_tensor(self.mask)
        pairs = zip(cell.variables, self.weights(arrays["weights"]), strict=True)
        with keras.StatelessScope(list(pairs)):
            last, path = kernels.scan(step, list(arrays["states"]), inputs)
        return path if self.path else None, last

    def at_once(self, arrays):
        """The same by the derived loop."""
        loop = backend_module("derived")
        x, states = arrays["x"], list(arrays["states"])
        parameters = self.derived.parameters(self.weights(arrays["weights"]))
        assert loop.can_run([x, *states, *parameters])
        noise = [ops.convert_to_tensor(m) for m in self.noise]
        x = self.derived.take_ahead(x, parameters, noise)
        mask = None if self.mask is None else ops.convert_to_tensor(self.mask)
        return loop.run(
            self.derived, x, states, parameters, noise, mask, path=self.path
        )

    def results(self, run):
        """Outputs and gradients of a loop, as a list of arrays of NumPy."""

        def loss(arrays):
            outputs = [y for y in tree.flatten(list(run(arrays))) if y is not None]
            pairs = zip(outputs, arrays["factors"], strict=True)
            return sum(ops.sum(y * f) for y, f in pairs)

        arrays = tree.map_structure(ops.convert_to_tensor, self.arrays)
        found = compiled_on_jax(lambda a: kernels.gradients(loss, a))(arrays)
        return [ops.convert_to_numpy(g) for g in tree.flatten(found)]

    def outputs(self, run):
        """Outputs alone, as in inference."""
        arrays = tree.map_structure(ops.convert_to_tensor, self.arrays)
        found = compiled_on_jax(lambda a: tree.flatten(list(run(a))))(arrays)
        return [ops.convert_to_numpy(y) for y in found if y is not None]


def make_case(
    name,
    *,
    steps=STEPS,
    batch=BATCH,
    masked=False,
    noisy=False,
    path=True,
    dtype="float32",
    seed=0,
):
    """A cell with random weights, inputs and states."""
    make = CELLS[name] if isinstance(name, str) else name
    dropout = {"recurrent_dropout": 0.5} if noisy else {}
    cell = make(dtype=dtype, **dropout)
    cell.build((None, FEATURES))
    projects = hasattr(cell, "project")
    width = cell.gates * cell.units if projects else FEATURES
    step = _step if projects else type(cell).call
    sizes = cell.state_size if isinstance(cell.state_size, list) else [cell.units]
    rng = np.random.default_rng(seed)

    def normal(*shape):
        # Weights of 1 / sqrt(n), so that states neither vanish nor grow.
        scale = 1 / math.sqrt(shape[0] or 1) if len(shape) == 2 else 1.0
        return (scale * rng.normal(size=shape)).astype("float32").astype(dtype)

    noise = [cell.units] * cell.gates if noisy and cell.gates > 1 else None
    noise = cell.units if noisy and cell.gates == 1 else noise
    d = derive(
        cell,
        step,
        width=width,
        states=sizes,
        noise=noise,
        masked=masked,
        training=noisy,
        dtype=dtype,
    )
    masks = [noise] if isinstance(noise, int) else noise or []
    floats = [v for v in cell.variables if "int" not in v.dtype]
    widths = [v.width for v in d.new_states]
    states = [normal(batch, n) for n in sizes]
    if d.extra:
        states.append(np.zeros((batch, widths[-1]), dtype))
    shapes = [(steps, batch, widths[d.output])] if path else []
    shapes += [(batch, n) for n in widths]
    arrays = {
        "x": normal(steps, batch, width),
        "states": states,
        "weights": [normal(*v.shape) for v in floats],
        "factors": [normal(*shape) for shape in shapes],
    }
    noise = [(2.0 * (rng.random((batch, n)) < 0.5)).astype(dtype) for n in masks]
    mask = None
    if masked:
        mask = (
            MASK if (steps, batch) == MASK.shape else rng.random((steps, batch)) < 0.8
        )
    return Case(cell, step, arrays, d, noise, mask, path)


def _step(cell, x, states):
    return cell.step(x, states, training=bool(cell.recurrent_dropout))


def distance(found, expected):
    """The largest difference, of numbers above 1 relative to the largest."""
    sizes = [max(1.0, np.abs(b).max(initial=0)) for b in expected]
    parts = zip(found, expected, sizes, strict=True)
    return max(
        float(np.abs(a.astype("float64") - b).max(initial=0)) / size
        for a, b, size in parts
    )


def assert_same(case, tolerance=1e-5):
    expected = case.results(case.by_steps)
    found = case.results(case.at_once)
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert distance(found, expected) < tolerance
    count = len(case.arrays["factors"])
    outputs = found[:count]  # "factors" is the first key
    assert distance(case.outputs(case.at_once), outputs) < tolerance


rest = pytest.mark.full("the same loop with other options")
KINDS = [
    pytest.param({"masked": True}, id="mask"),
    pytest.param({}, id="-", marks=rest),
    pytest.param({"path": False}, id="last", marks=rest),
]


@pytest.mark.parametrize("options", KINDS)
@pytest.mark.parametrize("name", OWN)
def test_own_cells(name, options):
    assert_same(make_case(name, **options))


NOISY = {"masked": True, "noisy": True}
MORE = [*KINDS, pytest.param({"noisy": True}, id="dropout")]
KINDS_OF_PUBLIC = [
    pytest.param(NOISY, id="mask-dropout"),
    *(pytest.param(*kind.values, id=kind.id, marks=rest) for kind in MORE),
]


@pytest.mark.parametrize("options", KINDS_OF_PUBLIC)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=rest if k > 3 else ()) for k, n in enumerate(PUBLIC)]
)
def test_cells_of_kerasseq(name, options):
    assert_same(make_case(name, **options))


@pytest.mark.full("7 steps are tested everywhere")
@pytest.mark.parametrize("name", ["lstm diagonal", "gru", "minimal", "three states"])
def test_64_steps(name):
    assert_same(make_case(name, steps=64, masked=name == "gru"))


@pytest.mark.full("7 steps are tested everywhere")
def test_where_steps_amplify_rounding_the_loop_is_as_near_to_float64():
    def results(cell, dtype, derived=False):
        case = make_case(
            functools.partial(cell, 19), steps=64, batch=31, dtype=dtype, seed=1
        )
        names = [v.name for v in case.cell.variables if "int" not in v.dtype]
        case.arrays["x"] *= 0.3  # the recurrent part prevails
        for name, weight in zip(names, case.arrays["weights"], strict=True):
            weight *= name not in ("beta", "bias")
            weight[...] = 1 if name == "gamma" else weight
        found = case.results(case.at_once if derived else case.by_steps)
        return found[0], found[-1]  # the path, and the gradient of the inputs

    with float64():
        exact = results(Float64NormLSTMCell, "float64")

    def distances(derived):
        """The geometric mean of those of the sequences."""
        found = results(LayerNormLSTMCell, "float32", derived)
        pairs = zip(found, exact, strict=True)
        return [np.exp(np.log(np.abs(a - b).max((0, 2))).mean()) for a, b in pairs]

    for one, other in zip(distances(True), distances(False), strict=True):
        assert other > 3e-6  # else nothing is amplified
        assert one < 2 * other


@pytest.mark.parametrize(
    ("steps", "batch"), [(1, BATCH), (STEPS, 1), (STEPS, 0)], ids=str
)
@pytest.mark.parametrize("name", ["lstm diagonal", "other output"])
def test_one_step_one_sequence_or_none(name, steps, batch):
    assert_same(make_case(name, steps=steps, batch=batch, masked=True))


@pytest.mark.parametrize("dtype", SHORT)
def test_short_floats_come_near(dtype):
    for name in ("lstm diagonal", "gru before", "gated"):
        case, exact = (
            make_case(name, dtype=d, masked=True) for d in (dtype, "float32")
        )
        found = case.outputs(case.at_once)
        assert {str(y.dtype) for y in found} == {dtype}
        assert {str(g.dtype) for g in case.results(case.at_once)} == {dtype}
        tolerance = 0.15 if dtype == "bfloat16" else 0.02
        assert distance(found, exact.outputs(exact.by_steps)) < tolerance


@pytest.mark.full("all layers are tested in float64 everywhere")
@pytest.mark.skipif(not SHORT, reason="PyTorch runs other dtypes step by step")
@pytest.mark.parametrize("name", ["lstm diagonal", "gru", "layer norm"])
def test_float64_is_exact_to_1e_9(name):
    cell = functools.partial(Float64NormLSTMCell, UNITS)
    with float64():
        name = cell if name == "layer norm" else name
        assert_same(make_case(name, dtype="float64", masked=True), tolerance=1e-9)


def float64():
    """Lets JAX compute in float64; elsewhere nothing."""
    if backend.chosen() != "jax":
        return contextlib.nullcontext()
    import jax

    return jax.enable_x64(True)

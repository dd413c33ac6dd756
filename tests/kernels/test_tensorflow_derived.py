"""What only TensorFlow has: XLA, unknown sizes, saved graphs, derivatives of gradients.

`test_derived.py` compares the loops of all cells with their steps, in eager code.
"""

import functools
import sys

import keras
import numpy as np
import pytest

from kerasseq.core import backend

if backend.chosen() != "tensorflow":
    pytest.skip("TensorFlow's own way", allow_module_level=True)

import tensorflow as tf
from keras import tree

from kerasseq import kernels
from kerasseq.kernels.tensorflow import loop as tensorflow_loop
from kerasseq.kernels.tensorflow import private
from tests.kernels.own_cells import CELLS, FEATURES, LayerNormLSTMCell, OwnCell
from tests.kernels.test_derived import BATCH, MASK, STEPS, distance, make_case

NAME = "tensorflow.python.ops.control_flow_util.GraphOrParentsInXlaContext"
pytestmark = pytest.mark.everywhere("each backend has its own loop")

FIRST = ["lstm diagonal", "gru", "layer norm", "three states", "no product"]
NAMES = [
    *FIRST,
    *(
        pytest.param(n, marks=pytest.mark.full("other cells"))
        for n in CELLS
        if n not in FIRST
    ),
]
XLA = pytest.mark.parametrize("jit", [True, False], ids=["xla", "graph"])


@pytest.fixture(autouse=True)
def loops(monkeypatch):
    """7 steps are three rounds of two steps, in a loop, and one more step."""
    monkeypatch.setattr(tensorflow_loop, "AT_ONCE", 2)


def tensors(case):
    return tree.map_structure(tf.constant, case.arrays)


def gradients(run, arrays):
    """Of the sum of all outputs times `factors`, whose gradients are the outputs."""
    leaves = tree.flatten(arrays)
    with tf.GradientTape() as tape:
        tape.watch(leaves)
        outputs = [y for y in tree.flatten(list(run(arrays))) if y is not None]
        pairs = zip(outputs, arrays["factors"], strict=True)
        loss = tf.add_n([tf.reduce_sum(y * f) for y, f in pairs])
    zero = tf.UnconnectedGradients.ZERO
    return tape.gradient(loss, leaves, unconnected_gradients=zero)


def in_numpy(values):
    return [np.asarray(v) for v in values]


def compiled(function, jit=False):
    return tf.function(function, autograph=False, jit_compile=jit)


@XLA
@pytest.mark.parametrize("name", NAMES)
def test_compiled_loops_are_the_steps(name, jit):
    case = make_case(name, masked=True)
    ways = []

    def run(arrays):
        ways.append(private.for_xla())
        return gradients(case.at_once, arrays)

    found = compiled(run, jit)(tensors(case))
    assert ways == [jit]
    assert distance(in_numpy(found), case.results(case.by_steps)) < 1e-5


@pytest.mark.parametrize("jit", [True, False], ids=["xla", "graph"])
def test_without_tensorflows_private_name_the_loop_for_xla_runs(jit, monkeypatch):
    # TensorFlow itself reads the name, so that only its import fails.
    monkeypatch.setitem(sys.modules, NAME.rpartition(".")[0], None)
    case = make_case("lstm diagonal", masked=True)

    def run(arrays):
        assert private.for_xla()
        return gradients(case.at_once, arrays)

    found = compiled(run, jit)(tensors(case))
    assert distance(in_numpy(found), case.results(case.by_steps)) < 1e-5


@pytest.mark.parametrize(
    ("name", "jit"), [*((name, False) for name in FIRST), ("gru", True)]
)
def test_number_of_steps_and_batch_may_be_unknown(name, jit):
    case = make_case(name, masked=True)
    arrays = tensors(case)
    unknown = {  # time and batch
        key: tree.map_structure(
            lambda a, n=n: tf.TensorSpec([None] * n + a.shape[n:], a.dtype), arrays[key]
        )
        for key, n in (("x", 2), ("states", 1), ("weights", 0))
    }
    factors = [
        tf.TensorSpec([None] * (len(f.shape) - 1) + f.shape[-1:])
        for f in arrays["factors"]
    ]

    @tf.function(
        input_signature=[
            {**unknown, "factors": factors},
            tf.TensorSpec((None, None), tf.bool),
        ],
        jit_compile=jit,
    )
    def run(arrays, mask):
        case.mask = mask
        return gradients(case.at_once, arrays)

    for steps, batch in ((STEPS, BATCH), (1, BATCH), (4, 2)):
        case.mask = MASK[:steps, :batch]
        now = {
            **case.arrays,
            "x": case.arrays["x"][:steps, :batch],
            "states": [s[:batch] for s in case.arrays["states"]],
            "factors": [f[..., :batch, :] for f in case.arrays["factors"]],
        }
        now["factors"][0] = now["factors"][0][:steps]
        mask = tf.constant(case.mask)
        found = in_numpy(run(tree.map_structure(tf.constant, now), mask))
        case.mask = np.asarray(mask)
        now = tree.map_structure(tf.constant, now)
        expected = in_numpy(gradients(case.by_steps, now))
        assert distance(found, expected) < 1e-5


@pytest.mark.parametrize("name", ["lstm diagonal", "gru before"])
@pytest.mark.parametrize("way", ["eager", "graph", "xla"])
def test_second_derivatives(name, way):
    case = make_case(name)

    def second(run):
        def loss(arrays):
            with tf.GradientTape() as tape:
                tape.watch(arrays["weights"])
                path, last = run(arrays)
                total = tf.reduce_sum(path**2) + tf.reduce_sum(last[-1] ** 2)
            slopes = tape.gradient(total, arrays["weights"])
            return tf.add_n([tf.reduce_sum(g**2) for g in slopes if g is not None])

        def outer(arrays):
            leaves = [*tree.flatten(arrays["weights"]), arrays["x"]]
            with tf.GradientTape() as tape:
                tape.watch(leaves)
                total = loss(arrays)
            zero = tf.UnconnectedGradients.ZERO
            return tape.gradient(total, leaves, unconnected_gradients=zero)

        return outer

    run = second(case.at_once)
    run = run if way == "eager" else compiled(run, way == "xla")
    found, expected = run(tensors(case)), second(case.by_steps)(tensors(case))
    assert distance(in_numpy(found), in_numpy(expected)) < 1e-4


@pytest.mark.parametrize("name", ["lstm diagonal", "gru"])
def test_jacobians(name):
    """Of eager code and of compiled code, whose backward pass is another graph."""
    case = make_case(name)

    def jacobians(run):
        arrays = tensors(case)
        leaves = [arrays["x"], *arrays["weights"]]
        with tf.GradientTape() as tape:
            tape.watch(leaves)
            _, last = run(arrays)
        zero = tf.UnconnectedGradients.ZERO
        return in_numpy(tape.jacobian(last[0], leaves, unconnected_gradients=zero))

    expected = jacobians(case.by_steps)
    for run in (case.at_once, compiled(case.at_once)):
        assert distance(jacobians(run), expected) < 1e-5


@pytest.mark.parametrize("name", ["lstm diagonal", "other output"])
def test_a_saved_graph_answers_and_learns(name, tmp_path):
    case = make_case(name, masked=True)
    arrays = tensors(case)
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec((None, *arrays["x"].shape[1:]))])
    def call(x):
        path, last = case.at_once({**arrays, "x": x})
        return path, last

    module.call = call
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path)).call

    def results(run):
        with tf.GradientTape() as tape:
            tape.watch(arrays["x"])
            outputs = tree.flatten(list(run(arrays)))
            loss = tf.add_n([tf.reduce_sum(y**2) for y in outputs])
        return in_numpy([*outputs, tape.gradient(loss, arrays["x"])])

    found = results(lambda arrays: loaded(arrays["x"]))
    assert distance(found, results(case.by_steps)) < 1e-5


@XLA
@pytest.mark.parametrize("dtype, tolerance", [("float16", 0.02), ("bfloat16", 0.15)])
@pytest.mark.parametrize("name", ["lstm diagonal", "gru"])
def test_short_floats_in_a_graph(name, dtype, tolerance, jit):
    case, exact = (make_case(name, masked=True, dtype=d) for d in (dtype, "float32"))
    found = compiled(lambda a: gradients(case.at_once, a), jit)(tensors(case))
    assert {g.dtype for g in found} == {tf.as_dtype(dtype)}
    found = in_numpy([tf.cast(g, "float32") for g in found])
    assert distance(found, exact.results(exact.by_steps)) < tolerance


class AddCell(OwnCell):
    """Adds a row of weights to the input."""

    state_size = [FEATURES]
    shapes = {"row": (FEATURES,)}

    def call(self, x, states):
        h = x + self.row
        return h, [h]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradient_of_a_row_over_many_steps(dtype):
    """Of 4096 ones: a sum of ones stops at 2048 in float16, at 256 in bfloat16."""
    case = make_case(lambda **more: AddCell(**more), steps=1024, batch=4, dtype=dtype)
    arrays = tensors(case)
    with tf.GradientTape() as tape:
        tape.watch(arrays["weights"])
        path, _ = case.at_once(arrays)
    (found,) = tape.gradient(path, arrays["weights"])
    np.testing.assert_array_equal(tf.cast(found, "float32"), 4096.0)


def test_tensorflow_does_not_rewrite_the_loop():
    """Its optimizer changes how a scan over the steps rounds, which they amplify."""
    make = functools.partial(LayerNormLSTMCell, 19)
    case = make_case(make, steps=64, batch=31)
    case.arrays["x"] *= 0.3  # the recurrent part prevails
    names = [v.name for v in case.cell.variables if "int" not in v.dtype]
    for name, weight in zip(names, case.arrays["weights"], strict=True):
        weight *= name not in ("beta", "bias")
        weight[...] = 1 if name == "gamma" else weight

    def scan(arrays):
        def step(carry, x):
            output, states = case.cell.step(x, carry)
            return states, output

        pairs = zip(case.cell.variables, case.weights(arrays["weights"]), strict=True)
        with keras.StatelessScope(list(pairs)):
            last, path = kernels.scan(step, arrays["states"], arrays["x"])
        return path, last

    def results():
        found = compiled(lambda a: [case.at_once(a)[0], scan(a)[0]])(tensors(case))
        return in_numpy(found)

    before = tf.config.optimizer.get_experimental_options()
    found = results()
    tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
    try:
        expected = results()
    finally:
        options = {"arithmetic_optimization": True, **before}
        tf.config.optimizer.set_experimental_options(options)
    by_loop, by_scan = (
        np.abs(a - b).max() for a, b in zip(found, expected, strict=True)
    )
    assert by_loop < 1e-5 < by_scan


def test_an_eager_call_is_traced_once(monkeypatch):
    traces = []
    monkeypatch.setattr(private, "for_xla", lambda: traces.append(1))
    case = make_case("gru")
    for _ in range(2):
        case.outputs(case.at_once)
    assert len(traces) == 1

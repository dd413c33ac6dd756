"""What functions of a step are made of: loops, elementary functions."""

import array
import math

import numpy as np
import pytest

from kerasseq.core import backend

if backend.chosen() != "torch":
    pytest.skip("PyTorch's own path", allow_module_level=True)

from kerasseq.kernels.derived.graph import INPUT, Graph
from kerasseq.kernels.torch import compile
from kerasseq.kernels.torch.elementary import FUNCTIONS
from kerasseq.kernels.torch.emit import Source, Writer
from kerasseq.kernels.torch.plan import STEPS, Array, Place, Schedule

pytestmark = pytest.mark.once("PyTorch's own path")
needs_llvmlite = pytest.mark.skipif(
    not compile.is_available(), reason="llvmlite is not installed"
)

GRAPH = Graph()
X = GRAPH.make(INPUT, width=11)


def function_of(**stores):
    """A function that writes values to arrays."""
    schedule = Schedule({X: Place(Array("x", 11, STEPS))}, False)
    for name, value in stores.items():
        schedule.store(value, Place(Array(name, value.width, STEPS)))
    (function,) = schedule.complete()
    return function


def text_of(function):
    return Writer(Source(), function, 0).text("f", backward=False, whole=False)


def test_a_sum_takes_a_loop_of_its_own_before_that_which_reads_it():
    centered = X - GRAPH.make("sum", X, width=1) * (1 / 11)
    variance = GRAPH.make("sum", centered * centered, width=1)
    loops = function_of(y=centered / variance).loops
    assert {stage for (_, stage), _ in loops} == {0, 1, 2}


def test_pieces_of_one_width_share_a_loop():
    parts = [GRAPH.slice(X, at, width) for at, width in ((0, 3), (3, 3), (6, 5))]
    y = GRAPH.concatenate([GRAPH.make("tanh", part) for part in parts])
    loops = function_of(y=y).loops
    assert {jobs[0].piece.width: len(jobs) for _, jobs in loops} == {3: 2, 5: 1}


def test_exp_is_computed_once_for_a_sum_and_for_what_is_divided_by_it():
    powers = GRAPH.make("exp", X)
    softmax = powers / GRAPH.make("sum", powers, width=1)
    function = function_of(y=softmax)
    assert text_of(function).count("@exp(") == 1
    places = [job.place for _, jobs in function.loops for job in jobs if job.place]
    assert sorted(place.array.name for place in places) == ["forward_1", "y"]
    kept = function_of(y=softmax, powers=powers)
    assert text_of(kept).count("@exp(") == 1
    assert "forward_1" not in text_of(kept)


def test_all_that_a_loop_reads_and_writes_is_parallel():
    """LLVM would check at run time that arrays do not overlap, or not vectorize."""
    text = text_of(function_of(y=GRAPH.make("tanh", X), z=X * X))
    inside = text[text.index("loop2:") : text.index("end2:")].splitlines()
    accesses = [line for line in inside if "load " in line or "store " in line]
    assert len(accesses) == 3
    assert all("!llvm.access.group !0" in line for line in accesses)
    assert "!llvm.loop !2" in inside[-1]


NUMBERS = np.array(
    [
        *np.random.default_rng(0).normal(size=200) * np.geomspace(1e-6, 60, 200),
        *(0, 88.5, 88.72, 89, -104, 1e30, -1e30, np.inf, -np.inf, np.nan),
    ],
    "float32",
)
ERF = np.vectorize(math.erf)
ELEMENTARY = {
    "tanh": np.tanh,
    "erf": lambda x: ERF(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
}


@needs_llvmlite
@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_equal_numpys(name):
    """To 3e-7, relative above 1; infinities and NaN exactly."""
    text = f"""{FUNCTIONS}
define void @compute(i64 %n, ptr %table) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %table, i64 %i
  %x = load float, ptr %p
  %y = call float @{name}(float %x)
  store float %y, ptr %p
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}"""
    numbers = array.array("f", NUMBERS)
    module = compile.load(text)
    module.function("compute")(len(numbers), numbers.buffer_info()[0])
    with np.errstate(all="ignore"):
        wanted = ELEMENTARY[name](NUMBERS.astype("float64")).astype("float32")
    np.testing.assert_allclose(numbers, wanted, rtol=4e-7, atol=3e-7)
    small = (abs(NUMBERS) < 1e-3) & (wanted != 0) & (abs(wanted) < 1e-3)
    np.testing.assert_allclose(np.array(numbers)[small], wanted[small], rtol=4e-7)

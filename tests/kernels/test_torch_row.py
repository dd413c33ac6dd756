"""What functions of a step are made of: loops, pointers, elementary functions."""

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
from kerasseq.kernels.torch.row import Row
from kerasseq.kernels.torch.schedule import STEPS, Array, Cuts, Place, Schedule

pytestmark = pytest.mark.once("PyTorch's own path")
needs_llvmlite = pytest.mark.skipif(
    not compile.is_available(), reason="llvmlite is not installed"
)

GRAPH = Graph()
X = GRAPH.make(INPUT, width=11)


def row_of(**stores):
    """The text of a function that writes values to arrays."""
    schedule = Schedule({X: Place(Array("x", 11, STEPS))}, False, Cuts())
    for name, value in stores.items():
        schedule.store(value, Place(Array(name, value.width, STEPS)))
    (function,) = schedule.complete()
    return Row("f", function, int, inline=False, output=0)


def test_a_sum_takes_a_loop_of_its_own_before_that_which_reads_it():
    centered = X - GRAPH.make("sum", X, width=1) * (1 / 11)
    variance = GRAPH.make("sum", centered * centered, width=1)
    jobs = row_of(y=centered / variance).loops.jobs
    assert [stage for stage, _ in sorted(jobs)] == [0, 1, 2]


def test_pieces_of_one_width_share_a_loop():
    parts = [GRAPH.slice(X, at, width) for at, width in ((0, 3), (3, 3), (6, 5))]
    y = GRAPH.concatenate([GRAPH.make("tanh", part) for part in parts])
    jobs = row_of(y=y).loops.jobs
    assert {width: len(found) for (_, width), found in jobs.items()} == {3: 2, 5: 1}


def test_exp_is_computed_once_for_a_sum_and_for_what_is_divided_by_it():
    powers = GRAPH.make("exp", X)
    softmax = powers / GRAPH.make("sum", powers, width=1)
    row = row_of(y=softmax)
    assert row.text.count("@exp(") == 1
    assert [a.width for a in row.loops.scratch] == [11]
    kept = row_of(y=softmax, powers=powers)
    assert kept.text.count("@exp(") == 1
    assert not kept.loops.scratch


def test_parts_of_a_written_array_that_overlap_share_a_pointer():
    """As `noalias` promises that pointers reach different memory."""
    y = GRAPH.make("tanh", X)
    total = GRAPH.make("sum", y, width=1)
    row = row_of(y=y, z=GRAPH.slice(y, 2, 5) * total)
    assert [place.at for place in row.given if place.array.name == "y"] == [0]
    assert "getelementptr float, ptr %y_0_0, i64 %n2" in row.text
    apart = row_of(y=y, z=GRAPH.slice(X, 2, 5) * total)
    assert "ptr %y_0_0, i64 %n2" not in apart.text


def test_text_does_not_depend_on_the_number_of_units():
    graph, texts = Graph(), []
    for width in (11, 13):
        x = graph.make(INPUT, width=width)
        schedule = Schedule({x: Place(Array("x", width, STEPS))}, False, Cuts())
        value = graph.make("tanh", x) * graph.make("sum", x, width=1)
        schedule.store(value, Place(Array("y", width, STEPS)))
        (function,) = schedule.complete()
        places = {}
        entry = lambda n, places=places: places.setdefault(n, len(places))  # noqa: E731
        texts.append(Row("f", function, entry, inline=False, output=0).text)
    assert texts[0] == texts[1]


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

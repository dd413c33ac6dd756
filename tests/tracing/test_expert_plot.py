"""The figure of a mixture of experts: gates by token, and loads."""

from itertools import pairwise

import numpy as np
import pytest

from kerasseq import layers, tracing
from kerasseq.tracing import plots
from tests.tracing.test_plots import boxes, draw, labels

pytestmark = pytest.mark.once("arguments, messages and values that layers recorded")

B, T, D, E = 2, 7, 3, 5
rng = np.random.default_rng(0)
X = rng.normal(size=(B, T, D)).astype("float32")
REAL = np.arange(T) < np.array([[T], [4]])


def traced(num_experts=E, top_k=2):
    layer = layers.MixtureOfExperts(num_experts, 3, top_k=top_k)
    with tracing.trace(layer) as inside:
        layer(X, mask=REAL)
    return {f"mix/{name}": inside[name] for name in inside}


def test_gates_and_loads_of_a_trace():
    inside = traced()
    figure = draw(plots.plot_experts(inside, tokens="gateway", example=1))
    left, right, bar = figure.axes
    read = np.asarray(left.images[0].get_array().filled(0))
    chosen, gates = inside["mix/chosen"][1], inside["mix/gates"][1]
    for t in range(T):
        wanted = np.zeros(E)
        if REAL[1, t]:
            wanted[chosen[t]] = gates[t]
        np.testing.assert_allclose(read[:, t], wanted, rtol=1e-6)
    assert labels(left) == list("gateway") and left.get_ylabel() == "expert"
    loads = [box.get_width() for box in right.patches]
    np.testing.assert_allclose(loads, inside["mix/load"], rtol=1e-6)
    assert sum(loads) == pytest.approx(1)
    assert list(right.lines[0].get_xdata()) == [1 / E] * 2
    assert bar.get_ylabel() == "gate, from 0 to 1"
    assert figure.get_suptitle() == "mix"


@pytest.mark.parametrize(("num_experts", "shown"), [(4, 4), (24, 24), (64, 17)])
def test_numbers_of_experts_do_not_overlap(num_experts, shown):
    figure = plots.plot_experts(traced(num_experts), title="t")
    left = draw(figure).axes[0]
    numbers = [text for text in left.get_yticklabels() if text.get_text()]
    assert shown - 2 <= len(numbers) <= shown
    found = sorted(boxes(figure, numbers), key=lambda box: box.y0)
    assert all(one.y1 < other.y0 for one, other in pairwise(found))
    assert figure.get_suptitle() == "t" and left.get_xlabel() == "time step"


def test_one_layer_of_several_calls():
    values = {**traced(), "other/load": np.ones(3)}
    values |= {f"last/{name}": values[f"mix/{name}"] for name in ("chosen", "gates")}
    values["last/load"] = [np.eye(E)[0], np.ones(E)]
    figure = plots.plot_experts(values, layer="la")
    assert figure.get_suptitle() == "last"
    assert [box.get_width() for box in figure.axes[1].patches] == [1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("trace", "options", "message"),
    [
        ({"lstm/gates": X}, {}, "trace must have chosen, gates and load of a Mix"),
        (None, {"layer": "mixed"}, 'layer="mixed" is not in the trace.*There is: mix'),
        (None, {"tokens": "abc"}, "tokens must have one entry for each of 7 steps"),
        (None, {"example": 2}, "example=2 is not in the batch, which has 2"),
        ({"chosen": X[0], "gates": X[0], "load": X[0, 0]}, {}, "received the shape"),
    ],
)
def test_wrong_arguments(trace, options, message):
    with pytest.raises(ValueError, match=message):
        plots.plot_experts(traced() if trace is None else trace, **options)

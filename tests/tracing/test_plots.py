"""Figures: what stands on the axes, and that nothing warns, whatever the tokens."""

import io
import pickle
import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest

from kerasseq import tracing
from kerasseq.tracing import plots

pytestmark = pytest.mark.once("arguments, messages and files")

try:
    import matplotlib.figure
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import to_rgb
except ImportError:
    pytest.skip("needs matplotlib", allow_module_level=True)

B, T, H = 2, 7, 5
rng = np.random.default_rng(0)
gates = {
    "one/forget_gate": rng.uniform(size=(B, T, H)),
    "one/hidden_state": rng.normal(size=(B, T, H)),
    "both/forward_gru/update_gate": rng.uniform(size=(B, T, 3)),
    "both/forward_gru/candidate": rng.normal(size=(B, T, 3)),
    "dense/output": rng.normal(size=(B, H)),
}


def draw(figure):
    """Draw it, with warnings as errors, and give what stands on it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(io.BytesIO(), format="png")
    assert isinstance(figure, matplotlib.figure.Figure)
    return figure


def labels(axis):
    return [text.get_text() for text in axis.get_xticklabels()]


def boxes(figure, texts):
    """Where texts stand, in pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return [text.get_window_extent(canvas.get_renderer()) for text in texts]


def panels(figure):
    return [axis for axis in figure.axes if axis.images]


def test_gates_and_states_have_their_scales():
    figure = draw(plots.plot_gates(gates, tokens="a b\nc\td", example=1))
    gate, state = panels(figure)
    assert gate.images[0].get_clim() == (0, 1)
    low, high = state.images[0].get_clim()
    assert low == -high
    assert high == pytest.approx(np.abs(gates["one/hidden_state"][1]).max())
    shown = np.asarray(gate.images[0].get_array())
    np.testing.assert_allclose(shown, gates["one/forget_gate"][1].T, rtol=1e-6)
    assert labels(state) == ["a", "␣", "b", "⏎", "c", "⇥", "d"]
    assert figure.get_suptitle() == "one"
    assert "forget" in gate.get_ylabel()


def test_a_layer_is_found_by_how_its_path_begins():
    figure = draw(plots.plot_gates(gates, layer="both", units=[0, 2], title="t $x$"))
    gate, _ = panels(figure)
    np.testing.assert_allclose(
        gate.images[0].get_array(),
        gates["both/forward_gru/update_gate"][0, :, [0, 2]],
        rtol=1e-6,
    )
    assert figure.get_suptitle() == "t $x$"
    written = [t.get_text() for t in gate.get_yticklabels() if t.get_text()]
    assert written == ["0", "2"]  # the numbers of the units, not of the rows
    assert len(panels(plots.plot_gates(gates, gates=["hidden_state"], units=2))) == 1


def test_what_a_trace_recorded_can_be_drawn():
    import keras

    import kerasseq

    shared = kerasseq.layers.LSTM(3, return_sequences=True, name="shared")
    inputs = keras.Input((T, 3))
    model = keras.Model(inputs, shared(shared(inputs)))
    with tracing.trace(model) as inside:
        model(rng.normal(size=(B, T, 3)))
    figure = draw(tracing.plots.plot_gates(inside))
    order = [axis.get_ylabel().replace("\n", " ")[:-7] for axis in panels(figure)]
    assert sorted(order[:3]) == ["forget gate", "input gate", "output gate"]
    assert order[3:] == ["candidate", "cell state", "hidden state"]
    first = inside["shared/forget_gate"][0]
    drawn = panels(figure)[order.index("forget gate")].images[0].get_array()
    np.testing.assert_allclose(drawn, first[0].T)


WORDS = [
    "你好",
    "قلم",
    "$x$",
    "$",
    "e\u0301",
    "\u0301",
    "\x1b",
    "\ud800",
    "😀",
    "",
    "w" * 99,
]


@pytest.mark.parametrize("tokens", [WORDS, "".join(WORDS)])
def test_any_token_can_be_drawn(tokens):
    values = {"h": rng.normal(size=(1, len(tokens), 2))}
    (panel,) = panels(draw(plots.plot_gates(values, tokens=tokens)))
    shown = labels(panel)
    assert "U+001B" in shown
    assert "U+D800" in shown
    assert max(map(len, shown)) <= 14
    if tokens is WORDS:
        assert shown[1:6] == ["قلم", "$x$", "$", "e\u0301", "◌\u0301"]
        assert shown[9:] == ["∅", "w" * 13 + "…"]


def test_a_long_text_labels_some_of_its_steps():
    values = {"h": np.zeros((1, 1000, 2))}
    figure = draw(plots.plot_gates(values, tokens="abcd" * 250))
    assert figure.get_figwidth() < 25
    assert 100 < len(labels(panels(figure)[0])) < 500
    assert len(labels(panels(draw(plots.plot_gates(values)))[0])) <= 21


@pytest.mark.parametrize(
    ("tokens", "length"), [("m", 50), ("m", 200), ("internationalization", 50)]
)
def test_labels_over_time_lie_beside_each_other(tokens, length):
    values = {"forget_gate": np.zeros((1, length, 2)), "h": np.zeros((1, length, 2))}
    figure = plots.plot_gates(values, tokens=[tokens] * length)
    found = boxes(figure, panels(figure)[-1].get_xticklabels())
    assert not any(box.overlaps(after) for box, after in pairwise(found))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": "oen"}, 'layer="oen" is not in the trace. Did you mean "one"'),
        ({"layer": "dense"}, "There is: one, both/forward_gru"),
        ({"gates": ["forgetgate"]}, 'Did you mean "forget_gate"'),
        ({"tokens": "abc"}, "tokens must have one entry for each of 7 steps"),
        ({"units": [5]}, "units must be some of 0 to 4"),
        ({"units": 0}, "units must be some of 0 to 4"),
        ({"example": 2}, "example=2 is not in the batch, which has 2"),
    ],
)
def test_messages(arguments, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        plots.plot_gates(gates, **arguments)


def test_messages_of_nothing_to_draw():
    with pytest.raises(ValueError, match="nothing over time"):
        plots.plot_gates({"dense/output": np.zeros((2, 3))})
    with pytest.raises(ValueError, match="flow is empty"):
        plots.plot_gradient_flow({})
    with pytest.raises(ValueError, match="results is empty"):
        plots.plot_race({})
    with pytest.raises(ValueError, match='Did you mean "bits"'):
        plots.plot_history([{"bits": 2.0}], metric="bit")


def test_gradient_flow():
    flow = {
        "elman/hidden_state": np.array([0, 0, 1e-30, 1e-3, 1.0]),
        "lstm/cell_state": np.array([0.5, 0.6, 0.7, 0.8, 0.9]),
        "lstm/hidden_state#1": np.ones(5, "float32"),
    }
    figure = draw(
        plots.plot_gradient_flow(flow, tokens=["the", "cat", " ", "sat", "."])
    )
    (axis,) = figure.axes
    assert axis.get_yscale() == "log"
    assert labels(axis) == ["the", "cat", "␣", "sat", "."]
    lines = {line.get_label(): line for line in axis.lines}
    np.testing.assert_array_equal(
        lines["elman: hidden state"].get_ydata(), [np.nan, np.nan, 1e-30, 1e-3, 1.0]
    )
    np.testing.assert_array_equal(lines["no gradient"].get_xdata(), [0, 1])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert set(names) == {"elman: hidden state", "no gradient"} | {
        "lstm: cell state",
        "lstm: hidden state#1",
    }
    draw(plots.plot_gradient_flow({"hidden_state": np.zeros(3)}))


def test_first_steps_are_written_into_circles():
    rows = {name: [[1, 2, 4], [2, 3, 5]] for name in ("one", "other")}
    figure = draw(plots.plot_first_steps(rows))
    for panel, title in zip(figure.axes, rows, strict=True):
        places = {text.get_position(): text.get_text() for text in panel.texts}
        assert places[2, 1] == "5"
        assert len(places) == 6
        assert panel.get_title("left") == title
    for wrong in ({}, {"one": []}, {"one": [[1, 2], [3]]}, {"one": [[]]}):
        with pytest.raises(ValueError, match="steps must have"):
            plots.plot_first_steps(wrong)


@pytest.mark.parametrize("form", ["epochs", "columns", "History"])
def test_history(form):
    history = [{"bits": 4.0}, {"bits": 3.0, "val_bits": 3.5}]
    if form != "epochs":
        history = {"bits": [4.0, 3.0], "val_bits": [np.nan, 3.5]}
    if form == "History":
        history = type("History", (), {"history": history})
    figure = draw(plots.plot_history(history, {"bigrams": 3.25}, title="A run"))
    (axis,) = figure.axes
    training, held_out, baseline = axis.lines
    np.testing.assert_array_equal(training.get_xdata(), [1, 2])
    np.testing.assert_array_equal(held_out.get_ydata(), [np.nan, 3.5])
    assert set(baseline.get_ydata()) == {3.25}
    assert baseline.get_label() == "bigrams: 3.25"
    assert (axis.get_title(), axis.get_xlabel()) == ("A run", "epoch")
    draw(plots.plot_history({"accuracy": [0.5]}, metric="accuracy"))


def test_a_history_with_an_optimum_draws_it():
    history = {"bits": [2.0, 1.8], "held_out_bits": [1.9, 1.8], "optimum": [1.7, 1.7]}
    for metric in ("bits", "held_out_bits"):
        (axis,) = plots.plot_history(history, metric=metric).axes
        assert axis.lines[-1].get_label() == "optimum: 1.7"
    (axis,) = plots.plot_history(history | {"loss": [1.3, 1.2]}, metric="loss").axes
    assert len(axis.lines) == 1


def test_a_history_of_one_point_shows_a_point():
    figure = plots.plot_history([{"bits": 4.0, "val_bits": 4.5}])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = np.asarray(canvas.buffer_rgba())[..., :3]
    (axis,) = figure.axes
    for line, (x, y) in zip(axis.lines, [(1, 4.0), (1, 4.5)], strict=True):
        across, up = axis.transData.transform((x, y)).astype(int)
        found = picture[len(picture) - 1 - up, across] / 255
        assert found == pytest.approx(to_rgb(line.get_color()), abs=0.01)


@pytest.mark.parametrize(("chance", "models"), [(0.5, 2), (0.5, 9), (None, 2)])
def test_numbers_of_a_race_do_not_touch_the_line(chance, models):
    means = np.linspace(0.3, 0.6, 31)
    results = {
        f"model{n}": {f"test{i}": [m, m + 0.01] for i, m in enumerate(means[n::models])}
        for n in range(models)
    }
    figure = plots.plot_race(results, chance=chance)
    (axis,) = figure.axes
    found = boxes(figure, axis.texts)
    for line in axis.lines:
        for x, y in axis.transData.transform(line.get_xydata()):
            if str(line.get_label()).startswith("chance"):
                assert not any(box.y0 <= y <= box.y1 for box in found)
            else:
                assert not any(box.contains(x, y) for box in found)


def test_race():
    results = {
        "elman": {"training_like": [0.7, 0.8, 0.9], "hard": [0.5]},
        "lstm": {"hard": 0.75},
    }
    figure = draw(plots.plot_race(results))
    (axis,) = figure.axes
    assert [bar.get_height() for bar in axis.patches] == pytest.approx([0.8, 0.5, 0.75])
    points = [list(line.get_ydata()) for line in axis.lines]
    assert points == [[0.7, 0.8, 0.9], [0.5], [0.75], [0.5, 0.5]]
    assert labels(axis) == ["training like", "hard"]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["elman", "lstm", "chance: 0.5"]
    assert len(draw(plots.plot_race(results, chance=None)).axes[0].lines) == 3
    (axis,) = draw(plots.plot_race(results, optimum=0.9)).axes
    names = [line.get_label() for line in axis.lines[-2:]]
    assert names == ["chance: 0.5", "best possible: 0.9"]


def test_a_figure_shows_itself_in_a_notebook_and_can_be_pickled():
    figure = plots.plot_race({"lstm": {"hard": [0.9]}})
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert pickle.loads(pickle.dumps(figure)).axes[0].get_title()


def test_drawing_without_matplotlib_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plots.plot_race({"lstm": {"hard": [0.9]}})


def test_positions_are_drawn_side_by_side():
    from kerasseq import layers

    kinds = {"sine": layers.SinePositionEncoding(), "alibi": layers.AlibiBias()}
    figure = draw(plots.plot_positions(kinds, length=7, width=4, title="t"))
    shown = [np.asarray(axis.images[0].get_array()) for axis in panels(figure)]
    assert [image.shape for image in shown] == [(4, 7), (7, 7), (7, 7), (7, 7)]
    np.testing.assert_allclose(shown[0][0], np.sin(np.arange(7)), atol=1e-6)
    at = np.arange(7)
    np.testing.assert_allclose(shown[3], -np.abs(at[:, None] - at) / 4, atol=1e-6)
    assert [axis.get_ylabel() for axis in figure.axes[:4:2]] == ["sine", "alibi"]
    assert figure.get_suptitle() == "t" and not kinds["alibi"].built
    with pytest.raises(ValueError, match="layers is empty"):
        plots.plot_positions({})


def test_scaling_draws_seeds_means_and_laws():
    from kerasseq.training import power_law

    N = np.array([3000, 500, 20_000])
    losses = np.array([[3.1, 3.3], [4.0, 4.2], [2.5, 2.4]])
    laws = {"E = 0": power_law(N, losses), "E free": power_law(N, losses, floor=None)}
    figure = draw(plots.plot_scaling(N, losses, laws, "t", lines={"entropy": 1.5}))
    (axis,) = figure.axes
    seeds, mean, fixed, _free, line = axis.lines
    assert len(seeds.get_xdata()) == 6
    np.testing.assert_allclose(mean.get_xdata(), [500, 3000, 20_000])
    np.testing.assert_allclose(mean.get_ydata(), [4.1, 3.2, 2.45])
    x, y = fixed.get_data()
    np.testing.assert_allclose(y, laws["E = 0"].predict(x))
    assert x[0] == pytest.approx(250) and x[-1] == pytest.approx(40_000)
    assert line.get_ydata()[0] == 1.5 and line.get_label() == "entropy: 1.5"
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")


def test_accuracies_by_size_are_on_a_linear_axis():
    figure = draw(plots.plot_scaling([10, 100], [0.0, 0.9], label="accuracy"))
    assert figure.axes[0].get_yscale() == "linear"
    assert figure.axes[0].get_ylabel() == "accuracy"


@pytest.mark.parametrize(
    ("sizes", "values", "error", "words"),
    [
        ([1, 2], [1, 2, 3], ValueError, "one row for each size"),
        ([], [], ValueError, "one row for each size"),
        ([0, 2], [1, 2], ValueError, "sizes must be positive"),
        (["a", 2], [1, 2], TypeError, "must be numbers"),
        ([1, 2], [np.nan, 2], ValueError, "values must be numbers"),
    ],
)
def test_wrong_sizes_and_losses_are_named(sizes, values, error, words):
    with pytest.raises(error, match=words):
        plots.plot_scaling(sizes, values)

"""Each recorded value knows the names of its axes, and `at` selects along them."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import layers, tracing
from tests.tracing.test_trace import array, randomize

pytestmark = pytest.mark.once("the axes of a value are the same on every backend")

# Every size is a different prime, so that a wrong axis has a wrong size.
B, T, D, N = 2, 7, 5, 3
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
SIZES = {"rows": B, "steps": T}
STATE = ("rows", "steps", "units", "state")
LINEAR_STATE = ("rows", "heads", "keys", "units")
HEADS = ("rows", "heads", "steps", "units")
QKV = dict.fromkeys(("query", "key", "value", "heads", "alignment"), HEADS)
ATTENTION = {**QKV, "scores": HEADS, "mask": HEADS}
CASES = {  # axes other than ("rows", "steps", "units")
    "mamba": (
        lambda: layers.Mamba(11, alignment_channels=range(N)),
        {"decay": STATE, "written": STATE, "hidden_state": STATE, "alignment": HEADS},
    ),
    "s4d": (
        lambda: layers.S4D(26, alignment_channels=range(N)),
        {"kernel": ("units", "distances"), "alignment": HEADS},
    ),
    "rwkv4": (
        lambda: layers.RWKV4TimeMix(11, alignment_channels=range(N)),
        {"decay": ("units",), "alignment": HEADS},
    ),
    "rwkv7": (
        lambda: layers.RWKV7TimeMix(N, 11),
        {"state": LINEAR_STATE}
        | dict.fromkeys(("receptance", "key", "value", "heads", "alignment"), HEADS)
        | dict.fromkeys(("decay", "rate", "removal_key"), HEADS),
    ),
    "gla": (
        lambda: layers.GatedLinearAttention(N, 11, 13),
        {**QKV, "decay": HEADS, "gate": HEADS, "state": LINEAR_STATE},
    ),
    "delta": (
        lambda: layers.DeltaNet(N, 11, 13),
        {**QKV, "gate": HEADS, "state": LINEAR_STATE}
        | dict.fromkeys(("write", "decay"), HEADS[:3]),
    ),
    "linear": (
        lambda: layers.LinearAttention(N, 11),
        {**QKV, "state": LINEAR_STATE},
    ),
    "min_gru": (lambda: layers.MinGRU(11, return_sequences=True), {}),
    "lstm": (lambda: layers.LSTM(11), {}),
    "wavenet": (lambda: layers.WaveNet(11, dilations=[1, 2]), {}),
    "attention": (lambda: layers.MultiHeadAttention(N, 11), ATTENTION),
}


def called(name, layer):
    return layer(X, X) if name == "attention" else layer(X)


@pytest.mark.parametrize("name", CASES)
def test_at_selects_along_the_named_axes(name):
    make, expected = CASES[name]
    layer = make()
    layer.build(*([X.shape] * (2 if name == "attention" else 1)))
    randomize(layer)
    with tracing.trace(layer) as inside:
        called(name, layer)
    assert expected.keys() <= inside.keys()
    for key, value in inside.items():
        axes = inside.axes(key)
        assert axes == expected.get(key, ("rows", "steps", "units")), key
        for axis in ("rows", "heads", "steps", "units"):
            if key == "state" or (axis == "units" and key == "mask"):
                continue
            half = {key: tracing.at(0.5, **{axis: 1})}
            if axis not in axes:
                match = f"{axis} must not be given for '{key}'.*axes are {axes[0]}"
                with pytest.raises(ValueError, match=match):
                    replaced(name, layer, half)
                continue
            n = axes.index(axis)
            assert value.shape[n] == SIZES.get(axis, value.shape[n])
            new = replaced(name, layer, half)[key]
            wanted = np.asarray(0.5).astype(new.dtype)
            np.testing.assert_array_equal(np.take(new, 1, axis=n), wanted)
            rest = np.delete(new, 1, axis=n)
            assert not np.all(rest == wanted) or value.dtype == bool


def replaced(name, layer, changes):
    with tracing.intervene(layer, changes), tracing.trace(layer) as inside:
        called(name, layer)
    return inside


class Grid(keras.layers.Layer):
    """Records values of four axes, with names or without."""

    def __init__(self, axes):
        super().__init__()
        self.axes = axes

    def call(self, x):
        grid = keras.ops.reshape(x, (B, T, 5, 1))
        return tracing.record(self, "grid", grid, axes=self.axes)


def test_values_of_other_layers():
    unnamed = Grid(None)
    with tracing.trace(unnamed) as inside:
        unnamed(X)
    assert inside.axes("grid") == ("rows", "axis_1", "axis_2", "axis_3")
    changes = {"grid": tracing.at(0.0, steps=3)}
    with (
        pytest.raises(ValueError, match=r"Name the axes where the layer records it"),
        tracing.intervene(unnamed, changes),
    ):
        unnamed(X)
    named = Grid(("rows", "steps", "height", "units"))
    with tracing.intervene(named, changes):
        y = array(named(X))
    np.testing.assert_array_equal(y[:, 3], 0)
    assert np.all(y[:, 2] != 0)
    short = Grid(("rows", "steps"))
    with (
        pytest.raises(ValueError, match="one name for each of the 4 axes of 'grid'"),
        tracing.trace(short),
    ):
        short(X)
    with pytest.raises(KeyError, match="no 'zebra' was recorded"):
        inside.axes("zebra")


def test_step_by_step_has_no_batch_axis_where_there_is_none():
    model = kerasseq.models.SequenceClassifier(
        "rwkv4", 3, vocabulary_size=7, units=4, num_layers=1
    )
    steps = model.step_by_step([4, 6, 1])
    shapes = {key.rpartition("/")[2]: v.shape for key, v in steps.values.items()}
    assert shapes["decay"] == (4,) and shapes["written"] == (3, 4)


def test_gates_are_drawn_over_steps():
    layer = layers.DeltaNet(N, 11, 13, conv_kernel=None)
    with tracing.trace(layer) as inside:
        layer(X)  # its write strength and decay have an axis of heads, not of units
    figure = tracing.plots.plot_gates(inside, tokens="abcdefg")
    labels = [axis.get_ylabel() for axis in figure.axes if axis.images]
    assert any("context" in label for label in labels)
    assert not any("decay" in label or "write" in label for label in labels)

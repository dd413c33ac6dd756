"""Figures of attention: which weight stands where, and the tokens beside it."""

from itertools import combinations, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.transforms import Bbox

from kerasseq.tracing.attention_plots import plot_alignments, plot_attention
from tests.tracing.test_plots import boxes, draw, panels

pytestmark = pytest.mark.once("arguments, messages and files")

B, N, T, S = 2, 5, 3, 7
weights = np.random.default_rng(0).uniform(size=(B, N, T, S)).astype("float32")


def shown(axis):
    return np.asarray(axis.images[0].get_array())


def ticks(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def test_each_head_has_a_map():
    figure = draw(plot_attention(weights, "abcdefg", "xyz", "who looks", example=1))
    maps = panels(figure)
    assert len(maps) == N and figure.get_suptitle() == "who looks"
    for n, axis in enumerate(maps):
        np.testing.assert_array_equal(shown(axis), weights[1, n])
        assert axis.get_title() == f"head {n}"
        assert axis.images[0].get_clim() == (0, weights[1].max())
        assert ticks(axis.xaxis) == list("abcdefg")
        assert ticks(axis.yaxis) == list("xyz")


def test_one_map_has_no_head():
    (axis,) = panels(draw(plot_attention(weights[0, 2])))
    np.testing.assert_array_equal(shown(axis), weights[0, 2])
    assert axis.get_title() == ""
    assert axis.get_xlabel() == "source"
    assert axis.get_ylabel() == "target"


def test_tokens_of_any_script_and_length():
    source = ["مرحبا", "注意力", "a" * 60, "é", "\n", "<end>", "$x_1$"]
    (axis,) = panels(draw(plot_attention(weights[0, 0], source, "abc")))
    names = ticks(axis.xaxis)
    assert len(names) == S and len(names[2]) < 60
    assert names[2].startswith("aa") and names[4] == "⏎" and names[3] == "é"
    assert "注意力" in names[1] or "U+6CE8" in names[1]
    assert axis.xaxis.get_ticklabels()[2].get_rotation() == 90
    assert axis.xaxis.get_ticklabels()[3].get_rotation() == 0


def spread(heads, length):
    """Attention weights that are as small as those of so many places."""
    logits = np.random.default_rng(1).normal(size=(heads, length, length))
    weights = np.exp(logits)
    return (weights / weights.sum(axis=-1, keepdims=True)).astype("float32")


@pytest.mark.parametrize("length", [5, 50, 200])
def test_colors_reach_to_the_largest_weight(length):
    small = spread(2, length)
    for axis in panels(plot_attention(small)):
        assert axis.images[0].get_clim() == (0, small.max())
    for axis in panels(plot_attention(small, vmax=1)):
        assert axis.images[0].get_clim() == (0, 1)
    one = SimpleNamespace(alignment=small[0], source_tokens=None, target_tokens=None)
    (axis,) = panels(plot_alignments([one]))
    assert axis.images[0].get_clim() == (0, small[0].max())
    (axis,) = panels(plot_alignments([one], vmax=0.5))
    assert axis.images[0].get_clim() == (0, 0.5)


def test_colors_where_all_weights_are_zero():
    (axis,) = panels(draw(plot_attention(np.zeros((3, 7)))))
    assert axis.images[0].get_clim() == (0, 1)


@pytest.mark.parametrize(
    ("heads", "length", "written"),
    [(1, 5, 5), (3, 5, 5), (1, 50, 50), (8, 50, 17), (1, 200, 100), (5, 200, 25)],
)
def test_every_letter_is_labeled_while_it_is_legible(heads, length, written):
    letters = [chr(ord("a") + n % 26) for n in range(length)]
    figure = plot_attention(spread(heads, length), letters, letters)
    for axis in panels(figure):
        names = ticks(axis.xaxis)
        assert names == letters[:: -(-length // len(names))]
        assert written * 0.6 < len(names) <= written
        assert len(ticks(axis.yaxis)) >= written * 0.6
    apart(figure)


@pytest.mark.parametrize(
    ("heads", "tokens"), [(1, "Ⅷ注m"), (5, ["internationalization", "a", "mm"])]
)
def test_labels_lie_beside_each_other(heads, tokens):
    some = [tokens[n % len(tokens)] for n in range(40)]
    figure = plot_attention(spread(heads, 40), some, some)
    apart(figure)


def apart(figure):
    """No two labels of an axis overlap, nor those of two maps; each is legible."""
    axes = []
    for panel in panels(figure):
        assert (panel.get_xlabel(), panel.get_ylabel()) == ("source", "target")
        axes += [panel.xaxis, panel.yaxis]
    labels = [axis.get_ticklabels() for axis in axes]
    assert min(label.get_fontsize() for side in labels for label in side) >= 7
    found = iter(boxes(figure, [label for side in labels for label in side]))
    sides = [[next(found) for _ in side] for side in labels]
    for side in sides:
        assert not any(box.overlaps(after) for box, after in pairwise(side))
    for box, after in combinations(map(Bbox.union, sides), 2):
        assert not box.overlaps(after)


def test_alignments_side_by_side():
    some = [
        SimpleNamespace(
            alignment=weights[0, n, :, : n + 2],
            source_tokens="abcdefg"[: n + 2],
            target_tokens="xyz",
        )
        for n in range(N)
    ]
    maps = panels(draw(plot_alignments(some, "five")))
    assert [shown(axis).shape for axis in maps] == [(T, n + 2) for n in range(N)]
    assert ticks(maps[4].xaxis) == list("abcdef")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_attention(np.ones(3)), r"received shape \(3,\)"),
        (lambda: plot_attention(np.ones((0, 3))), r"received shape \(0, 3\)"),
        (
            lambda: plot_attention(weights[0, 0], "ab"),
            "source must have one token for each of 7 .* 2 tokens",
        ),
        (
            lambda: plot_attention(weights[0, 0], None, "ab"),
            "target must have one token for each of 3 .* 2 tokens",
        ),
        (lambda: plot_attention(weights, vmax=0), "vmax must be above 0, received 0"),
        (lambda: plot_alignments([]), "at least one"),
        (
            lambda: plot_alignments([SimpleNamespace(alignment=None)]),
            "a model without attention has none",
        ),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()

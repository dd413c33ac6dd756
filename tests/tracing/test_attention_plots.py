"""Figures of attention: which weight stands where, and the tokens beside it."""

from types import SimpleNamespace

import numpy as np
import pytest

from kerasseq.tracing.attention_plots import plot_alignments, plot_attention
from tests.tracing.test_plots import draw, panels

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
        assert axis.images[0].get_clim() == (0, 1)
        assert ticks(axis.xaxis) == list("abcdefg")
        assert ticks(axis.yaxis) == list("xyz")


def test_one_map_has_no_head():
    (axis,) = panels(draw(plot_attention(weights[0, 2])))
    np.testing.assert_array_equal(shown(axis), weights[0, 2])
    assert axis.get_title() == ""
    assert axis.get_xlabel() == "place in the source"
    assert axis.get_ylabel() == "place in the target"


def test_tokens_of_any_script_and_length():
    source = ["مرحبا", "注意力", "a" * 60, "é", "\n", "<end>", "$x_1$"]
    (axis,) = panels(draw(plot_attention(weights[0, 0], source, "abc")))
    names = ticks(axis.xaxis)
    assert len(names) == S and len(names[2]) < 60
    assert names[2].startswith("aa") and names[4] == "⏎" and names[3] == "é"
    assert "注意力" in names[1] or "U+6CE8" in names[1]
    assert axis.xaxis.get_ticklabels()[2].get_rotation() == 90
    assert axis.xaxis.get_ticklabels()[3].get_rotation() == 0


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
        (lambda: plot_attention(np.ones(3)), r"got shape \(3,\)"),
        (lambda: plot_attention(np.ones((0, 3))), r"got shape \(0, 3\)"),
        (lambda: plot_attention(weights[0, 0], "ab"), "source has 2 tokens, but .* 7"),
        (
            lambda: plot_attention(weights[0, 0], None, "ab"),
            "target has 2 tokens, but .* 3",
        ),
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

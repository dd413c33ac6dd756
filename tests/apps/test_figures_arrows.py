"""Arrows between labeled points."""

import numpy as np
import pytest

from parts import figures_arrows
from parts.style import Style

pytestmark = pytest.mark.once("figures are data")

PAIRS = [("mouse", "mice"), ("goose", "geese")]
POINTS = np.array([[0.5, 1], [2, 3], [-1, 0.25], [5, 7]], "float32")
KEYS = ("from", "to", "x", "y", "word")


def test_each_pair_is_an_arrow_between_its_labeled_points():
    titles = {key: key.title() for key in KEYS}
    chart = figures_arrows.arrows(Style(), PAIRS, POINTS, titles=titles).to_dict()
    _, _, point, _ = chart["layer"]
    shaft, head, ends, labels = (
        chart["datasets"][layer["data"]["name"]] for layer in chart["layer"]
    )
    rows = figures_arrows.table(PAIRS, POINTS)
    assert [[row[k] for k in ("x", "y", "x_to", "y_to")] for row in rows] == (
        POINTS.reshape(2, 4).tolist()
    )
    assert shaft == rows
    for row, at in zip(rows, head, strict=True):
        part = (at["x_at"] - row["x"]) / (row["x_to"] - row["x"])
        other = (at["y_at"] - row["y"]) / (row["y_to"] - row["y"])
        assert part == pytest.approx(other) and 0.5 < part < 1
    assert ends == labels
    assert [end["word"] for end in ends] == ["mouse", "mice", "goose", "geese"]
    assert [[end["x"], end["y"]] for end in ends] == POINTS.tolist()
    shapes, colors = (point["encoding"][k]["scale"] for k in ("shape", "color"))
    assert len({*shapes["range"]}) == len({*colors["range"]}) == 2  # not color alone

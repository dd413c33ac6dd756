"""Matrices with hidden cells and words: their data and colors."""

import json

import numpy as np
import pytest

from parts import figures_matrix, panels
from parts.style import Style

pytestmark = pytest.mark.once("figures are data")

TITLES = {"row": "Query", "column": "Key", "value": "Weight", "word": "Word"}
VALUES = np.array([[0.5, -3.0, 7.0], [1.0, 2.0, 0.0]])
ROWS, COLUMNS = ["a", "b"], ["a", "b", "a"]


def drawn(**options):
    chart = figures_matrix.matrix(
        Style(), VALUES, ROWS, COLUMNS, titles=TITLES, **options
    )
    found = chart.to_dict()
    json.dumps(found, allow_nan=False)  # as a browser reads it
    return found


def layers(chart, kind):
    return [one for one in chart["layer"] if one["mark"]["type"] == kind]


def test_each_cell_is_drawn_and_the_mouse_shows_it():
    chart = drawn()
    (rectangles,) = layers(chart, "rect")
    shown = {tip["field"]: tip["title"] for tip in rectangles["encoding"]["tooltip"]}
    assert shown == {"row": "Query", "column": "Key", "shown": "Weight"}
    assert [(c["i"], c["j"], c["value"]) for c in values(chart)] == [
        (i, j, VALUES[i, j]) for i in range(2) for j in range(3)
    ]
    assert rectangles["encoding"]["color"]["scale"]["domain"] == [-3, 7]


def values(chart):
    (data,) = chart["datasets"].values()
    return data


def test_hidden_cells_are_gray_and_have_no_number():
    hidden = np.array([[False, True, True], [False, False, True]])
    chart = drawn(hidden=hidden, diverging=True)
    filled, masked = layers(chart, "rect")
    assert filled["transform"][0]["filter"] == "datum.value !== null"
    assert masked["transform"][0]["filter"] == "datum.value === null"
    data = values(chart)
    assert [c["value"] is None for c in data] == hidden.ravel().tolist()
    # The ends of the colors are those of the cells that are seen.
    assert filled["encoding"]["color"]["scale"]["domain"] == [-2, 2]


def test_words_are_shortened_to_the_room_of_a_cell():
    names = [str(n) for n in range(20)]
    words = [["exceptional"] * 20]
    chart = figures_matrix.matrix(
        Style(), np.ones((1, 20)), ["x"], names, titles=TITLES, words=words
    ).to_dict()
    (text,) = layers(chart, "text")
    assert text["encoding"]["text"]["field"] == "short"
    cell = values(chart)[0]
    assert cell["short"] == "exce…" and cell["word"] == "exceptional"


def test_a_panel_has_no_axes_and_no_numbers():
    chart = drawn(small=True)
    assert chart["mark"]["type"] == "rect"
    assert chart["encoding"]["x"]["axis"] is None


def test_a_few_large_values_do_not_turn_the_others_pale(monkeypatch):
    drawn_with = {}

    def matrix(style, values, rows, names, **options):
        drawn_with[values.sum()] = options["limits"]

    monkeypatch.setattr(figures_matrix, "matrix", matrix)
    monkeypatch.setattr(panels, "draw", lambda *_: None)
    here = type("Here", (), {"style": Style(), "text": lambda self, key: key})()
    small = np.ones((10, 20))
    small[0, 0] = 100.0
    options = {"diverging": True, "titles": TITLES, "across": 2}
    panels.matrices(here, "x", {"a": small, "b": -small}, list("abcdefghij"), **options)
    assert list(drawn_with.values()) == [(-1.0, 1.0)] * 2

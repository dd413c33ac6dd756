"""Bands over the steps of a sequence: data, labels, ends."""

import numpy as np
import pytest

from parts import figures_steps
from parts.style import Style

pytestmark = pytest.mark.once("figures are data")

TITLES = {key: key for key in ("step", "piece", "quantity", "line", "value")}
VALUES = {
    "gate": {"before": np.array([0.0, 0.5, 1.0]), "after": np.array([1.0, np.nan])},
    "state": {"before": np.array([-3.0, 0.0, 1.5])},
}


def chart(**options):
    found = figures_steps.bands(
        Style(), list("a \n"), VALUES, titles=TITLES, limits={"gate": (0, 1)}, **options
    )
    return found.to_dict()


def rows_of(found, layer=-1):
    data = found["layer"][layer]["data"]
    return data["values"] if "values" in data else found["datasets"][data["name"]]


def test_each_value_is_in_its_band_and_in_the_table():
    rows = rows_of(chart())
    table = figures_steps.table(list("a \n"), VALUES)
    assert [{**row, "level": None} for row in rows] == [
        {**row, "level": None} for row in table
    ]
    assert len(rows) == 3 + 1 + 3  # without what is not a number
    levels = {(r["quantity"], r["line"], r["step"]): r["level"] for r in rows}
    filled = figures_steps.FILLED
    assert levels["gate", "before", 1] == 1  # the first band is the upper one
    assert levels["gate", "before", 3] == 1 + filled
    assert levels["state", "before", 1] == 0
    assert levels["state", "before", 2] == pytest.approx(filled / 2)


def test_labels_are_characters_and_quantities():
    layer = chart()["layer"][-1]["encoding"]
    assert '["", "a", "·", "↵"]' in layer["x"]["axis"]["labelExpr"]
    assert layer["x"]["axis"]["values"] == [1, 2, 3]
    assert '["state", "gate"]' in layer["y"]["axis"]["labelExpr"]


def test_many_steps_have_fewer_labels():
    values = {"gate": {"before": np.linspace(0, 1, 150)}}
    found = figures_steps.bands(Style(), ["a"] * 150, values, titles=TITLES)
    places = found.to_dict()["layer"][-1]["encoding"]["x"]["axis"]["values"]
    assert places == list(range(1, 151, 3))


def test_the_forced_steps_are_shaded():
    plain, shaded = chart(), chart(shaded=(2, 3))
    assert len(shaded["layer"]) == len(plain["layer"]) + 1
    (row,) = rows_of(shaded, 0)
    assert (row["step"], row["end"]) == (1.5, 3.5)


def test_zero_has_a_line():
    found = chart()
    rules = [rows_of(found, layer) for layer in (0, 1)]
    filled = figures_steps.FILLED
    assert [row["level"] for row in rules[1]] == pytest.approx([filled / 2, 1])


def test_values_that_are_all_zero():
    found = figures_steps.bands(
        Style(), ["a"], {"state": {"before": np.zeros(1)}}, titles=TITLES
    )
    assert rows_of(found.to_dict())[0]["level"] == pytest.approx(
        figures_steps.FILLED / 2
    )

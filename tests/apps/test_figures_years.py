"""Published models by year, beside the numbers of a brain."""

import pytest

import kerasseq
from parts import figures_years
from parts.style import Style

pytestmark = pytest.mark.once("figures")

TITLES = {key: key.title() for key in ("model", "kind", "year", "parameters", "paper")}


def test_table_has_each_model_at_the_year_of_its_paper():
    known = kerasseq.models.architectures
    rows = figures_years.table(known)
    assert len(rows) == len(known)
    by_model = {row["model"]: row for row in rows}
    assert by_model["GPT-3"]["year"] == 2020
    assert by_model["GPT-3"]["parameters"] == 175_000_000_000
    for row in rows:
        assert str(row["year"]) in row["paper"]
        assert figures_years.LEAST < row["parameters"] < figures_years.MOST
    assert [row["year"] for row in rows] == sorted(row["year"] for row in rows)


def test_marks_and_lines():
    rows = figures_years.table(kerasseq.models.architectures)
    rules = {"neurons": 86e9, "synapses": 1e14}
    chart = figures_years.sizes(Style(), rows, rules, TITLES).to_dict()
    marks, *lines = chart["layer"]
    assert marks["encoding"]["y"]["scale"]["type"] == "log"
    kinds = {row["kind"] for row in rows}
    assert set(marks["encoding"]["color"]["scale"]["domain"]) == kinds
    assert len(marks["encoding"]["shape"]["scale"]["range"]) >= len(kinds)
    drawn = [line["mark"]["type"] for line in lines]
    assert drawn == ["rule", "text"] * len(rules)

"""Bars of the next token: the fate of each token, and its two probabilities."""

import numpy as np
import pytest

from parts import figures_next
from parts.style import Style

pytestmark = pytest.mark.once("figures")

LABELS = {fate: f"is {fate}" for fate in figures_next.FATES}
TITLES = {key: key.title() for key in ("token", "before", "after", "label")}
STAGES = {
    "model": np.array([0.5, 0.2, 0.2, 0.07, 0.03]),
    "temperature": np.array([0.6, 0.2, 0.15, 0.05, 0.0]),  # rounded to 0
    "top_k": np.array([0.63, 0.21, 0.16, 0.0, 0.0]),
    "min_p": np.array([0.75, 0.25, 0.0, 0.0, 0.0]),
}


def rows():
    return figures_next.table(["a", " ", "\n", "b", "c"], STAGES, LABELS)


def test_the_first_filter_that_removes_a_token_names_its_fate():
    found = figures_next.fates(STAGES)
    assert found == ["kept", "kept", "min_p", "top_k", "kept"]
    assert figures_next.fates({"model": np.array([1.0])}) == ["kept"]
    greedy = {"model": np.array([0.6, 0.4]), "sampler": np.array([1.0, 0.0])}
    assert figures_next.fates(greedy) == ["kept", "sampler"]


@pytest.mark.parametrize("small", [False, True])
def test_bars_before_and_after(small):
    style = Style(language="fr")
    chart = figures_next.bars(style, rows(), titles=TITLES, small=small).to_dict()
    before, after, text = chart["layer"]
    sizes = [each["mark"]["size"] for each in (before, after)]
    assert sizes[0] > 2 * sizes[1]
    assert [each["encoding"]["x"]["field"] for each in (before, after)] == [
        "before",
        "after",
    ]
    color = before["encoding"]["color"]
    assert color["scale"]["domain"] == ["is kept", "is top_k", "is min_p"]
    assert len(set(color["scale"]["range"])) == 3
    assert (color["legend"] is None) == small
    (data,) = chart["datasets"].values()
    digits = "0,20 → 0,25" if small else "0,200 → 0,250"
    assert data[1]["numbers"] == digits
    assert [row["token"] for row in data] == ["a", "·", "↵", "b", "c"]
    assert text["encoding"]["text"]["field"] == "numbers"
    assert max(before["encoding"]["x"]["axis"]["values"]) <= 1
    assert '["a", "·", "↵"' in before["encoding"]["y"]["axis"]["labelExpr"]

"""The tree of a beam search: its data, its colors and its hover."""

import json

import pytest

from parts import figures_tree
from parts.style import Style

pytestmark = pytest.mark.once("figures are data")

NODES = [
    {"step": 1, "rank": 1, "parent": -1, "token": "a", "role": "both"},
    {"step": 1, "rank": 2, "parent": -1, "token": "b", "role": "pruned"},
    {"step": 2, "rank": 2, "parent": 0, "token": "c", "role": "greedy"},
    {"step": 2, "rank": 1, "parent": 0, "token": "d", "role": "best"},
    {"step": 3, "rank": 1, "parent": 3, "token": "<end>", "role": "best"},
]
NODES = [
    {**n, "text": n["token"], "score": -1.5, "finished": n["step"] == 3} for n in NODES
]
TITLES = {k: k.title() for k in ("step", "rank", "token", "text", "score", "role")}
ROLES = {role: role.upper() for role in figures_tree.ROLES}


@pytest.mark.parametrize(("first", "last", "edges"), [(1, 3, 3), (2, 3, 1), (3, 3, 0)])
def test_each_step_has_its_expansions_and_their_lines(first, last, edges):
    chart = figures_tree.beam_tree(
        Style(), NODES, first, last, titles=TITLES, roles=ROLES
    ).to_dict()
    json.dumps(chart, allow_nan=False)  # as a browser reads it
    lines, squares, letters = chart["layer"]
    data = chart["datasets"]
    drawn = [row for row in data[lines["data"]["name"]] if row["x"] is not None]
    assert len(drawn) == edges
    for row in drawn:
        ends = (row["x"], row["y"]), (row["x2"], row["y2"])
        child = next(n for n in NODES if (n["step"], n["rank"]) == ends[1])
        parent = NODES[child["parent"]]
        assert ends[0] == (parent["step"], parent["rank"])
    shown = data[squares["data"]["name"]]
    assert len(shown) == sum(first <= n["step"] <= last for n in NODES)
    assert squares["data"] == letters["data"]
    assert {row["letter"] for row in shown if row["finished"]} == {"∎"}
    tips = {tip["field"]: tip["title"] for tip in squares["encoding"]["tooltip"]}
    assert tips == {k: TITLES[k] for k in ("token", "text", "score", "rank", "role")}


@pytest.mark.parametrize("dark", [False, True])
def test_roles_differ_in_color(dark):
    assert len(set(figures_tree.colors(Style(dark=dark)))) == len(ROLES)

"""The tree of a beam search: expansions by step, the best of each step on top."""

import json
from collections.abc import Sequence
from typing import Any

import altair as alt

from parts.figures import AXIS, LEGEND, finish, inline
from parts.style import Style

ROLES = ("both", "best", "greedy", "kept", "pruned")
ROW = 40  # pixels between two ranks
EDGE = ("x", "y", "x2", "y2", "role")
END = "∎"  # the end of a target, in its square


def colors(style: Style) -> list[str]:
    """Returns the color of each of `ROLES`."""
    best, greedy, both = style.palette[0], style.palette[1], style.palette[2]
    kept, pruned = ("#8a93a3", "#3a404c") if style.dark else ("#9aa3b2", "#e6e9ee")
    return [both, best, greedy, kept, pruned]


def beam_tree(
    style: Style,
    nodes: Sequence[dict[str, Any]],
    first: int,
    last: int,
    *,
    titles: dict[str, str],
    roles: dict[str, str],
) -> Any:
    """Draws the expansions of some steps, each with a line from the one before it.

    Args:
        style: The style.
        nodes: With "step" and "rank" (from 1), "parent" (an index, or -1), "token",
            "text", "score", "role" and "finished".
        first: The first step that is drawn.
        last: The last one.
        titles: Titles of "step", "rank", "token", "text", "score" and "role".
        roles: How the roles are called.
    """
    shown, edges = parts(nodes, first, last)
    shown, edges = (
        [{**r, "role": roles[r["role"]]} for r in x] for x in (shown, edges)
    )
    ranks = max((node["rank"] for node in shown), default=1)
    scale_x = alt.Scale(domain=[first - 0.5, last + 0.5], nice=False)
    axis_x = alt.Axis(tickMinStep=1, format="d", grid=False)
    x = {"title": titles["step"], "scale": scale_x, "axis": axis_x}
    scale_y = alt.Scale(domain=[ranks + 0.6, 0.4], nice=False)  # the best on top
    axis_y = alt.Axis(values=list(range(1, ranks + 1)), format="d", grid=False)
    y = {"title": titles["rank"], "scale": scale_y, "axis": axis_y}
    named = [roles[role] for role in ROLES]
    legend = alt.Legend(title=None, columns=3, symbolType="square", symbolOpacity=1)
    palette = alt.Scale(domain=named, range=colors(style))
    color = alt.Color("role:N", scale=palette, legend=legend, sort=named)
    names = {"token": "N", "text": "N", "score": "Q", "rank": "Q", "role": "N"}
    tooltips = [
        alt.Tooltip(f"{n}:{kind}", title=titles[n]) for n, kind in names.items()
    ]
    lines = (
        alt.Chart(inline(edges or [dict.fromkeys(EDGE, None)]))
        .mark_rule(strokeWidth=2)
        .encode(x=alt.X("x:Q", **x), y=alt.Y("y:Q", **y), x2="x2:Q", y2="y2:Q")
        .encode(color=color)
    )
    base = alt.Chart(inline(shown)).encode(
        x=alt.X("step:Q", **x), y=alt.Y("rank:Q", **y), tooltip=tooltips
    )
    edge = alt.condition(
        "datum.finished", alt.value(style.ink), alt.value("transparent")
    )
    size = (2 * style.font_size) ** 2
    squares = base.mark_square(size=size, opacity=1, strokeWidth=2.5)
    squares = squares.encode(color=color, stroke=edge)
    ink = alt.condition(
        f"datum.role === {json.dumps(roles['pruned'])}",
        alt.value(style.ink),
        alt.value(style.paper),
    )
    letters = base.mark_text(fontSize=style.font_size - 1, baseline="middle")
    letters = letters.encode(text="letter:N", color=ink)
    height = ROW * max(2, ranks) + AXIS + 2 * LEGEND
    return finish(style, alt.layer(lines, squares, letters), height)


def parts(
    nodes: Sequence[dict[str, Any]], first: int, last: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the nodes of some steps, and the lines between them.

    Examples:
        >>> root = {"step": 1, "rank": 1, "parent": -1, "token": "a", "score": -0.5}
        >>> end = {"step": 2, "rank": 3, "parent": 0, "token": "<end>", "score": -0.7}
        >>> both = [{**node, "role": "kept"} for node in (root, end)]
        >>> parts(both, 1, 2)[1]
        [{'x': 1, 'y': 1, 'x2': 2, 'y2': 3, 'role': 'kept'}]
        >>> [node["letter"] for node in parts(both, 2, 2)[0]], parts(both, 2, 2)[1]
        (['∎'], [])
    """
    shown = [
        {
            **node,
            "score": round(node["score"], 4),
            "letter": node["token"] if len(node["token"]) == 1 else END,
        }
        for node in nodes
        if first <= node["step"] <= last
    ]
    edges = []
    for node in shown:
        if node["step"] > first:
            parent = nodes[node["parent"]]
            ends = (parent["step"], parent["rank"], node["step"], node["rank"])
            edges.append(dict(zip(EDGE, (*ends, node["role"]), strict=True)))
    return shown, edges

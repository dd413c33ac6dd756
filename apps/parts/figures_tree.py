"""The tree of a beam search: expansions by step, the best of each step on top."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from parts.figures import AXIS, LEGEND, finish
from parts.style import Style

ROLES = ("both", "best", "greedy", "kept", "pruned")
ROW = 40  # pixels between two ranks


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
    rows = [
        {**node, "score": round(node["score"], 4), "role": roles[node["role"]]}
        for node in nodes
        if first <= node["step"] <= last
    ]
    edges = [
        {
            "x": parent["step"],
            "y": parent["rank"],
            "x2": node["step"],
            "y2": node["rank"],
            "role": roles[node["role"]],
        }
        for node in nodes
        if first < node["step"] <= last
        for parent in [nodes[node["parent"]]]
    ]
    named = [roles[role] for role in ROLES]
    scale = alt.Scale(domain=named, range=colors(style))
    legend = alt.Legend(title=None, columns=3, symbolType="square", symbolOpacity=1)
    color = alt.Color("role:N", scale=scale, legend=legend, sort=named)
    ranks = max((row["rank"] for row in rows), default=1)
    domain = alt.Scale(domain=[first - 0.5, last + 0.5], nice=False)
    axis_x = alt.Axis(tickMinStep=1, format="d", grid=False)
    x = alt.X("step:Q", title=titles["step"], scale=domain, axis=axis_x)
    axis_y = alt.Axis(values=list(range(1, ranks + 1)), format="d", grid=False)
    upside_down = alt.Scale(domain=[ranks + 0.6, 0.4], nice=False)
    y = alt.Y("rank:Q", title=titles["rank"], scale=upside_down, axis=axis_y)
    names = {"token": "N", "text": "N", "score": "Q", "rank": "Q", "role": "N"}
    tooltips = [
        alt.Tooltip(f"{n}:{kind}", title=titles[n]) for n, kind in names.items()
    ]
    lines = (
        alt.Chart(alt.Data(values=edges))
        .mark_rule(strokeWidth=2)
        .encode(
            x=alt.X("x:Q", scale=domain, title=titles["step"]),
            y=alt.Y("y:Q", scale=upside_down, title=titles["rank"]),
            x2="x2:Q",
            y2="y2:Q",
            color=alt.Color("role:N", scale=scale, legend=None),
        )
    )
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, tooltip=tooltips)
    size = 2 * style.font_size
    squares = base.mark_square(size=size**2, opacity=1).encode(
        color=color,
        stroke=alt.condition(
            "datum.finished", alt.value(style.ink), alt.value("transparent")
        ),
        strokeWidth=alt.value(2.5),
    )
    faint = f"datum.role === '{roles['pruned']}'"
    letters = base.mark_text(fontSize=style.font_size - 1, baseline="middle").encode(
        text=alt.Text("short:N"),
        color=alt.condition(faint, alt.value(style.ink), alt.value(style.paper)),
    )
    letters = letters.transform_calculate(
        short="length(datum.token) > 1 ? '∎' : datum.token"
    )
    height = ROW * max(2, ranks) + AXIS + 2 * LEGEND
    return finish(style, alt.layer(lines, squares, letters), height)

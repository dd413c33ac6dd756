"""Pairs of labeled points in the plane with an arrow from the first to the second."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from parts import figures
from parts.style import Style

HEIGHT = 460
SHAPES = ("circle", "square")  # of the first and the second point of a pair
# Degrees from upward on the screen, where the scales of the two axes differ.
ANGLE = (
    "atan2(scale('x', datum.x_to) - scale('x', datum.x), "
    "scale('y', datum.y) - scale('y', datum.y_to)) * 180 / PI"
)


def table(
    pairs: Sequence[tuple[str, str]], points: np.ndarray
) -> list[dict[str, str | float]]:
    """Returns a row for each pair.

    Args:
        pairs: The labels of the two points of each pair.
        points: `(2 * pairs, 2)`, the two points of each pair in turn.

    Examples:
        >>> table([("cat", "cats")], np.array([[0, 1], [2, 3]]))[0]["x_to"]
        2.0
    """
    ends = np.asarray(points, float).reshape(len(pairs), 4).tolist()
    names = ("x", "y", "x_to", "y_to")
    return [
        {"from": first, "to": second, **dict(zip(names, row, strict=True))}
        for (first, second), row in zip(pairs, ends, strict=True)
    ]


def arrows(
    style: Style,
    pairs: Sequence[tuple[str, str]],
    points: np.ndarray,
    *,
    titles: dict[str, str],
) -> Any:
    """Draws arrows between labeled points.

    Args:
        style: The style.
        pairs: The labels of the two points of each pair.
        points: `(2 * pairs, 2)`, the two points of each pair in turn.
        titles: Titles of "x" and "y", and of "from" and "to", the ends.
    """
    rows = table(pairs, points)
    ends = [
        {"word": row[end], "end": titles[end], "x": row[x], "y": row[y]}
        for row in rows
        for end, x, y in (("from", "x", "y"), ("to", "x_to", "y_to"))
    ]
    gray = "#8a8a8a"
    shaft = alt.Chart(figures.inline(rows)).mark_rule(color=gray, strokeWidth=1.5)
    shaft = shaft.encode(x=_axis("x", titles), y=_axis("y", titles))
    shaft = shaft.encode(x2="x_to:Q", y2="y_to:Q")
    middle = [
        {**row, "x_at": (row["x"] + 2 * row["x_to"]) / 3}
        | {"y_at": (row["y"] + 2 * row["y_to"]) / 3}
        for row in rows
    ]
    head = alt.Chart(figures.inline(middle)).mark_point(
        shape="triangle", size=200, filled=True, color=gray, angle=alt.expr(ANGLE)
    )
    head = head.encode(x="x_at:Q", y="y_at:Q")
    shown = [titles["from"], titles["to"]]
    color = alt.Scale(domain=shown, range=list(style.palette[:2]))
    shape = alt.Scale(domain=shown, range=list(SHAPES))
    base = alt.Chart(figures.inline(ends)).encode(x="x:Q", y="y:Q")
    point = base.mark_point(filled=True, size=90, opacity=1).encode(
        color=alt.Color("end:N", scale=color, title=None, sort=shown),
        shape=alt.Shape("end:N", scale=shape, title=None, sort=shown),
        tooltip=[
            alt.Tooltip("word:N", title=titles["word"]),
            *(alt.Tooltip(f"{c}:Q", title=titles[c], format=".3f") for c in "xy"),
        ],
    )
    label = base.mark_text(dy=-13, color=style.ink, fontSize=style.font_size)
    label = label.encode(text="word:N")
    return figures.finish(style, alt.layer(shaft, head, point, label), HEIGHT)


def _axis(name, titles):
    """An axis with some room for labels at its ends."""
    channel = {"x": alt.X, "y": alt.Y}[name]
    scale = alt.Scale(zero=False, padding=40)
    return channel(f"{name}:Q", title=titles[name], scale=scale)

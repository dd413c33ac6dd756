"""Values over the steps of a sequence, one band above the other."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from parts.figures import AXIS, DASHES, LEGEND, colors, finish, inline
from parts.strips import NEWLINE, SPACE
from parts.style import Style

BAND, FILLED = 58, 0.76  # pixels of a band, and the part of it that values fill
ALONE = 130  # pixels of a single band
LABELED = 64  # steps up to which each one has its label
Bands = Mapping[str, Mapping[str, np.ndarray]]


def bands(
    style: Style,
    pieces: Sequence[str],
    values: Bands,
    *,
    titles: Mapping[str, str],
    limits: Mapping[str, tuple[float, float]] | None = None,
    shaded: tuple[int, int] | None = None,
) -> Any:
    """Draws a band for each quantity, with a line for each of several networks.

    Args:
        style: The style.
        pieces: The text of each step: the labels of the horizontal axis.
        values: By quantity and name of a line, an array with a value for each step, or
            the first ones.
        titles: Titles of "step", "piece", "quantity", "line" and "value".
        limits: The ends of the band of a quantity; if it has none, those that are
            symmetric around 0 and hold all values.
        shaded: The first and the last of the steps with a colored background, from 1.
    """
    limits = {name: _limits(lines, limits, name) for name, lines in values.items()}
    rows = table(pieces, values)
    names, lines = list(values), list(dict.fromkeys(row["line"] for row in rows))
    for row in rows:
        low, high = limits[row["quantity"]]
        share = FILLED * (row["value"] - low) / (high - low)
        row["level"] = len(names) - 1 - names.index(row["quantity"]) + share
    x = _x(style, pieces, titles["step"])
    y = _y(names)
    palette = alt.Scale(domain=lines, range=colors(style, lines))
    dashes = alt.Scale(domain=lines, range=[DASHES[n % 7] for n in range(len(lines))])
    legend = alt.Legend(title=None) if len(lines) > 1 else None
    marks = alt.Chart(inline(rows)).encode(
        x=x,
        y=y,
        detail="quantity:N",
        color=alt.Color("line:N", scale=palette, legend=legend, sort=lines),
        tooltip=[
            alt.Tooltip(f"{key}:{kind}", title=titles[key], **more)
            for key, kind, more in (
                ("step", "Q", {}),
                ("piece", "N", {}),
                ("quantity", "N", {}),
                ("line", "N", {}),
                ("value", "Q", {"format": ".4~f"}),
            )
        ],
    )
    dash = alt.StrokeDash("line:N", scale=dashes, legend=legend, sort=lines)
    layers = [
        *_background(style, names, limits, shaded, x, y),
        marks.mark_line(
            strokeWidth=2.5,
            point={"filled": True, "size": 90 if len(pieces) <= LABELED else 30},
        ).encode(strokeDash=dash),
    ]
    height = max(BAND * len(names), ALONE) + AXIS + LEGEND * (len(lines) > 1)
    return finish(style, alt.layer(*layers), height)


def table(pieces: Sequence[str], values: Bands) -> list[dict[str, Any]]:
    """Returns a row for each value.

    Examples:
        >>> table(["a"], {"gate": {"before": np.array([0.5])}})[0]["value"]
        0.5
    """
    return [
        {
            "step": step,
            "piece": shown(pieces[step - 1]),
            "quantity": name,
            "line": line,
            "value": float(value),
        }
        for name, lines in values.items()
        for line, array in lines.items()
        for step, value in enumerate(array, 1)
        if np.isfinite(value)
    ]


def shown(piece: str) -> str:
    """Returns a piece of text with marks for a space and the end of a line.

    Examples:
        >>> shown(" ")
        '·'
    """
    return piece.replace(" ", SPACE).replace("\n", NEWLINE)


def _limits(lines, limits, name):
    if limits and name in limits:
        return limits[name]
    found = np.concatenate([np.ravel(array) for array in lines.values()])
    peak = float(np.abs(found[np.isfinite(found)]).max(initial=0)) or 1.0
    return -peak, peak


def _x(style, pieces, title):
    steps = len(pieces)
    every = 1 if steps <= LABELED else -(-steps // LABELED)
    labels = json.dumps(["", *map(shown, pieces)], ensure_ascii=False)
    axis = alt.Axis(
        values=list(range(1, steps + 1, every)),
        labelExpr=f"{labels}[datum.value]",
        labelAngle=0,
        labelFontSize=style.font_size if steps <= 40 else style.font_size - 3,
        labelOverlap=True,
        grid=False,
        ticks=False,
    )
    scale = alt.Scale(domain=[0.5, steps + 0.5], nice=False)
    return alt.X("step:Q", title=title, scale=scale, axis=axis)


def _y(names):
    middles = [n + FILLED / 2 for n in range(len(names))]
    labels = json.dumps(names[::-1], ensure_ascii=False)
    axis = alt.Axis(
        values=middles,
        labelExpr=f"{labels}[floor(datum.value)]",
        grid=False,
        ticks=False,
        domain=False,
    )
    scale = alt.Scale(domain=[-0.1, len(names) - 0.1], nice=False, zero=False)
    return alt.Y("level:Q", title=None, scale=scale, axis=axis)


def _background(style, names, limits, shaded, x, y):
    """The shaded steps, and in each band lines at its ends and, darker, at 0."""
    found = []
    if shaded:
        ends = {"step": shaded[0] - 0.5, "end": shaded[1] + 0.5}
        rows = [{**ends, "level": -0.1, "top": len(names) - 0.1}]
        area = alt.Chart(inline(rows)).mark_rect(color=style.palette[1], opacity=0.16)
        found.append(area.encode(x=x, x2="end:Q", y=y, y2="top:Q"))
    for opacity, places in ((0.25, (0.0, 1.0)), (0.7, None)):
        levels = []
        for n, name in enumerate(reversed(names)):
            low, high = limits[name]
            for place in places or (-low / (high - low),):
                levels.append({"level": n + FILLED * place})
        rules = alt.Chart(inline(levels)).mark_rule(color="#8a8a8a", opacity=opacity)
        found.append(rules.encode(y=y))
    return found

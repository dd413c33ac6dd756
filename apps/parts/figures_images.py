"""Figures of images: pixels, patches, and weights of the patches over the image."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from parts.figures import finish, frame
from parts.style import DIVERGING, Style

BELOW = 20  # screen pixels that Streamlit leaves free below a figure
STRONG = 0.9  # opacity of the largest weight
ORANGE = "#ff7f0e"
INK, PALE = "#1f2430", "#9aa3b2"  # under weights ink is pale, so that both are seen


def pixels(image: np.ndarray) -> list[dict[str, Any]]:
    """Returns a row for each pixel of an image of gray levels of 255, ink high.

    Examples:
        >>> pixels(np.array([[0, 255]]))[1]
        {'row': 1, 'column': 2, 'gray': 255}
    """
    return [
        {"row": i + 1, "column": j + 1, "gray": int(value)}
        for (i, j), value in np.ndenumerate(image)
    ]


def patches(
    size: int, columns: int, weights: Sequence[float], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns a row for each patch.

    Args:
        size: Side of a patch in pixels.
        columns: Patches in a row of patches.
        weights: The weight of each, row by row.
        names: The name of each.

    Examples:
        >>> patches(2, 1, [0.25, 0.75], ["1", "2"])[1]
        {'patch': '2', 'x': 0, 'y': 2, 'weight': 0.75}
    """
    return [
        {
            "patch": name,
            "x": n % columns * size,
            "y": n // columns * size,
            "weight": round(float(weight), 6),
        }
        for n, (name, weight) in enumerate(zip(names, weights, strict=True))
    ]


def image(
    style: Style,
    values: np.ndarray,
    parts: Sequence[dict[str, Any]] = (),
    *,
    size: int = 1,
    side: int = 150,
    peak: float | None = None,
    marked: str = "",
    titles: dict[str, str],
) -> Any:
    """Draws an image as ink on paper, and its patches over it.

    Args:
        style: The style.
        values: Gray levels of 255, ink high, `(height, width)`.
        parts: Patches, from `patches`.
        size: Side of a patch in pixels.
        side: Width and height of the figure in pixels.
        peak: The weight with the strongest color; if None patches are only framed, and
            their names are written.
        marked: The name of a patch with a thick frame.
        titles: Titles of "row", "column", "gray", "patch" and "weight".
    """
    darkest = INK if peak is None else PALE
    ink = alt.Scale(domain=[0, 255], range=["#ffffff", darkest])
    layers = [
        _squares(pixels(values), values.shape, 1, "datum.column - 1", "datum.row - 1")
        .mark_rect()
        .encode(
            color=alt.Color("gray:Q", scale=ink, legend=None),
            tooltip=_tooltip(titles, "row", "column", "gray"),
        )
    ]
    if parts:
        drawn = _squares(list(parts), values.shape, size, "datum.x", "datum.y")
        layers += _overlay(style, drawn, peak, marked, titles)
    return _square(style, alt.layer(*layers), side, len(values))


def moved(
    style: Style, values: np.ndarray, *, side: int = 150, titles: dict[str, str]
) -> Any:
    """Draws how much each pixel moved a score: orange for it, blue against it.

    Args:
        style: The style.
        values: `(height, width)`.
        side: Width and height of the figure in pixels.
        titles: Titles of "row", "column" and "weight".
    """
    peak = float(np.abs(values).max()) or 1.0
    rows = [
        {"row": i + 1, "column": j + 1, "weight": round(float(value), 6)}
        for (i, j), value in np.ndenumerate(values)
    ]
    scale = alt.Scale(scheme=DIVERGING, domain=[-peak, peak])
    base = _squares(rows, values.shape, 1, "datum.column - 1", "datum.row - 1")
    chart = base.mark_rect().encode(
        color=alt.Color("weight:Q", scale=scale, legend=None),
        tooltip=_tooltip(titles, "row", "column", "weight"),
    )
    return _square(style, chart, side, len(values))


def _squares(rows, shape, size, x, y):
    """A chart whose squares of some size begin at the expressions x and y."""
    height, width = shape
    base = alt.Chart(frame(rows)).transform_calculate(
        left=x, right=f"{x} + {size}", top=y, bottom=f"{y} + {size}"
    )
    scale = {"nice": False, "zero": False}
    return base.encode(
        x=alt.X("left:Q", scale=alt.Scale(domain=[0, width], **scale), axis=None),
        x2="right:Q",
        y=alt.Y("top:Q", scale=alt.Scale(domain=[height, 0], **scale), axis=None),
        y2="bottom:Q",
    )


def _overlay(style, drawn, peak, marked, titles):
    """Frames of the patches with their names, or colors for their weights."""
    is_marked = f"datum.patch === '{marked}'"
    frame_of = alt.condition(is_marked, alt.value(4), alt.value(1))
    color_of = alt.condition(is_marked, alt.value("#d62728"), alt.value("#8a8a8a"))
    keys = ("patch",) if peak is None else ("patch", "weight")
    squares = drawn.mark_rect(fill=ORANGE).encode(
        stroke=color_of, strokeWidth=frame_of, tooltip=_tooltip(titles, *keys)
    )
    if peak is not None:
        scale = alt.Scale(domain=[0, peak or 1.0], range=[0, STRONG], clamp=True)
        opacity = alt.FillOpacity("weight:Q", scale=scale, legend=None)
        return [squares.encode(fillOpacity=opacity)]
    name = drawn.mark_text(
        align="left", baseline="top", dx=3, dy=3, fontSize=style.font_size - 3
    )
    name = name.encode(text="patch:N", color=alt.value("#d9480f"))
    return [squares.encode(fillOpacity=alt.value(0)), name]


def _tooltip(titles, *keys):
    return [
        alt.Tooltip(
            f"{key}:{'N' if key == 'patch' else 'Q'}",
            title=titles[key],
            format=".3~f" if key == "weight" else alt.Undefined,
        )
        for key in keys
    ]


def _square(style, chart, side, rows):
    """Sets the size: whole screen pixels for each pixel, or lines show between them."""
    side = rows * round(side * (1.25 if style.projector else 1) / rows)
    return finish(style, chart.properties(width=side, height=side + BELOW), None)

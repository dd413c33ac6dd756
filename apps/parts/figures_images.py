"""Figures of images: pixels, patches, and weights of the patches over the image.

They are plain specifications of Vega-Lite, since Altair takes a tenth of a second to
check each, and a page has twenty.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from parts import figures
from parts.style import DIVERGING, Style

Spec = dict[str, Any]

BELOW = 20  # screen pixels that Streamlit leaves free below a figure
STRONG = 0.9  # opacity of the largest weight
ORANGE, RED, GRAY = "#ff7f0e", "#d62728", "#8a8a8a"
PAPER, INK = "#ffffff", "#1f2430"
PALE = "#9aa3b2"  # ink under weights, so that both are seen


def pixels(image: np.ndarray, name: str = "gray") -> list[dict[str, Any]]:
    """Returns a row for each pixel.

    Args:
        image: `(height, width)`.
        name: What its values are called.

    Examples:
        >>> pixels(np.array([[0, 255]]))[1]
        {'row': 1, 'column': 2, 'gray': 255}
    """
    return [
        {"row": i + 1, "column": j + 1, name: round(value, 6)}
        for i, row in enumerate(image.tolist())
        for j, value in enumerate(row)
    ]


def patches(size: int, columns: int, weights: Sequence[float]) -> list[dict[str, Any]]:
    """Returns a row for each patch, numbered from 1, row by row.

    Args:
        size: Side of a patch in pixels.
        columns: Patches in a row of patches.
        weights: The weight of each.

    Examples:
        >>> patches(2, 1, [0.25, 0.75])[1]
        {'patch': '2', 'row': 3, 'column': 1, 'weight': 0.75}
    """
    return [
        {
            "patch": str(n + 1),
            "row": n // columns * size + 1,
            "column": n % columns * size + 1,
            "weight": round(float(weight), 6),
        }
        for n, weight in enumerate(weights)
    ]


def image(
    style: Style,
    values: np.ndarray,
    parts: Sequence[dict[str, Any]] = (),
    *,
    size: int = 1,
    side: int = 152,
    peak: float | None = None,
    marked: str = "",
    titles: dict[str, str],
) -> Spec:
    """Draws an image as ink on paper, and its patches over it.

    Args:
        style: The style.
        values: Gray levels of 255, ink high, `(height, width)`.
        parts: Patches, from `patches`.
        size: Side of a patch in pixels.
        side: Width and height of the figure in screen pixels.
        peak: The weight with the strongest color; if None patches are only framed, and
            their numbers are written.
        marked: The number of a patch with a thick frame.
        titles: Titles of "row", "column", "gray", "patch" and "weight".
    """
    range_of = [PAPER, INK if peak is None else PALE]
    scale = {"domain": [0, 255], "range": range_of, "interpolate": "rgb"}
    color = {"field": "gray", "type": "quantitative", "scale": scale, "legend": None}
    rows = pixels(values)
    layers = [_squares(rows, values, 1, titles, "row column gray", color=color)]
    if parts:
        layers += _overlay(style, parts, values, size, peak, marked, titles)
    return _square(style, layers, side, len(values))


def moved(
    style: Style, values: np.ndarray, *, side: int = 152, titles: dict[str, str]
) -> Spec:
    """Draws how much each pixel moved a score: orange for it, blue against it.

    Args:
        style: The style.
        values: `(height, width)`.
        side: Width and height of the figure in screen pixels.
        titles: Titles of "row", "column" and "moved".
    """
    peak = float(np.abs(values).max()) or 1.0
    scale = {"scheme": DIVERGING, "domain": [-peak, peak]}
    color = {"field": "moved", "type": "quantitative", "scale": scale, "legend": None}
    rows = pixels(values, "moved")
    layer = _squares(rows, values, 1, titles, "row column moved", color=color)
    return _square(style, [layer], side, len(values))


def _squares(rows, values, size, titles, shown, **encoding):
    """A layer with a square for each row."""
    height, width = values.shape
    placed = [
        {**row, "x": row["column"] - 1, "x2": row["column"] - 1 + size}
        | {"y": row["row"] - 1, "y2": row["row"] - 1 + size}
        for row in rows
    ]
    across = {"domain": [0, width], "nice": False}
    down = {"domain": [height, 0], "nice": False}
    number = {"type": "quantitative", "axis": None}
    encoding |= {
        "x": {"field": "x", "scale": across, **number},
        "x2": {"field": "x2"},
        "y": {"field": "y", "scale": down, **number},
        "y2": {"field": "y2"},
        "tooltip": [_tooltip(key, titles[key]) for key in shown.split()],
    }
    return {"data": {"values": placed}, "mark": {"type": "rect"}, "encoding": encoding}


def _tooltip(key, title):
    if key == "patch":
        return {"field": key, "type": "nominal", "title": title}
    shown = {"format": ".3~f"} if key in ("weight", "moved") else {}
    return {"field": key, "type": "quantitative", "title": title, **shown}


def _overlay(style, parts, values, size, peak, marked, titles):
    """Frames of the patches with their numbers, or colors for their weights."""
    test = f"datum.patch === '{marked}'"
    strong = {"condition": {"test": test, "value": RED}, "value": GRAY}
    thick = {"condition": {"test": test, "value": 4}, "value": 1}
    shown = "patch" if peak is None else "patch weight"
    if peak is None:
        opacity = {"value": 0}
    else:
        scale = {"domain": [0, peak or 1.0], "range": [0, STRONG], "clamp": True}
        opacity = {"field": "weight", "type": "quantitative", "scale": scale}
        opacity["legend"] = None
    options = {"stroke": strong, "strokeWidth": thick, "fillOpacity": opacity}
    squares = _squares(parts, values, size, titles, shown, **options)
    squares["mark"]["fill"] = ORANGE
    if peak is not None:
        return [squares]
    names = _squares(parts, values, size, titles, shown, color={"value": "#d9480f"})
    names["mark"] = {"type": "text", "align": "left", "baseline": "top"}
    names["mark"] |= {"dx": 3, "dy": 3, "fontSize": style.font_size - 3}
    names["encoding"] |= {"text": {"field": "patch", "type": "nominal"}}
    del names["encoding"]["x2"], names["encoding"]["y2"]
    return [squares, names]


def _square(style, layers, side, rows):
    """A figure of whole screen pixels for each pixel, without lines between them."""
    side = rows * round(side * (1.25 if style.projector else 1) / rows)
    resolve = {"scale": {"color": "independent"}}
    size = {"width": side, "height": side + BELOW}
    return {
        **size,
        "layer": layers,
        "resolve": resolve,
        "config": figures.config(style),
    }

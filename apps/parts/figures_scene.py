"""Figures of colored pictures, with a square for the weight of each patch.

They are plain specifications of Vega-Lite, as those of `figures_images`.
"""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from parts import figures
from parts.figures_images import BELOW, GRAY, ORANGE
from parts.style import Style

Spec = dict[str, Any]

BLUE, PAPER = "#4da3ff", "#ffffff"
SIDE = 184  # screen pixels
LARGEST = 0.94  # side of the square of the largest weight, where a patch is 1


def png(image: np.ndarray, scale: int = 8) -> str:
    """Returns a picture as the address of a PNG that holds it.

    Args:
        image: uint8 `(height, width, 3)`.
        scale: Screen pixels of a pixel.
    """
    large, file = image.repeat(scale, axis=0).repeat(scale, axis=1), io.BytesIO()
    Image.fromarray(large).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def picture(
    style: Style,
    image: np.ndarray,
    parts: Sequence[dict[str, Any]] = (),
    *,
    across: int = 1,
    peak: float = 1.0,
    boxes: Sequence[Sequence[int]] = (),
    titles: dict[str, str],
    side: int = SIDE,
) -> Spec:
    """Draws a picture; on each patch a square, whose area is its weight.

    Positive weights are orange, negative ones blue.

    Args:
        style: The style.
        image: uint8 `(height, width, 3)`.
        parts: Patches, from `figures_images.patches` with size 1.
        across: Patches in a row of patches.
        peak: The weight whose square fills the patch.
        boxes: First column, first row, and column and row behind the last, of parts
            with a dashed frame.
        titles: Titles of "patch" and "weight".
        side: Width and height of the figure in screen pixels.
    """
    pixels = len(image)
    side = pixels * round(side * (1.25 if style.projector else 1) / pixels)
    size = pixels / across
    rows = []
    for part in parts:
        half = LARGEST * size / 2 * min(1.0, abs(part["weight"]) / (peak or 1.0)) ** 0.5
        x, y = (part["column"] - 0.5) * size, (part["row"] - 0.5) * size
        rows.append(
            part | {"x": x - half, "x2": x + half, "y": y - half, "y2": y + half}
        )
    whole = {"url": png(image), "x": 0, "y": 0}
    mark = {"type": "image", "width": side, "height": side, "aspect": False}
    mark |= {"align": "left", "baseline": "top"}
    layers = [_layer([whole], mark, pixels, url={"field": "url", "type": "nominal"})]
    if parts:
        color = {"condition": {"test": "datum.weight < 0", "value": BLUE}}
        tooltip = [
            {"field": "patch", "type": "nominal", "title": titles["patch"]},
            {
                **{"field": "weight", "type": "quantitative"},
                **{"title": titles["weight"], "format": ".3~f"},
            },
        ]
        mark = {"type": "rect", "stroke": PAPER, "strokeWidth": 1, "opacity": 0.9}
        color["value"] = ORANGE
        layers.append(_layer(rows, mark, pixels, fill=color, tooltip=tooltip))
    if len(boxes):
        frames = [
            dict(zip(("x", "y", "x2", "y2"), map(int, b), strict=True)) for b in boxes
        ]
        mark = {"type": "rect", "fillOpacity": 0, "stroke": PAPER}
        mark |= {"strokeWidth": 2, "strokeDash": [4, 3], "fill": GRAY}
        layers.append(_layer(frames, mark, pixels))
    return {
        "width": side,
        "height": side + BELOW,
        "layer": layers,
        "config": figures.config(style),
    }


def _layer(rows, mark, pixels, **encoding):
    """A layer whose rows are placed by the pixels of the picture."""
    across = {"domain": [0, pixels], "nice": False}
    down = {"domain": [pixels, 0], "nice": False}
    number = {"type": "quantitative", "axis": None}
    encoding |= {
        "x": {"field": "x", "scale": across, **number},
        "y": {"field": "y", "scale": down, **number},
    }
    if mark["type"] == "rect":
        encoding |= {"x2": {"field": "x2"}, "y2": {"field": "y2"}}
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}

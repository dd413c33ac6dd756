"""What the lab Vision draws for an image: patches, attention, roll-out, decision."""

from typing import Any

import numpy as np

from parts import figures, figures_images, panels

ACROSS = 4


def titles(here: Any, *names: str) -> dict[str, str]:
    """Returns headings by key."""
    return {name: here.text(f"title_{name}") for name in names}


def decision(
    here: Any, probabilities: dict[str, float], best: int | None = None
) -> None:
    """Draws the most probable label, and the probabilities as bars.

    Args:
        here: The lab.
        probabilities: By label.
        best: How many of them, the highest first; all in their order if None.
    """
    order = sorted(probabilities, key=probabilities.get, reverse=True)
    highest = here.write(probabilities[order[0]], 2)
    here.facts(("decided", order[0]), ("probability", highest))
    shown = list(probabilities) if best is None else order[:best]
    rows = [{"label": k, "probability": probabilities[k]} for k in shown]
    headings = titles(here, "label", "probability")
    options = {"titles": headings, "format": ".2f", "range_value": (0, 1.12)}
    chart = figures.bars(here.style, rows, "probability", "label", **options)
    here.picture("probabilities", chart, rows, headings)


def patches(here: Any, image: np.ndarray, size: int, marked: str) -> None:
    """Draws the image in pixels, and cut into patches."""
    count = (len(image) // size) ** 2
    headings = titles(here, "row", "column", "gray", "patch", "weight")
    parts = figures_images.patches(size, len(image) // size, [0.0] * count)
    options = {"side": 240, "titles": headings}
    charts = {
        here.text("pixels"): figures_images.image(here.style, image, **options),
        here.text("cut", count=count): figures_images.image(
            here.style, image, parts, size=size, marked=marked, **options
        ),
    }
    rows = []
    for row in figures_images.pixels(image):
        above, left = (row["row"] - 1) // size, (row["column"] - 1) // size
        rows.append({"patch": above * (len(image) // size) + left + 1, **row})
    headings = {key: headings[key] for key in ("patch", "row", "column", "gray")}
    panels.draw(here, "patches", charts, rows, headings, 2, "content")


def attention(here: Any, image: np.ndarray, found: dict[str, Any], token: int) -> None:
    """Draws the weights of a query in each layer and head over the image."""
    named = {
        here.text("layer_head", layer=n + 1, head=m + 1): weights
        for n, layer in enumerate(found["weights"])
        for m, weights in enumerate(layer)
    }
    _overlays(here, "attention", image, named, found["size"], token, ACROSS)


def rollout(here: Any, image: np.ndarray, found: dict[str, Any], token: int) -> None:
    """Draws the share of each patch in a query after each layer."""
    named = {
        here.text("after_layer", layer=n + 1): weights
        for n, weights in enumerate(found["rollout"])
    }
    _overlays(here, "rollout", image, named, found["size"], token, ACROSS)


def _overlays(here, name, image, named, size, token, across):
    """Draws weights over tokens; that of the class token stands in the title."""
    headings = titles(here, "row", "column", "gray", "patch", "weight")
    columns = len(image) // size
    peak = float(max(weights[1:].max() for weights in named.values()))
    options = {"size": size, "peak": peak, "titles": headings}
    options["marked"] = str(token) if token else ""
    charts, rows = {}, []
    for title, weights in named.items():
        parts = figures_images.patches(size, columns, weights[1:])
        share = here.text("of_class", weight=here.write(float(weights[0]), 2))
        charts[f"{title} · {share}"] = figures_images.image(
            here.style, image, parts, **options
        )
        first = {"patch": here.text("class_token"), "weight": float(weights[0])}
        rows += [{"panel": title, **row} for row in (first, *parts)]
    keys = {"panel": here.text("title_panel")} | titles(here, "patch", "weight")
    panels.draw(here, name, charts, rows, keys, across, "content")


def moved(here: Any, values: np.ndarray) -> None:
    """Draws which pixels moved the decision."""
    headings = titles(here, "row", "column", "moved")
    chart = figures_images.moved(here.style, values, side=240, titles=headings)
    rows = figures_images.pixels(values, "moved")
    panels.draw(
        here,
        "moved_pixels",
        {here.text("gradient"): chart},
        rows,
        headings,
        1,
        "content",
    )

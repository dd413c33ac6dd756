"""Figures of images: squares where the pixels are, patches and weights over them."""

import json

import altair as alt
import numpy as np
import pytest

from parts import figures_images, panels
from parts.style import Style

pytestmark = pytest.mark.once("figures are data")

TITLES = {name: name.title() for name in ("row", "column", "gray", "patch", "weight")}
TITLES["moved"] = "Moved"
IMAGE = np.array([[0, 255, 16], [32, 64, 128]])


def checked(spec):
    """A specification that a browser can read."""
    json.dumps(spec, allow_nan=False)
    alt.Chart.from_dict(spec)  # raises if it is not one of Vega-Lite
    return spec["layer"]


def test_each_pixel_is_a_square():
    (layer,) = checked(figures_images.image(Style(), IMAGE, titles=TITLES))
    rows = layer["data"]["values"]
    assert [(r["x"], r["x2"], r["y"], r["y2"], r["gray"]) for r in rows] == [
        (j, j + 1, i, i + 1, IMAGE[i, j]) for i in range(2) for j in range(3)
    ]
    assert layer["encoding"]["x"]["scale"]["domain"] == [0, 3]
    assert layer["encoding"]["y"]["scale"]["domain"] == [2, 0]  # downwards
    assert layer["encoding"]["color"]["scale"]["range"] == ["#ffffff", "#1f2430"]


def test_patches_lie_over_their_pixels_with_their_weights():
    parts = figures_images.patches(2, 2, [0.1, 0.2, 0.3, 0.4])
    image = np.zeros((4, 4), "uint8")
    options = {"size": 2, "titles": TITLES}
    spec = figures_images.image(Style(), image, parts, peak=0.4, marked="3", **options)
    _, layer = checked(spec)
    third = layer["data"]["values"][2]
    assert (third["x"], third["x2"], third["y"], third["y2"]) == (0, 2, 2, 4)
    assert (third["patch"], third["weight"]) == ("3", 0.3)
    assert layer["encoding"]["fillOpacity"]["scale"]["domain"] == [0, 0.4]
    assert "'3'" in layer["encoding"]["stroke"]["condition"]["test"]
    framed = checked(figures_images.image(Style(), image, parts, **options))
    assert [one["mark"]["type"] for one in framed] == ["rect", "rect", "text"]
    assert framed[1]["encoding"]["fillOpacity"] == {"value": 0}


def test_colors_of_what_moved_a_score_are_even_around_0():
    values = np.array([[0.5, -2.0], [0.0, 1.0]])
    (layer,) = checked(figures_images.moved(Style(), values, titles=TITLES))
    assert layer["encoding"]["color"]["scale"]["domain"] == [-2, 2]
    assert [row["moved"] for row in layer["data"]["values"]] == [0.5, -2, 0, 1]
    nothing = figures_images.moved(Style(), 0 * values, titles=TITLES)
    assert checked(nothing)[0]["encoding"]["color"]["scale"]["domain"] == [-1, 1]


@pytest.mark.parametrize("projector", [False, True])
def test_a_pixel_has_whole_pixels_of_the_screen(projector):
    style = Style(projector=projector)
    spec = figures_images.image(style, np.zeros((8, 8)), titles=TITLES)
    assert spec["width"] % 8 == 0
    assert spec["height"] - figures_images.BELOW == spec["width"]
    assert (spec["width"] > 160) == projector


def test_panels_take_plain_figures(monkeypatch):
    class Place:
        drawn = []

        def caption(self, title):
            self.drawn.append(title)

        def vega_lite_chart(self, spec, **options):
            self.drawn.append(spec["width"])

        def altair_chart(self, chart, **options):
            self.drawn.append(type(chart).__name__)

    class Here:
        def text(self, key):
            return key

        def has(self, key):
            return False

    monkeypatch.setattr(panels.st, "columns", lambda across: [Place()] * across)
    monkeypatch.setattr(panels.tables, "draw", lambda *_: None)
    plain = figures_images.image(Style(), IMAGE, side=30, titles=TITLES)
    panels.draw(Here(), "x", {"a": plain, "b": alt.Chart()}, [], None, 2, "content")
    assert Place.drawn == ["a", 30, "b", "Chart"]

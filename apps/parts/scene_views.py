"""What the views of the lab Pictures share: a scene, and pictures with weights."""

import numpy as np
import streamlit as st

from labs.code import pictures as code
from parts import figures_images, figures_scene, panels, scenes
from parts.errors import Refused

NOISE = (0.0, 0.05, 0.1, 0.2, 0.3)
GRID = code.SIDE // code.PATCH  # patches in a row
ACROSS = 4  # figures side by side


def titles(here, *names):
    """Returns the titles of columns by their names."""
    return {name: here.text(f"title_{name}") for name in names}


def percent(here, share, digits=0):
    """Returns a share as text."""
    return here.text("percent", value=here.write(100 * float(share), digits))


def scene(here, objects):
    """Draws the controls of a scene.

    Args:
        here: The lab.
        objects: How many shapes it has at first.

    Returns:
        The scene with "looks" and "where", and the values for the code.
    """

    def of(name):
        return lambda option: here.text(f"{name}_{option}")

    with here.controls():
        count = here.choice("objects", (1, 2), objects, wide=True)
        color = here.choice("color", scenes.COLORS)
        shape = here.choice("shape", scenes.SHAPES, "cross")
        if count == 1:
            looks = ((color, shape, here.choice("size", scenes.SIZES, "large")),)
            where = here.choice("place", scenes.PLACES, "top left")
        else:
            where = here.choice("relation", scenes.RELATIONS, "above")
            second = here.choice(
                "second_color", scenes.COLORS, "blue", labels=of("color")
            )
            other = here.choice(
                "second_shape", scenes.SHAPES, "square", labels=of("shape")
            )
            looks = (color, shape, "medium"), (second, other, "medium")
        seed = here.number("seed", 0, 99, 0)
        noise = here.steps("noise", NOISE, 0.0)
    if count == 2 and looks[0] == looks[1]:
        raise Refused("equal_shapes")
    found = here.compute(scenes.shown, looks, where, seed, noise)
    colors, shapes, sizes = zip(*looks, strict=True)
    values = {"colors": colors, "shapes": shapes, "sizes": sizes, "where": where}
    values |= {"seed": seed, "noise": noise, "language": here.language}
    return found | {"looks": looks, "where": where}, values


def map_titles(here):
    """Returns what the mouse shows of a patch."""
    return titles(here, "patch", "weight")


def maps(here, name, shown, found, boxes, together=True):
    """Draws a picture several times, with the weights of its patches.

    Args:
        here: The lab.
        name: The key of the title.
        shown: The picture.
        found: Titles and the weights of the patches, in order.
        boxes: For each the boxes that are framed.
        together: Whether squares of all have one scale.
    """
    peaks = [float(np.abs(weights).max()) for _, weights in found]
    charts, rows = {}, []
    for n, (title, weights) in enumerate(found):
        parts = figures_images.patches(1, GRID, weights)
        options = {"across": GRID, "titles": map_titles(here), "boxes": boxes[n]}
        options["peak"] = max(peaks) if together else peaks[n]
        title = f"{n + 1} · {title}"  # a word can come twice
        charts[title] = figures_scene.picture(here.style, shown, parts, **options)
        rows += [
            {
                "word": title,
                "patch": part["patch"],
                "patch_row": part["row"],
                "patch_column": part["column"],
                "weight": part["weight"],
            }
            for part in parts
        ]
    columns = titles(here, "word", "patch", "patch_row", "patch_column", "weight")
    panels.draw(here, name, charts, rows, columns, ACROSS, "content")


def picture(here, image):
    """Draws a scene."""
    chart = figures_scene.picture(here.style, image, titles=map_titles(here), side=240)
    st.markdown(f"**{here.text('the_scene')}**")
    st.vega_lite_chart(chart, width="content", theme="streamlit")


def rates(here, name):
    """Returns what a network reaches on scenes of one shape and of two, in percent."""
    found = scenes.quality()
    keys = {"one": f"{name}_1_{here.language}", "two": f"{name}_2_{here.language}"}
    return {words: here.write(100 * found[key], 1) for words, key in keys.items()}

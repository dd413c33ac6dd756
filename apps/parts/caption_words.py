"""What the lab Pictures draws for a caption that is written word by word."""

from typing import Any

import numpy as np

from labs.code import pictures as code
from parts import figures, scene_views, scenes
from parts.scene_views import percent, titles

LAYERS = code.SIZES["num_layers"]
HEADS = code.SIZES["num_heads"]
LONGEST = 90  # characters of a caption


def draw(here: Any) -> None:
    """Draws where a network attends to while it writes each word."""
    found, values = scene_views.scene(here, 2)
    text = here.line("caption", "", LONGEST)
    text = scenes.plain(text) if text else ""
    with here.controls():
        layer = here.choice("layer", range(LAYERS + 1), labels=_numbered(here, "layer"))
        head = here.choice("head", range(HEADS + 1), labels=_numbered(here, "head"))
    shown = {**values, "caption": text or None, "layer": layer, "head": head}
    here.code(code.source("words"), **shown)
    looks, image = found["looks"], found["image"]
    written = here.compute(scenes.described, image, here.language)
    truth = scenes.caption(looks, found["where"], here.language)
    inverse = scenes.changed(looks, found["where"]).get("inverse")
    true = {truth, *([scenes.caption(*inverse, here.language)] if inverse else [])}
    here.facts(
        ("written", written or "∅"),
        ("is_true", here.text("yes" if written in true else "no")),
    )
    named = scenes.quality()[f"named_2_{here.language}"]
    rates = scene_views.rates(here, "exact") | {"named": here.write(100 * named, 1)}
    here.say("trained_words", **rates)
    read = here.compute(scenes.read, image, here.language, text or written)
    pieces, p = read["words"], read["p"].tolist()
    here.strip(
        "p_of_words",
        pieces,
        [{"word": w, "p": round(x, 4)} for w, x in zip(pieces, p, strict=True)],
        titles(here, "word", "p"),
        values=p,
        limits=(0, 1),
        titles=[here.write(x, 3) for x in p],
    )
    weights = _chosen(read["weights"], layer, head)  # (words, patches)
    of_shape = scenes.shapes_of(pieces, looks, here.language)
    boxes = [() if k is None else (found["boxes"][k].tolist(),) for k in of_shape]
    _shares(here, pieces, weights, of_shape, found["boxes"])
    titled = [
        (f"{word} · {percent(here, each.sum())}", each)
        for word, each in zip(pieces, weights, strict=True)
    ]
    scene_views.maps(here, "maps", image, titled, boxes)


def _numbered(here, name):
    """Returns a function that names a layer or head, 0 for the mean of all."""
    return lambda n: here.text(f"one_{name}", number=n) if n else here.text("mean_of")


def _chosen(weights, layer, head):
    """Returns the attention of a layer and a head, each 0 for the mean of all."""
    weights = weights[layer - 1] if layer else weights.mean(axis=0)
    return weights[head - 1] if head else weights.mean(axis=0)


def _shares(here, pieces, weights, of_shape, boxes):
    """Draws how much of the attention of a word is on the shape that it names."""
    rows, by = [], {}
    for word, each, k in zip(pieces, weights, of_shape, strict=True):
        if k is None:
            continue
        inside = code.touches(boxes[k])
        name = f"{len(rows) // 2 + 1} · {word}"
        for which, share in (
            ("attention", each[inside].sum() / each.sum()),
            ("uniform", inside.mean()),
        ):
            rows.append(
                {"word": name, "which": here.text(which), "share": float(share)}
            )
            by.setdefault(which, []).append(float(share))
    if not rows:
        here.say("names_no_shape")
        return
    here.facts(
        ("attention", percent(here, np.mean(by["attention"]))),
        ("uniform", percent(here, np.mean(by["uniform"]))),
    )
    columns = titles(here, "word", "which", "share")
    options = {"titles": columns, "by": "which", "range_value": (0, 1)}
    chart = figures.bars(here.style, rows, "share", "word", **options)
    here.picture("share_on_shape", chart, rows, columns)

"""Lab 19, Pictures and words: which words belong to which patches, and back."""

import numpy as np
import streamlit as st

from labs.code import pictures as code
from parts import (
    caption_words,
    figures,
    figures_scene,
    lab,
    panels,
    scene_views,
    scenes,
)
from parts.scene_views import map_titles, percent, titles

QUICK = code.QUICK
EQUATIONS = {
    "match": (
        r"\cos(a, b) = \sum_p \sum_w"
        r" \frac{(W_a h_p) \cdot (W_b h_w)}{P \, |a|\; T\, |b|}, \qquad"
        r" p_j = \frac{e^{\,t \cos(a, b_j)}}{\sum_k e^{\,t \cos(a, b_k)}}",
    ),
    "batch": (
        r"L_{\mathrm{softmax}} = -\frac{1}{2 B} \sum_i \Big( \log \frac{e^{s_{ii}}}"
        r"{\sum_j e^{s_{ij}}} + \log \frac{e^{s_{ii}}}{\sum_j e^{s_{ji}}} \Big),"
        r" \qquad s_{ij} = t\, a_i \cdot b_j",
        r"L_{\mathrm{sigmoid}} = -\frac{1}{B} \sum_i \sum_j"
        r" \log \sigma\big(y_{ij}\, (s_{ij} + \beta)\big), \qquad"
        r" y_{ij} = [\,i = j\,] - [\,i \ne j\,]",
    ),
    "words": (
        r"\alpha_{w p} = \frac{e^{\,q_w \cdot k_p / \sqrt{d}}}"
        r"{\sum_{j} e^{\,q_w \cdot k_j / \sqrt{d}}}, \qquad"
        r" \mathrm{share}_w = \frac{\sum_{p \in \mathrm{shape}} \alpha_{w p}}"
        r"{\sum_p \alpha_{w p}}",
    ),
}
TRIES = (
    {"objects": "2"},
    {"text": "cross red large"},
    {"noise": "0.3"},
    {"view": "batch", "scale": "1"},
    {"view": "batch", "kind": "sigmoid"},
    {"view": "words", "layer": "1"},
    {"view": "words", "layer": "2", "head": "3"},
    {"view": "words", "seed": "1"},
)
LONGEST = caption_words.LONGEST
SCALES = (1, 2, 5, 10, 20, 50, 100)


def match(here):
    """Draws how near a scene is to captions, and what words and patches add."""
    found, values = scene_views.scene(here, 1)
    text = here.line("text", "", LONGEST)
    looks, where = found["looks"], found["where"]
    captions = {"true": scenes.caption(looks, where, here.language)}
    for name, (new, place) in scenes.changed(looks, where).items():
        captions[name] = scenes.caption(new, place, here.language)
    if text:
        captions["own"] = scenes.plain(text)
    which = here.choice("which", list(captions), width=300)
    chosen = captions[which]
    shown = {**values, "captions": list(captions.values()), "caption": chosen}
    here.code(code.source("match"), **shown)
    texts = list(captions.values())
    compared = here.compute(scenes.matched, found["image"][None], texts, here.language)
    (cosines,), scale = compared["cosines"], compared["scale"]
    p = np.exp(code.log_softmax(scale * cosines))
    order = np.argsort(-cosines)
    best = list(captions)[order[0]]
    here.facts(
        ("nearest", here.text(f"which_{best}")),
        ("p_of_it", percent(here, p[order[0]], 1)),
        ("learned_scale", here.write(scale, 1)),
    )
    counts = {
        f"{words}_count": here.write(
            int(scenes.quality()[f"captions_{n}_{here.language}"])
        )
        for n, words in ((1, "one"), (2, "two"))
    }
    here.say("trained_match", **scene_views.rates(here, "image"), **counts)
    names = list(captions.items())
    rows = [
        {
            "caption": names[n][1],
            "what": here.text(f"which_{names[n][0]}"),
            "cosine": round(float(cosines[n]), 4),
            "p": round(float(p[n]), 4),
        }
        for n in order
    ]
    columns = titles(here, "caption", "what", "cosine", "p")
    low = min(0.0, float(cosines.min()) * 1.2)
    options = {"titles": columns, "format": ".2f", "range_value": (low, 1.15)}
    chart = figures.bars(here.style, rows, "cosine", "caption", **options)
    left, right = st.columns([1, 2], gap="large")
    with left:
        scene_views.picture(here, found["image"])
    with right:
        here.picture("nearness", chart, rows, columns)
    st.markdown(f"**{here.text('compared')}**")
    here.table(rows, columns)
    parts(here, found, chosen)


def parts(here, found, caption):
    """Draws what words and patches have to do with a cosine, in two ways."""
    made = here.compute(scenes.added, found["image"], caption, here.language)
    added, words = made["parts"], made["words"]
    columns = titles(here, "word", "adds")
    of_words = [float(value) for value in added.sum(axis=0)]
    here.strip(
        "adds",
        words,
        [
            {"word": word, "adds": round(value, 4)}
            for word, value in zip(words, of_words, strict=True)
        ],
        columns,
        values=of_words,
        titles=[here.write(value, 3) for value in of_words],
        diverging=True,
    )
    here.say("sum_of_parts", sum=here.write(float(added.sum()), 3))
    on = np.any([code.touches(box) for box in found["boxes"]], axis=0)
    both = {"adds": added.sum(axis=1), "falls": made["fall"]}
    shares = {name: abs(x[on]).sum() / abs(x).sum() for name, x in both.items()}
    here.facts(
        ("adds_on_shape", percent(here, shares["adds"])),
        ("falls_on_shape", percent(here, shares["falls"])),
        ("uniform", percent(here, on.mean())),
    )
    named = [(here.text(f"patch_{name}"), x) for name, x in both.items()]
    scene_views.maps(
        here, "two_ways", found["image"], named, [found["boxes"].tolist()] * 2, False
    )


def batch(here):
    """Draws the scores of six scenes and six captions, and both losses."""
    with here.controls():
        kind = here.choice("kind", ("softmax", "sigmoid"), wide=True)
        scale = here.steps("scale", SCALES, 10)
        bias = here.slider("bias", -20, 0, -10) if kind == "sigmoid" else -10
        seed = here.number("batch", 0, 999, 0)
    values = {"scale": scale, "kind": kind, "bias": bias, "seed": 500_000 + seed}
    here.code(code.source("batch"), **values, language=here.language)
    found = here.compute(scenes.several, seed, here.language)
    pairs = found["images"], found["texts"], here.language
    compared = here.compute(scenes.matched, *pairs)
    cosines, learned = compared["cosines"], compared["scale"]
    loss = code.loss(cosines, scale, kind, bias)
    at_best = code.loss(cosines, learned, "softmax")
    here.facts(
        ("loss_here", here.write(float(loss), 3)),
        ("same_vector", here.write(float(np.log(len(cosines))), 3)),
        ("learned_scale", here.write(learned, 1)),
        ("loss_learned", here.write(float(at_best), 3)),
    )
    charts = {
        f"{n + 1} · {text}": figures_scene.picture(
            here.style, image, titles=map_titles(here), side=120
        )
        for n, (image, text) in enumerate(
            zip(found["images"], found["texts"], strict=True)
        )
    }
    rows = [{"row": n + 1, "caption": text} for n, text in enumerate(found["texts"])]
    columns = titles(here, "row", "caption")
    panels.draw(here, "scenes_of_batch", charts, rows, columns, 6, "content")
    s = scale * cosines
    if kind == "softmax":
        p = np.exp(code.log_softmax(s))
    else:
        p = 1 / (1 + np.exp(-(s + bias)))
    numbers = [str(n + 1) for n in range(len(cosines))]
    headings = titles(here, "row", "column", "value")
    found = {here.text("cosines"): cosines, here.text(f"p_{kind}"): p}
    options = {"titles": headings, "across": 2, "limits": (0, 1)}
    panels.matrices(here, "pairs", found, numbers, numbers, **options)
    curve(here, cosines, kind, scale, bias)


def curve(here, cosines, kind, scale, bias):
    """Draws the loss by the factor of the cosines."""
    rows = [
        {
            "scale": round(float(t), 3),
            "loss": round(float(code.loss(cosines, t, kind, bias)), 4),
            "name": here.text(f"kind_{kind}"),
        }
        for t in np.geomspace(1, 100, 41)
    ]
    columns = titles(here, "scale", "loss")
    options = {"titles": {**columns, "name": ""}, "log_x": 10, "at": scale}
    if kind == "softmax":
        options["rules"] = {"ln 6": float(np.log(len(cosines)))}
    chart = figures.lines(here.style, rows, "scale", "loss", "name", **options)
    here.picture("loss_by_scale", chart, rows, columns)


def body(here):
    """Draws one of the three views."""
    {"match": match, "batch": batch, "words": caption_words.draw}[here.view](here)


if __name__ == "__main__":
    lab.show("pictures", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES)

"""Word vectors in the lab Tokens: nearest words, analogies, and the plural."""

import difflib
import pathlib
from typing import Any

import streamlit as st

from labs.code import word_vectors as code
from parts import figures, figures_arrows, panels, work
from parts.errors import Refused

RECIPE = "tokens_vectors"
PARTS = ("nearest", "analogy", "plural")
EQUATIONS = {
    "nearest": r"\cos(v, w) = \frac{v \cdot w}{\lVert v \rVert \, \lVert w \rVert}",
    "analogy": r"\hat d = \arg\max_{d \notin \{a, b, c\}} \cos(d,\; b - a + c)",
    "plural": r"r \propto \frac{1}{n} \sum_{i=1}^{n} (p_i - s_i)",
}
COUNT = 10  # nearest words
FEW = 5  # in each of two figures side by side
DRAWN = ("mouse", "horse", "goose", "tree", "book", "city", "tooth")
LEAST, MOST = 2, 12  # pairs that are drawn; the others give the direction


def find(model: Any, word: str) -> str:
    """Returns a word as the model writes it.

    Raises:
        Refused: If the word is unknown, with similar words.
    """
    word = word.strip()
    found = word.lower() if model.lowercase else word
    if not found:
        raise Refused("no_word")
    if found in model:
        return found
    near = difflib.get_close_matches(found, model.words, 3, 0.5) or model.words[:3]
    raise Refused("new_word", word=word, near=", ".join(near))


def nearest(folder: pathlib.Path, word: str) -> tuple[str, list[dict[str, Any]]]:
    """Returns the word as it was found, and the words nearest to it."""
    model = work.model(folder)
    word = find(model, word)
    return word, [each._asdict() for each in model.nearest(word, COUNT)]


def analogy(folder: pathlib.Path, *words: str) -> dict[str, Any]:
    """Answers an analogy: a is to b as c is to what.

    Returns:
        The `words` as they were found; the best `answers`; and the words `beside`,
        which are nearest to c alone.
    """
    model = work.model(folder)
    a, b, c = found = [find(model, word) for word in words]
    answers = model.analogy(a, b, c, FEW)
    beside = model.nearest(c, FEW, exclude=(a, b))
    return {
        "words": found,
        "answers": [each._asdict() for each in answers],
        "beside": [each._asdict() for each in beside],
    }


def pairs(folder: pathlib.Path) -> list[tuple[str, str]]:
    """Returns the pairs of singular and plural that the model knows."""
    from kerasseq import datasets

    model = work.model(folder)
    asked = datasets.analogies(1).questions["plural"]
    known = dict.fromkeys((a, b) for a, b, *_ in asked if a in model and b in model)
    return list(known)


def plural(
    folder: pathlib.Path,
    shown: list[tuple[str, str]],
    others: list[tuple[str, str]],
) -> dict[str, Any]:
    """Returns pairs in the plane, and along the direction of the other pairs.

    Returns:
        `points`, `(2 * shown, 2)`, and `along`, `(2 * shown,)`: the singular and the
        plural of each pair in turn.
    """
    model = work.model(folder)
    words = [word for pair in shown for word in pair]
    direction = model.direction(others)
    return {
        "points": model.projection(words).points,
        "along": model.along(direction, words),
    }


def draw(here: Any) -> None:
    """Draws one of the three parts."""
    folder = here.prepared(RECIPE)
    part = here.choice("part", PARTS, wide=True)
    st.latex(EQUATIONS[part])
    here.say(f"part_{part}_about")
    drawn = {"nearest": draw_nearest, "analogy": draw_analogy, "plural": draw_plural}
    template = getattr(code, part.upper())
    values = drawn[part](here, folder)
    here.code(template, model_file=here.trained(RECIPE), **values)


def draw_nearest(here: Any, folder: pathlib.Path) -> dict[str, Any]:
    """Draws the words nearest to a word; returns the values of the code."""
    with here.controls():
        word = here.line("word", "king", most=40)
    word, rows = here.compute(nearest, folder, word)
    titles = {"word": here.text("neighbor"), "similarity": here.text("similarity")}
    here.picture("neighbors", bars(here, rows, titles), rows, titles)
    return {"word": word, "count": COUNT}


def bars(here: Any, rows: list[dict[str, Any]], titles: dict[str, str]) -> Any:
    """Draws words with their cosines, on an axis that is the same for all words."""
    low = min(0.0, *(row["similarity"] for row in rows))
    options = {"format": ".2f", "range_value": (low, 1.15)}
    return figures.bars(
        here.style, rows, "similarity", "word", titles=titles, **options
    )


def draw_analogy(here: Any, folder: pathlib.Path) -> dict[str, Any]:
    """Draws the answers of an analogy beside the words nearest to its third word."""
    with here.controls():
        asked = [
            here.line("first", "man", most=40),
            here.line("second", "woman", most=40),
            here.line("third", "king", most=40),
        ]
    found = here.compute(analogy, folder, *asked)
    a, b, c = found["words"]
    here.facts(
        ("answers", found["answers"][0]["word"]),
        ("beside", found["beside"][0]["word"]),
    )
    titles = {"word": here.text("neighbor"), "similarity": here.text("similarity")}
    charts, rows = {}, []
    for key in ("answers", "beside"):
        name = f"{b} − {a} + {c}" if key == "answers" else c
        title = here.text(f"{key}_to", name=name)
        charts[title] = bars(here, found[key], titles)
        rows += [{"panel": title, **row} for row in found[key]]
    panels.draw(
        here, "two_ways", charts, rows, {"panel": here.text("panel"), **titles}, 2
    )
    return {"a": a, "b": b, "c": c, "count": FEW}


def draw_plural(here: Any, folder: pathlib.Path) -> dict[str, Any]:
    """Draws pairs of singular and plural in the plane, and along their direction."""
    known = dict(here.compute(pairs, folder))
    drawn = [word for word in DRAWN if word in known]
    labels = {first: f"{first} → {second}" for first, second in known.items()}
    with here.controls():
        chosen = here.several("plurals", list(known), drawn, labels=labels, most=MOST)
    if len(chosen) < LEAST:
        raise Refused("few_pairs", least=LEAST)
    shown = [(word, known[word]) for word in chosen]
    others = [pair for pair in known.items() if pair[0] not in chosen]
    found = here.compute(plural, folder, shown, others)
    here.say("from_others", count=len(others))
    keys = ("from", "to", "x", "y", "x_to", "y_to", "word")
    titles = {key: here.text(f"arrow_{key}") for key in keys}
    chart = figures_arrows.arrows(here.style, shown, found["points"], titles=titles)
    rows = figures_arrows.table(shown, found["points"])
    here.picture("plane", chart, rows, {key: titles[key] for key in keys[:-1]})
    along = iter(found["along"].tolist())
    rows = [
        {"pair": labels[pair[0]], "number": titles[end], "along": next(along)}
        for pair in shown
        for end in ("from", "to")
    ]
    titles = {key: here.text(f"title_{key}") for key in rows[0]}
    peak = 1.1 * max(abs(row["along"]) for row in rows)
    options = {"titles": titles, "by": "number", "range_value": (-peak, peak)}
    chart = figures.bars(here.style, rows, "along", "pair", **options)
    here.picture("direction", chart, rows, titles)
    return {"shown": shown, "others": others}

"""CTC by hand: all paths of a small table that read as a label, and their sum."""

from typing import Any

import numpy as np
import streamlit as st

from labs.code import speech as code
from parts import figures, figures_matrix
from parts.errors import Refused

BLANK = "∅"
SYMBOLS = ("A", "B", BLANK)
TABLE = "0.4 0.1 0.5\n0.5 0.2 0.3\n0.2 0.3 0.5\n0.1 0.6 0.3"
FRAMES = 5  # at most, in the table
SHOWN = 12  # paths, and texts


def ctc_loss(y: np.ndarray, label: list[int]) -> float:
    """Returns the loss of kerasseq for probabilities `(frames, symbols)`."""
    import keras

    from kerasseq import training

    with np.errstate(divide="ignore"):
        scores = np.maximum(np.log(y), -50)[None].astype("float32")
    loss = training.CTC()(np.array([label], "int32").reshape(1, -1), scores)
    return float(keras.ops.convert_to_numpy(loss))


def texts_of(y: np.ndarray) -> list[tuple[list[int], float]]:
    """Returns all texts with their probabilities, the most probable first."""
    blank, found = y.shape[1] - 1, {}
    for path in np.ndindex(*(len(y) * [y.shape[1]])):
        text = tuple(code.collapse(path, blank))
        found[text] = found.get(text, 0.0) + float(np.prod(y[range(len(y)), path]))
    return sorted(((list(k), p) for k, p in found.items()), key=lambda each: -each[1])


def _titles(here, *names):
    """Returns the titles of columns by their names."""
    return {name: here.text(f"title_{name}") for name in names}


def table_of(text: str) -> np.ndarray:
    """Returns a table of probabilities, of which each row sums to 1.

    Raises:
        Refused: If it is none.
    """
    rows = [row.replace(",", ".").split() for row in text.splitlines() if row.split()]
    try:
        y = np.array(rows, "float64")
    except ValueError:
        raise Refused("no_table", most=FRAMES) from None
    is_table = y.ndim == 2 and y.shape[1] == len(SYMBOLS) and len(y) <= FRAMES
    if not is_table or not (np.isfinite(y) & (y >= 0)).all() or not y.sum(1).all():
        raise Refused("no_table", most=FRAMES)
    return y / y.sum(axis=1, keepdims=True)


def draw(here: Any) -> None:
    """Draws all paths that read as a label, and their sum frame by frame."""
    with here.controls():
        label = here.line("label", "AB", FRAMES).upper().strip()
        table = here.passage("table", TABLE, 300, rows=FRAMES)
    if set(label) - set(SYMBOLS[:-1]):
        raise Refused("wrong_label", label=label)
    y, ids = table_of(table), [SYMBOLS.index(letter) for letter in label]
    shown = {"symbols": "AB-", "label": ids, "table": y.round(6).tolist()}
    here.code(code.source("paths"), **shown)
    found = code.paths_of(y, ids)
    alpha = code.forward(y, ids)
    total = sum(p for _, p in found)
    loss = here.compute(ctc_loss, y, ids)
    here.facts(
        ("of_all", f"{here.write(len(found))} / {here.write(y.shape[1] ** len(y))}"),
        ("sum", here.write(total, 5)),
        ("by_hand", here.write(-np.log(total), 5) if total else "∞"),
        ("by_layer", here.write(loss, 5) if np.isfinite(loss) else "∞"),
    )
    if not found:
        here.say("does_not_fit")
    rows = [
        {
            "path": "".join(SYMBOLS[k] for k in path),
            "product": " · ".join(
                here.write(float(y[t, k]), 2) for t, k in enumerate(path)
            ),
            "p": here.write(p, 5),
        }
        for path, p in found[:SHOWN]
    ]
    st.markdown(f"**{here.text('all_paths')}**")
    here.say("all_paths_about", shown=len(rows), count=len(found))
    if rows:
        here.table(rows, _titles(here, "path", "product", "p"))
    _by_frames(here, alpha, ids)
    _texts(here, y)


def _by_frames(here, alpha, ids):
    """Draws the sums over the beginnings of paths, up to a frame."""
    places = [BLANK]
    for k in ids:
        places += [SYMBOLS[k], BLANK]
    with here.controls():
        frame = here.stepper("frame", 1, alpha.shape[1], alpha.shape[1])
    hidden = np.broadcast_to(np.arange(alpha.shape[1]) >= frame, alpha.shape)
    names = [f"{n}  {place}" for n, place in enumerate(places, 1)]
    columns = [str(t + 1) for t in range(alpha.shape[1])]
    axes = _titles(here, "place", "frame", "alpha")
    axes = {"row": axes["place"], "column": axes["frame"], "value": axes["alpha"]}
    axes["hidden"] = here.text("later")
    options = {"titles": axes, "hidden": hidden, "limits": (0, float(alpha.max()) or 1)}
    chart = figures_matrix.matrix(here.style, alpha, names, columns, **options)
    cells = figures_matrix.cells(alpha, names, columns, hidden)
    kept = [cell for cell in cells if cell["value"] is not None]
    heads = {"row": axes["row"], "column": axes["column"], "value": axes["value"]}
    here.picture("alphas", chart, kept, heads)


def _texts(here, y):
    """Draws the probabilities of all texts, and what the best path reads as."""
    found = texts_of(y)
    path = y.argmax(axis=1)
    read = "".join(SYMBOLS[k] for k in code.collapse(path.tolist(), y.shape[1] - 1))
    best = "".join(SYMBOLS[k] for k in found[0][0])
    here.say("greedy", path="".join(SYMBOLS[k] for k in path), read=read or BLANK)
    rows = [
        {"text": "".join(SYMBOLS[k] for k in ids) or BLANK, "p": p}
        for ids, p in found[:SHOWN]
    ]
    columns = _titles(here, "text", "p")
    chart = figures.bars(here.style, rows, "p", "text", titles=columns, format=".3f")
    here.picture("all_texts", chart, rows, columns)
    here.say("agree" if read == best else "differ", best=best or BLANK)

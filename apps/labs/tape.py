"""Lab 5, Tape: a neural Turing machine copies vectors, on a tape that it writes."""

import numpy as np

from labs.code import tape as code
from parts import figures_matrix, lab, panels, tapes

EQUATIONS = (  # short lines, for a phone
    r"w^c_i = \mathrm{softmax}_i\big(\beta \cos(k, M_i)\big)",
    r"w^g = g\, w^c + (1 - g)\, w_{t-1}",
    r"w_i \propto \Big(\sum_j s_j\, w^g_{i-j}\Big)^{\gamma} \qquad "
    r"r = \sum_i w_i M_i",
    r"M_i \leftarrow M_i \odot (1 - w_i e) + w_i a",
)
TRIES = (
    {"length": "20"},
    {"length": "33"},
    {"pattern": "stairs", "length": "20"},
    {"length": "10", "step": "11"},
)
LONGEST = 40


def body(here):
    """Draws the page."""
    with here.controls():
        pattern = here.choice("pattern", tapes.PATTERNS, wide=True)
        length = here.slider("length", 1, LONGEST, 10)
        seed = here.number("seed", 0, 9999, 3)
    here.code(code.COPY, length=length, seed=seed)
    found = here.compute(tapes.copied, pattern, length, seed)
    right = (found["written"] > 0.5) == found["wanted"]
    count = here.text("of_bits", right=right.sum(), bits=right.size)
    here.facts(("right", count), ("longest", str(tapes.TRAINED)))
    if length > tapes.PLACES:
        here.say("too_long", places=tapes.PLACES)
    bits(here, found, right)
    addressing(here, found, length)
    tape(here, found, length)


def titles(here, row, column, value):
    """Returns the titles of the axes and of the colors of a matrix."""
    keys = {"row": row, "column": column, "value": value}
    return {name: here.text(f"of_{key}") for name, key in keys.items()}


def bits(here, found, right):
    """Draws what was to be copied, what was written, and where it is wrong."""
    values = {"wanted": found["wanted"], "written": found["written"], "wrong": ~right}
    panels.matrices(
        here,
        "bits",
        {here.text(name): part.T.astype(float) for name, part in values.items()},
        [str(bit + 1) for bit in range(tapes.BITS)],
        titles=titles(here, "bit", "vector", "value"),
        limits=(0.0, 1.0),
        small=True,
    )


def addressing(here, found, length):
    """Draws the places that the heads address, step by step."""
    heads = {here.text(name): found[name].T for name in tapes.HEADS}
    panels.matrices(
        here,
        "addressing",
        heads,
        [str(place + 1) for place in range(tapes.PLACES)],
        titles=titles(here, "place", "step", "weight"),
        across=2,
        limits=(0.0, 1.0),
        small=True,
    )
    here.say("addressing_read", first=length + 2, last=2 * length + 1)


def tape(here, found, length):
    """Draws what stands on the tape after a step."""
    with here.controls():
        step = here.slider("step", 1, 2 * length + 1, length + 1)
    values = found["tape"][step - 1]
    end = max(1.0, float(np.abs(values).max()))
    chart = figures_matrix.matrix(
        here.style,
        values.T,
        [str(column + 1) for column in range(tapes.COLUMNS)],
        [str(place + 1) for place in range(tapes.PLACES)],
        titles=titles(here, "column", "place", "number"),
        diverging=True,
        limits=(-end, end),
    )
    here.picture("tape", chart, values.T)


if __name__ == "__main__":
    lab.show("tape", body, equations=EQUATIONS, tries=TRIES)

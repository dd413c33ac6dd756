"""Lab 10, Positions: encodings, their criteria, and texts longer than in training."""

import numpy as np

from labs.code import positions as code
from parts import encodings, figures, figures_matrix, lab, panels
from parts.encodings import BIASES, KINDS, TRAINED

EQUATIONS = {
    "maps": (
        r"PE(p)_{2i} = \sin\left(p / 10000^{2i/D}\right)",
        r"PE(p)_{2i+1} = \cos\left(p / 10000^{2i/D}\right)",
    ),
    "criteria": (r"PE(p) \neq PE(q), \qquad d(PE(p), PE(q)) = f(|p - q|)",),
    "relation": (
        r"PE(p) \cdot PE(p + k) = \sum_i \cos(\omega_i k), "
        r"\qquad \omega_i = 10000^{-2i/D}",
    ),
    "beyond": (r"-\log_2 p(x_t \mid x_1 \dots x_{t-1}), \qquad t > T",),
}
TRIES = (
    {"kinds": "sine~binary"},
    {"view": "criteria", "length": "128", "width": "8"},
    {"view": "relation", "kinds": "sine~amplitude"},
    {"view": "beyond"},
    {"view": "beyond"},
)
CRITERIA = ("unique", "relation", "length", "width", "deterministic")
LENGTHS = (16, 32, 64, 128)  # with 8 features there are binary numbers for 256
WIDTHS = (8, 16, 32, 64)
CRITERION_COLORS = {  # no, yes
    False: ("#f6d5c3", "#cfe4f7"),
    True: ("#6b3413", "#1d4e89"),
}
CURVES = 4  # positions from which distances are counted


def sizes(here, kinds=None):
    """Draws the controls, and returns kinds, length and width."""
    with here.controls():
        if kinds is not None:
            labels = {kind: here.text(f"map_{kind}") for kind in KINDS}
            kinds = here.several("kinds", KINDS, kinds, labels=labels, width=560)
        length = here.steps("length", LENGTHS, 64)
        width = here.steps("width", WIDTHS, 16)
    return kinds, length, width


def titles(here, *names):
    """Returns the titles of rows, columns and values of a matrix."""
    keys = ("row", "column", "value")
    return {k: here.text(f"title_{n}") for k, n in zip(keys, names, strict=True)}


def maps(here):
    """Draws the encoding of each position, and the relation of each pair."""
    kinds, length, width = sizes(here, ("sine", "binary", "learned", "alibi"))
    if not kinds:
        here.say("none_chosen")
    for kind in kinds:
        found = here.compute(encodings.measure, kind, length, width)
        charts, rows = {}, []
        for part, matrix, names in parts_of(here, kind, found):
            axes = [[str(n) for n in range(size)] for size in matrix.shape]
            options = {"height": 250, "diverging": bool(np.any(matrix < 0))}
            chart = figures_matrix.matrix(
                here.style, matrix, *axes, titles=names, **options
            )
            part = here.text(f"part_{part}")
            charts[part] = chart
            rows += [{"part": part, **c} for c in figures_matrix.cells(matrix, *axes)]
        keys = {key: here.text(f"title_{key}") for key in ("part", "row", "column")}
        keys["value"] = here.text("title_value")
        panels.draw(here, f"map_{kind}", charts, rows, keys, across=2)
    here.code(code.MAPS, kinds=list(kinds), length=length, width=width)


def parts_of(here, kind, found):
    """Returns the matrices of an encoding, with their titles."""
    if kind in BIASES:
        return [("bias", found["relation"], titles(here, "query", "key", "bias"))]
    code = titles(here, "feature", "position", "value")
    distance = titles(here, "position", "position_2", "between")
    return [("code", found["code"].T, code), ("distance", found["relation"], distance)]


def criteria(here):
    """Draws the five criteria as a table of encodings."""
    _, length, width = sizes(here)
    found = [here.compute(encodings.criteria, kind, length, width) for kind in KINDS]
    holds = np.array([[c[name][0] for name in CRITERIA] for c in found], float)
    words = [
        [
            f"{'✓' if c[name][0] else '✗'} {written(here, c[name][1])}"
            for name in CRITERIA
        ]
        for c in found
    ]
    kinds = [here.text(f"map_{kind}") for kind in KINDS]
    columns = [here.text(f"criterion_{name}") for name in CRITERIA]
    names = titles(here, "encoding", "criterion", "holds")
    chart = figures_matrix.matrix(
        here.style,
        holds,
        kinds,
        columns,
        titles=names | {"word": here.text("title_measured")},
        words=words,
        limits=(0, 1),
        colors=CRITERION_COLORS[here.style.dark],
    )
    rows = [
        {"encoding": kind} | dict(zip(columns, row, strict=True))
        for kind, row in zip(kinds, words, strict=True)
    ]
    here.picture(
        "criteria",
        chart,
        rows,
        {"encoding": names["row"]} | dict(zip(columns, columns, strict=True)),
    )
    here.code(code.CRITERIA, length=length, width=width)


def written(here, value):
    """Returns the number of a criterion."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return here.write(value) if isinstance(value, int) else here.write(value, 2)


def relation(here):
    """Draws the dot product of two encodings against their distance."""
    some = ("sine", "learned", "binary", "amplitude", "rotary", "alibi")
    kinds, length, width = sizes(here, some)
    if not kinds:
        here.say("none_chosen")
    charts, rows = {}, []
    names = {
        key: here.text(f"title_{key}")
        for key in ("kind", "from", "distance", "product")
    }
    for kind in kinds:
        found = here.compute(encodings.measure, kind, length, width)
        lines = [
            {
                "kind": here.text(f"map_{kind}"),
                "from": f"p={p}",
                "distance": q - p,
                "product": round(float(found["product"][p, q]), 6),
            }
            for p in range(0, length, length // CURVES)
            for q in range(length)
        ]
        title = here.text(
            "spread", kind=lines[0]["kind"], value=here.write(found["spread"], 2)
        )
        charts[title] = figures.lines(
            here.style, lines, "distance", "product", "from", titles=names, height=260
        )
        rows += lines
    if rows:
        panels.draw(here, "products", charts, rows, names, across=2)
    here.code(code.RELATION, kinds=list(kinds), length=length, width=width)


def beyond(here):
    """Draws how models predict texts that are longer than those of their training."""
    folders = here.all_prepared([f"positions_{kind}" for kind in TRAINED])
    rows, trained = [], 0
    for kind, folder in zip(TRAINED, folders.values(), strict=True):
        found = here.compute(encodings.beyond, folder)
        trained = found["trained"]
        rows += [
            {
                "kind": here.text(f"model_kind_{kind}"),
                "position": (n + 1) * encodings.BIN,
                "bits": bits,
            }
            for n, bits in enumerate(found["bits"])
        ]
    names = {key: here.text(f"title_{key}") for key in ("kind", "position", "bits")}
    here.say("trained_on", length=trained, longest=encodings.FACTOR * trained)
    bits = [row["bits"] for row in rows]
    options = {"titles": names, "at": trained, "height": 420}
    options["range_y"] = (np.floor(min(bits)), np.ceil(max(bits)))
    chart = figures.lines(here.style, rows, "position", "bits", "kind", **options)
    here.picture("lengths", chart, rows, names)
    files = {kind: here.trained(f"positions_{kind}") for kind in TRAINED}
    here.code(code.BEYOND, files=files)


def body(here):
    """Draws one of the four parts."""
    parts = {"maps": maps, "criteria": criteria, "relation": relation}
    parts.get(here.view, beyond)(here)


if __name__ == "__main__":
    lab.show(
        "positions", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES
    )

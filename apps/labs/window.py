"""Lab 11, What a window costs: who reads whom, what it saves, what is lost."""

from labs.code import window as code
from parts import figures, figures_matrix, lab, panels, windows
from parts.windows import KINDS

EQUATIONS = {
    "reads": (
        r"\alpha_{ts} = 0 \ \text{ where } t \text{ does not read } s, \qquad "
        r"\text{window: } |t - s| < w",
    ),
    "costs": (
        r"\text{all pairs: } T^2, \qquad \text{window: } \le T\,(2w - 1 + 2G), "
        r"\qquad \text{low rank: } T\,r",
    ),
    "reach": (r"|t - s| \le L\,(w - 1)",),
}
TRIES = (
    {"window": "1", "first": "1"},
    {"hashes": "4", "block": "4"},
    {"view": "costs", "window": "8"},
    {"view": "costs"},
    {"view": "reach", "layers": "3", "length": "48"},
    {"view": "reach", "length": "48", "first": "1"},
)
LENGTHS = (16, 24, 32, 48, 64)
BLOCKS = (4, 8, 16)
LAYERS = 6


def sizes(here):
    """Draws the controls of all layers; returns the length and their sizes."""
    with here.controls():
        length = here.steps("length", LENGTHS, 32)
        found = {
            "window": here.slider("window", 1, 16, 4),
            "first": here.slider("first", 0, 4, 0),
            "block": here.steps("block", BLOCKS, 8),
            "rank": here.slider("rank", 1, 16, 8),
            "hashes": here.slider("hashes", 2, 4, 2),
        }
    return length, found


def titles(here, *names):
    """Returns the titles of columns of a table, by their names."""
    return {name: here.text(f"title_{name}") for name in names}


def reads(here):
    """Draws the attention weights of each layer."""
    length, chosen = sizes(here)
    charts, rows = {}, []
    names = titles(here, "row", "column", "value")
    for kind in KINDS:
        found = here.compute(windows.weights, kind, length, chosen)
        axes = [[str(n + 1) for n in range(size)] for size in found.shape]
        options = {"limits": (0, 4 / length), "root": True, "small": True}
        options["hidden"] = found == 0
        chart = figures_matrix.matrix(here.style, found, *axes, titles=names, **options)
        share = here.write(100 * float((found > 0).sum()) / length**2, 0)
        title = here.text("panel_title", name=here.text(f"kind_{kind}"), share=share)
        charts[title] = chart
        kind = here.text(f"kind_{kind}")
        rows += [{"kind": kind, **c} for c in figures_matrix.cells(found, *axes)]
    columns = {**titles(here, "kind", "row", "column"), "shown": names["value"]}
    panels.draw(here, "matrices", charts, rows, columns)
    here.code(code.READS, length=length, **chosen)


def costs(here):
    """Draws multiplications and memory against the length."""
    length, chosen = sizes(here)
    rows = [
        {"kind": here.text(f"kind_{kind}"), **row}
        for kind in KINDS
        for row in here.compute(windows.costs, kind, chosen)
    ]
    names = titles(here, "kind", "tokens", "multiplications", "kept")
    for part in ("multiplications", "kept"):
        ends = {"log_x": 2, "log_y": (1, 1e9), "titles": names, "points": True}
        ends["at"] = length
        chart = figures.lines(here.style, rows, "tokens", part, "kind", **ends)
        shown = ("kind", "tokens", part)
        here.picture(
            part,
            chart,
            [{key: row[key] for key in shown} for row in rows],
            {key: names[key] for key in shown},
        )
    here.code(code.COSTS, length=length, **chosen)


def reach(here):
    """Draws which tokens are reached through several layers."""
    length, chosen = sizes(here)
    with here.controls():
        layers = here.slider("layers", 1, LAYERS, 2)
    found = {
        kind: here.compute(windows.reach, kind, length, chosen, layers)
        for kind in KINDS
    }
    local = min(layers * (chosen["window"] - 1), length - 1)
    lost = float(1 - found["window"]["pairs"].mean())
    here.facts(
        ("fact_reach", here.write(local)),
        ("fact_lost", here.text("percent", value=here.write(100 * lost, 0))),
    )
    rows = [
        {"kind": here.text(f"kind_{kind}"), "distance": d, "share": share}
        for kind in KINDS
        for d, share in enumerate(found[kind]["shares"])
    ]
    names = titles(here, "kind", "distance", "share")
    options = {"titles": names, "range_y": (0, 1), "at": local}
    chart = figures.lines(here.style, rows, "distance", "share", "kind", **options)
    here.picture("shares", chart, rows, names)
    tokens = [str(n + 1) for n in range(length)]
    named = {
        here.text(f"kind_{kind}"): found[kind]["pairs"].astype(float)
        for kind in ("window", "hashes", "span")
    }
    options = {"limits": (0, 1), "small": True}
    options["titles"] = titles(here, "row", "column") | {
        "value": here.text("title_reached")
    }
    panels.matrices(here, "reached", named, tokens, tokens, **options)
    here.code(code.REACH, length=length, layers=layers, **chosen)


def body(here):
    """Draws one of the three parts."""
    {"reads": reads, "costs": costs}.get(here.view, reach)(here)


if __name__ == "__main__":
    lab.show("window", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES)

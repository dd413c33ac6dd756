"""Lab 7, Translation: alignment, length, teacher forcing, and beam search."""

import math

from labs.code import translation as code
from parts import figures, figures_matrix, figures_tree, lab, translation
from parts.errors import Refused

EQUATIONS = {
    "align": (
        r"e_{tj} = v^T \tanh(W s_{t-1} + U h_j)",
        r"\alpha_t = \mathrm{softmax}(e_t) \qquad c_t = \sum_j \alpha_{tj} h_j",
    ),
    "lengths": (r"c = h_S \quad\longrightarrow\quad c_t = \sum_j \alpha_{tj} h_j",),
    "forcing": (
        r"p(y_t \mid y_1 \dots y_{t-1}, x) \quad\longrightarrow\quad "
        r"p(y_t \mid \hat y_1 \dots \hat y_{t-1}, x)",
    ),
    "beam": (
        r"\hat y = \arg\max_y \frac{1}{lp_\alpha(|y|)} "
        r"\sum_t \log p(y_t \mid y_1 \dots y_{t-1}, x)",
    ),
}
TRIES = (
    {"source_dates": "17 décemzzz 1986"},
    {"data": "numbers", "source_numbers": "two hundred and sixty-two"},
    {"view": "lengths", "data": "numbers"},
    {"view": "forcing", "planted": "3"},
    {"view": "beam", "data": "numbers", "attention": "none"},
)
ATTENTIONS = ("bahdanau", "none")
SOURCES = {  # by the names of their boxes
    "source_dates": "mercredi 17 décembre 1986",
    "source_numbers": "sixty-two thousand",
    "searched_dates": "01.12.1987",
    "searched_numbers": "sixty-seven thousand and eighty-nine",
}
LONGEST = 70  # characters of a source
STEPS = 12  # of a tree that are drawn at first


def settings(here):
    """Draws the controls of the model; returns its data, its folder, and its code."""
    with here.controls():
        data = here.choice("data", list(translation.DATA), wide=True)
        attention = here.choice("attention", ATTENTIONS, wide=True)
    name = f"translation_{data}_{attention}"
    return data, here.prepared(name), here.trained(name)


def line(here, name, data):
    """Draws the box for a source: one for each kind of data, with its own example."""
    key = f"{name}_{data}"
    source = here.line(key, SOURCES[key], most=LONGEST).strip()
    if not source:
        raise Refused("empty")
    return source


def named(here, *names):
    """Returns the headings of columns by their names."""
    return {name: here.text(f"title_{name}") for name in names}


def align(here):
    """Draws the translation of a source, and what the decoder attends to."""
    data, folder, file = settings(here)
    source = line(here, "source", data)
    found = here.compute(translation.align, folder, source)
    p = found["probability"]
    here.facts(
        ("translated", found["output"] or "∅"),
        ("confidence", here.write(float(p.prod()), 3)),
    )
    if found["unknown"]:
        here.say("unknown", characters=" ".join(found["unknown"]))
    rows = [
        {"position": n + 1, "token": token, "probability": float(one)}
        for n, (token, one) in enumerate(zip(found["target"], p, strict=True))
    ]
    options = {"values": [1 - float(one) for one in p], "limits": (0, 1)}
    options["titles"] = [f"P = {here.write(float(one), 3)}" for one in p]
    here.strip("written", found["target"], rows, named(here, *rows[0]), **options)
    here.code(code.ALIGN, file=file, source=source)
    if found["weights"] is None:
        here.say("no_attention")
        return
    names = {"row": "written", "column": "read", "value": "weight"}
    names = {key: here.text(f"title_{name}") for key, name in names.items()}
    axes = found["target"], found["source"]
    options = {"titles": names, "limits": (0, 1), "root": True}
    chart = figures_matrix.matrix(here.style, found["weights"], *axes, **options)
    rows = figures_matrix.cells(found["weights"], *axes)
    here.picture("weights", chart, rows, names)


def lengths(here):
    """Draws how often both models are right, by the length of the source."""
    with here.controls():
        data = here.choice("data", list(translation.DATA), wide=True)
    recipes = {kind: f"translation_{data}_{kind}" for kind in ATTENTIONS}
    folders = here.all_prepared(list(recipes.values()))
    rows, shares = [], []
    for kind, recipe in recipes.items():
        found = here.compute(translation.evaluate, folders[recipe], data)
        share = sum(found["exact"]) / len(found["exact"])
        shares.append((f"attention_{kind}", here.write(share, 3)))
        name = here.text(f"attention_{kind}")
        groups = translation.by_length(found, translation.WIDTHS[data])
        rows += [{**row, "model": name} for row in groups]
    here.facts(*shares)
    titles = named(here, "length", "exact", "model", "pairs")
    options = {"titles": titles, "range_y": (0, 1), "points": True}
    chart = figures.lines(here.style, rows, "length", "exact", "model", **options)
    here.picture("lengths", chart, rows, titles)
    files = {kind: here.trained(recipe) for kind, recipe in recipes.items()}
    sizes = {"generated": translation.GENERATED, "tested": translation.TESTED}
    sizes |= {"width": translation.WIDTHS[data], "most": translation.MOST}
    here.code(code.LENGTHS, files=files, data=translation.DATA[data], **sizes)


def forcing(here):
    """Draws predictions after the right tokens, and after those of the model."""
    data, folder, file = settings(here)
    tested = here.compute(translation.evaluate, folder, data)
    pairs = translation.examples(tested)
    with here.controls():
        n = here.choice(
            "example", range(len(pairs)), labels=lambda n: pairs[n]["source"]
        )
        source, target = pairs[n]["source"], pairs[n]["target"]
        planted = here.slider("planted", 0, len(target), 0)
    found = here.compute(translation.force, folder, source, target, planted)
    one_pair(here, found, planted)
    rows = translation.by_position(tested)
    rows = [{**row, "prefix": here.text(f"prefix_{row['prefix']}")} for row in rows]
    titles = named(here, "position", "right", "prefix", "pairs")
    options = {"titles": titles, "range_y": (0, 1)}
    chart = figures.lines(here.style, rows, "position", "right", "prefix", **options)
    here.picture("by_position", chart, rows, titles)
    values = {"source": source, "target": target, "planted": planted}
    values["most"] = translation.MOST
    here.code(code.FORCING, file=file, **values)


def one_pair(here, found, planted):
    """Draws the tokens of one target, and the probability of the right ones."""
    right = found["right"]
    here.strip("right", right)
    for name in ("forced", "own"):
        wrong = [
            n
            for n, token in enumerate(found[name])
            if n >= len(right) or token != right[n]
        ]
        values = [float(n in wrong) for n in range(len(found[name]))]
        marked = [planted - 1] if name == "own" and planted else []
        here.strip(name, found[name], values=values, limits=(0, 1), marked=marked)
    rows = [
        {
            "position": n + 1,
            "prefix": here.text(f"prefix_{name}"),
            "token": right[n],
            "probability": p,
            "written": found[name][n] if n < len(found[name]) else "",
        }
        for name in ("forced", "own")
        for n, p in enumerate(found[f"p_{name}"])
    ]
    titles = named(here, *rows[0])
    options = {"titles": titles, "range_y": (0, 1), "points": True}
    axes = "position", "probability", "prefix"
    chart = figures.lines(here.style, rows, *axes, **options)
    here.picture("right_tokens", chart, rows, titles)


def beam(here):
    """Draws the tree of a beam search, beside greedy search."""
    data, folder, file = settings(here)
    source = line(here, "searched", data)
    with here.controls():
        width = here.slider("width", 1, 6, 3)
        penalty = here.steps("penalty", (0.0, 0.3, 0.6, 1.0), 0.0)
    found = here.compute(translation.beam, folder, source, width, penalty)
    for name in ("greedy", "best"):
        here.strip(f"path_{name}", found[name])
    scores = [found[f"{name}_score"] for name in ("greedy", "best")]
    here.facts(
        ("log_greedy", here.write(scores[0], 3)),
        ("log_best", here.write(scores[1], 3)),
        ("gain", here.write(math.exp(scores[1] - scores[0]), 2)),
    )
    nodes = found["nodes"]
    last = max(2, max(node["step"] for node in nodes))
    first, last = here.interval("shown", 1, last, (1, min(STEPS, last)))
    titles = named(here, "step", "rank", "token", "text", "score", "role")
    roles = {role: here.text(f"role_{role}") for role in figures_tree.ROLES}
    options = {"titles": titles, "roles": roles}
    chart = figures_tree.beam_tree(here.style, nodes, first, last, **options)
    rows = [{**node, "role": roles[node["role"]]} for node in nodes]
    here.picture("tree", chart, rows, titles)
    values = {"source": source, "width": width, "penalty": penalty}
    values["most"] = translation.MOST
    here.code(code.BEAM, file=file, **values)


def body(here):
    """Draws one of the four parts."""
    parts = {"align": align, "lengths": lengths, "forcing": forcing}
    parts.get(here.view, beam)(here)


if __name__ == "__main__":
    lab.show(
        "translation", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES
    )

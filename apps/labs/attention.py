"""Lab 9, Attention: the whole block step by step, heads, scores, cross-attention."""

import numpy as np

from labs.code import attention as code
from parts import attention, block_steps, figures, figures_matrix, lab, panels
from parts.block_steps import BY_TOKEN, STEPS, titles
from parts.errors import Refused

HEAD = r"\mathrm{head} = \mathrm{softmax}\left(\frac{Q K^T}{\sqrt{d_k}}\right) V"
EQUATIONS = {
    "steps": (HEAD,),
    "heads": (r"[\mathrm{head}_1; \dots; \mathrm{head}_H]\, W_O", HEAD),
    "scores": (
        r"q^T k \qquad \frac{q^T k}{\sqrt{d}} \qquad \beta \cos(q, k) \qquad q^T W k",
        r"v^T \tanh(W q + U k) \qquad v^T \tanh(W [q; k]) \qquad W q",
    ),
    "cross": (
        r"\mathrm{softmax}\left(\frac{Q_{\mathrm{dec}} K_{\mathrm{enc}}^T}"
        r"{\sqrt{d_k}}\right) V_{\mathrm{enc}}",
    ),
    "slide": (r"\alpha_j = \frac{\exp(e_j / \tau)}{\sum_i \exp(e_i / \tau)}",),
}
TEMPERATURES = (0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 5.0)
TEXT = "If the object is a class, the attribute of the object is"
SOURCE = "mercredi 17 décembre 1986"
PRESETS = {
    "masked": """3.53 0.80 1.96 4.48 3.74 -1.95
0 -0.30 -0.21 0.82 0.29 2.91
0 0 0.89 0.67 2.99 -0.41
0 0 0 1.31 1.73 -1.48
0 0 0 0 3.07 2.94
0 0 0 0 0 0.31""",
    "creature": "-27.8\n93.0\n93.4\n4.9",
}
TRIES = (
    {"step": "softmax"},
    {"view": "heads", "text": TEXT.removesuffix("is") + "was"},
    {"step": "logits"},
    {"view": "scores", "task": "other"},
    {"view": "slide", "preset": "creature"},
    {"view": "cross", "source": "1 mai 2001"},
)
MOST = 12  # rows and columns of a table of scores
LARGEST = 1e4  # score
LONGEST = 40  # characters of a date
LEARNING = (0, 10, 30, 100, 200)  # steps in which the seven scores are learned


def sentence(here):
    """Draws the box for a sentence; returns the folder of a trained GPT, and it."""
    folder = here.prepared("attention")
    text = here.line("text", TEXT, most=200)[:200]
    if not text:
        raise Refused("empty")
    return folder, text


def steps(here):
    """Draws one block of a trained GPT, step by step."""
    with here.controls():
        folder, text = sentence(here)
        layers, heads = here.compute(attention.sizes, folder)
        layer = here.choice("layer", range(1, layers + 1), labels=str, wide=True)
        head = here.choice("head", range(1, heads + 1), labels=str, wide=True)
    step = here.choice("step", STEPS, wide=True)
    temperature = 1.0
    if step == "logits":
        temperature = here.steps("temperature", TEMPERATURES, 1.0)
    found = here.compute(attention.block, folder, text, layer - 1, temperature)
    tokens, values = found["tokens"], found["values"]
    labels = [f"{n + 1} {token}" for n, token in enumerate(tokens)]
    at = len(tokens) - 1
    if step in (*BY_TOKEN, "logits"):
        at = here.choice("token", range(len(tokens)), at, labels=labels.__getitem__)
    here.strip("tokens", tokens, marked=[at])
    here.say(f"do_{step}")
    if step in BY_TOKEN:
        block_steps.by_token(here, values, tokens, step, head - 1, at)
    elif step == "logits":
        block_steps.logits(here, found, at)
    else:
        block_steps.vectors(here, values, tokens, step, layer - 1, head - 1)
    options = {"layer": layer - 1, "head": head - 1, "token": at}
    file = here.trained("attention")
    here.code(code.STEPS, file=file, text=text, temperature=temperature, **options)


def heads(here):
    """Draws the attention weights of all heads."""
    with here.controls():
        folder, text = sentence(here)
    found = here.compute(attention.heads, folder, text)
    tokens, weights = found["tokens"], found["weights"]
    if len(tokens) < 3:
        raise Refused("short")
    named = {
        here.text("layer_head", layer=n + 1, head=m + 1): w
        for n, layer in enumerate(weights)
        for m, w in enumerate(layer)
    }
    options = {"limits": (0, 1), "root": True, "small": True}
    options["across"] = weights.shape[1]
    options["titles"] = titles(here, "query", "key", "softmax")
    panels.matrices(here, "all_heads", named, tokens, tokens, **options)
    rows = [
        {"head": name, "part": here.text(f"part_{part}"), "share": share}
        for name, w in named.items()
        for part, share in attention.shares(w).items()
    ]
    names = {key: here.text(f"title_{key}") for key in rows[0]}
    chart = figures.stacked(here.style, rows, "share", "head", "part", titles=names)
    here.picture("shares", chart, rows, names)
    here.code(code.HEADS, file=here.trained("attention"), text=text)


def scores(here):
    """Draws what attention with each of the seven scores learns in one task."""
    with here.controls():
        task = here.choice("task", attention.TASKS, wide=True)
        number = here.steps("learning", LEARNING, 100)
    here.say(f"about_{task}")
    found = here.compute(attention.race, task, number, 0)
    names = {score: here.text(f"score_{score}") for score in attention.SCORES}
    rows = [
        {"score": names[score], "accuracy": found["accuracy"][score]}
        for score in attention.SCORES
    ]
    heading = {key: here.text(f"title_{key}") for key in rows[0]}
    options = {"titles": heading, "format": ".2f", "range_value": (0, 1.12)}
    chart = figures.bars(here.style, rows, "accuracy", "score", **options)
    here.picture("seven", chart, rows, heading)
    items = [str(n + 1) for n in range(attention.ITEMS)]
    named = {names[score]: found["weights"][score] for score in attention.SCORES}
    options = {"limits": (0, 1), "small": True, "across": 4}
    options["titles"] = titles(here, "query", "key", "softmax")
    panels.matrices(here, "seven_weights", named, items, items, **options)
    here.code(code.SCORES, task=task, steps=number, scores=attention.SCORES)


def cross(here):
    """Draws to which characters of the source a Transformer attends."""

    def label(number):
        return str(number) if number else here.text("mean")

    with here.controls():
        folder = here.prepared("attention_cross")
        source = here.line("source", SOURCE, most=LONGEST)[:LONGEST].strip()
        if not source:
            raise Refused("empty")
        found = here.compute(attention.translation, folder, source)
        layers, heads = found["weights"].shape[:2]
        layer = here.choice("layer", range(1, layers + 1), labels=label, wide=True)
        head = here.choice("of_head", range(heads + 1), labels=label, wide=True)
    here.facts(("source", source), ("translated", found["output"] or "∅"))
    weights = found["weights"][layer - 1]
    weights = weights[head - 1] if head else weights.mean(axis=0)
    names = titles(here, "written", "read", "softmax")
    axes = found["target"], found["source"]
    options = {"titles": names, "limits": (0, 1), "root": True}
    chart = figures_matrix.matrix(here.style, weights, *axes, **options)
    rows = figures_matrix.cells(weights, *axes)
    names = {key: names[key] for key in ("row", "column", "value")}
    here.picture("cross_weights", chart, rows, names)
    here.code(code.CROSS, file=here.trained("attention_cross"), source=source)


def table(text):
    """Reads a table of scores: a line for each key, a number for each query."""
    lines = text.replace(",", ".").replace("\N{MINUS SIGN}", "-").splitlines()
    try:
        rows = [[float(word) for word in line.split()] for line in lines]
    except ValueError:
        raise Refused("bad_scores", most=MOST) from None
    rows = [row for row in rows if row][: MOST + 1]
    widths = {len(row) for row in rows}
    fits = len(widths) == 1 and len(rows) <= MOST and max(widths) <= MOST
    if not fits or not np.all(np.abs(rows) <= LARGEST):  # also for nan
        raise Refused("bad_scores", most=MOST)
    return rows


def slide(here):
    """Draws mask and softmax of a table of scores, such as that of the slide."""
    with here.controls():
        preset = here.choice("preset", list(PRESETS), wide=True)
        temperature = here.steps("temperature", TEMPERATURES, 1.0)
        causal = preset == "masked" and here.switch("causal", True)
    with here.controls():
        found = table(here.passage(f"table_{preset}", PRESETS[preset], 2000, rows=6))
    weights = here.compute(attention.attend, found, causal, temperature)
    hidden = np.tril(np.ones(weights.shape, bool), -1) if causal else None
    axes = [
        [f"{letter}{n + 1}" for n in range(size)]
        for letter, size in zip("KQ", weights.shape, strict=True)
    ]
    options = {"hidden": hidden, "shared": False, "across": 2}
    options["titles"] = titles(here, "key", "query")
    both = (here.text("title_scores"), here.text("title_softmax"))
    both = dict(zip(both, (np.array(found), weights), strict=True))
    panels.matrices(here, "slide", both, *axes, **options)
    here.code(code.SLIDE, scores=found, causal=causal, temperature=temperature)


def body(here):
    """Draws one of the five parts."""
    parts = {"steps": steps, "heads": heads, "scores": scores, "cross": cross}
    parts.get(here.view, slide)(here)


if __name__ == "__main__":
    lab.show(
        "attention", body, equations=EQUATIONS, views=tuple(EQUATIONS), tries=TRIES
    )

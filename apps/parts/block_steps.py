"""One block of a Transformer drawn step by step: vectors, scores, weights, logits."""

import math

from parts import figures, panels
from parts import figures_matrix as drawn

VECTORS = {  # what the steps show that draw vectors: recorded values of a block
    "norm": ("input", "self_attention_input"),
    "qkv": ("self_attention/query", "self_attention/key", "self_attention/value"),
    "output": ("self_attention/heads", "self_attention/context"),
    "residual": ("input", "self_attention/context", "self_attention_residual"),
    "feed_forward": (
        *("feed_forward/hidden", "feed_forward/output"),
        "feed_forward_residual",
    ),
}
BY_TOKEN = ("scores", "mask", "softmax")
STEPS = ("embedding", "norm", "qkv", *BY_TOKEN, "output", "residual")
STEPS += ("feed_forward", "logits")


def titles(here, row, column, value="value"):
    """Returns the titles of rows, columns and values of a matrix."""
    found = {"row": row, "column": column, "value": value, "hidden": "masked"}
    return {key: here.text(f"title_{name}") for key, name in found.items()}


def vectors(here, values, tokens, step, layer, head):
    """Draws the vectors of all tokens before and after a step."""
    if step == "embedding":
        found = {"input": values["input"]}
        if layer == 0:  # the only one with the embeddings as its input
            position = values["input"] - values["token"]
            found = {"token": values["token"], "position": position} | found
    else:
        found = {name.rpartition("/")[2]: values[name] for name in VECTORS[step]}
    one_head = {name: v if v.ndim == 2 else v[head] for name, v in found.items()}
    named = {here.text(f"vector_{name}"): v for name, v in one_head.items()}
    options = {"diverging": True, "shared": step != "norm", "across": 1}
    options |= {"titles": titles(here, "token", "feature"), "height": 14 * len(tokens)}
    if step == "qkv":  # narrow enough to stand side by side
        options |= {"across": 3, "height": None, "legend": "bottom"}
    panels.matrices(here, f"step_{step}", named, tokens, **options)
    if step == "norm":
        x, y = (values[name] for name in VECTORS["norm"])
        spread = [here.write(float(v.std(axis=-1).mean()), 2) for v in (x, y)]
        here.facts(("spread_before", spread[0]), ("spread_after", spread[1]))


def by_token(here, values, tokens, step, head, at):
    """Draws the scores or weights of all pairs, and how one of them comes about."""
    names = {"scores": "scores", "mask": "scores", "softmax": "alignment"}
    matrix = values[f"self_attention/{names[step]}"][head]
    hidden = None if step == "scores" else ~values["self_attention/mask"][head]
    key = int(values["self_attention/alignment"][head, at].argmax())
    q, k = (values[f"self_attention/{n}"][head] for n in ("query", "key"))
    product = float(q[at] @ k[key])
    here.say(
        f"worked_{step}", query=f"`{tokens[at]}`", seen=f"`{tokens[key]}`",
        product=here.write(product, 2), width=q.shape[1],
        score=here.write(product / math.sqrt(q.shape[1]), 2), number=at + 1,
        weight=here.write(float(values["self_attention/alignment"][head, at, key]), 2),
    )  # fmt: skip
    options = {"titles": titles(here, "query", "key", step), "hidden": hidden}
    options["titles"]["hidden"] = {"mask": "−∞", "softmax": "0"}.get(step, "")
    if step == "softmax":
        options |= {"limits": (0, 1), "root": True}
    chart = drawn.matrix(
        here.style, matrix, tokens, tokens, diverging=step != "softmax", **options
    )
    rows = drawn.cells(
        matrix, tokens, tokens, hidden, None, options["titles"]["hidden"]
    )
    keys = {"row": options["titles"]["row"], "column": options["titles"]["column"]}
    here.picture(
        f"step_{step}", chart, rows, keys | {"shown": here.text(f"title_{step}")}
    )


def logits(here, found, at):
    """Draws the most probable next token after each layer."""
    tokens, probability = found["tokens"], found["probability"]
    layers = [here.text("after_embedding")]
    layers += [
        here.text("after_layer", number=n + 1) for n in range(len(found["best"]) - 1)
    ]
    words = [[best[0] for best in rows] for rows in found["best"]]
    names = titles(here, "layer", "token", "probability") | {"word": here.text("word")}
    options = {"titles": names, "words": words, "limits": (0, 1)}
    chart = drawn.matrix(here.style, probability[..., 0], layers, tokens, **options)
    rows = drawn.cells(probability[..., 0], layers, tokens, None, words)
    keys = {key: names[key] for key in ("row", "column", "word")}
    here.picture("step_logits", chart, rows, keys | {"value": names["value"]})
    rows = [
        {"layer": name, "word": f"{n + 1} {word}", "value": float(p)}
        for name, best, ps in zip(layers, found["best"], probability, strict=True)
        for n, (word, p) in enumerate(zip(best[at], ps[at], strict=True))
    ]
    last = [row for row in rows if row["layer"] == layers[-1]]
    names = {"layer": names["row"], "word": names["word"], "value": names["value"]}
    chart = figures.bars(here.style, last, "value", "word", titles=names, format=".3f")
    here.picture("next", chart, rows, names)

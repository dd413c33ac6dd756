"""Lab 7, Attention: the whole block step by step, heads, scores, cross-attention."""

import numpy as np

from labs.code import attention as code
from parts import attention, figures, panels
from parts import figures_attention as drawn
from parts import lab
from parts.errors import Refused

EQUATION = r"\mathrm{head} = \mathrm{softmax}\left(\frac{Q K^T}{\sqrt{d_k}}\right) V"
VIEWS = ("steps", "heads", "scores", "cross", "slide")
STEPS = (
    *("embedding", "norm", "qkv", "scores", "mask", "softmax"),
    *("output", "residual", "feed_forward", "logits"),
)
PANELS = {  # what each step shows: recorded values; [head] is one head of a value
    "norm": ("input", "self_attention_input"),
    "qkv": ("self_attention/query", "self_attention/key", "self_attention/value"),
    "output": ("self_attention/heads", "self_attention/context"),
    "residual": ("input", "self_attention/context", "self_attention_residual"),
    "feed_forward": (
        *("feed_forward_input", "feed_forward/hidden"),
        *("feed_forward/output", "output"),
    ),
}
TEXT = "If the object is a class, the attribute of the object is"
SOURCE = "mercredi 17 décembre 1986"
SLIDE = """3.53 0.80 1.96 4.48 3.74 -1.95
0 -0.30 -0.21 0.82 0.29 2.91
0 0 0.89 0.67 2.99 -0.41
0 0 0 1.31 1.73 -1.48
0 0 0 0 3.07 2.94
0 0 0 0 0 0.31"""
CREATURE = """-27.8
93.0
93.4
4.9"""
PRESETS = {"masked": SLIDE, "creature": CREATURE}
MOST = 12  # rows and columns of a table of scores
QUICK = {"steps = 200": "steps = 2", "steps = 100": "steps = 2"}


def titles(here, row="token", column="feature", value="value"):
    """Returns the titles of rows, columns and values."""
    found = {"row": row, "column": column, "value": value, "hidden": "masked"}
    return {key: here.text(f"title_{name}") for key, name in found.items()}


def sentence(here):
    """Draws the box for a sentence, and returns the model and the sentence."""
    folder = here.prepared("attention")
    text = here.line("text", TEXT, most=200)
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
    with here.controls():
        temperature = 1.0
        if step == "logits":
            temperature = here.steps("temperature", (0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 5.0), 1.0)
        found = here.compute(attention.block, folder, text, layer - 1, temperature)
        tokens = found["tokens"]
        at = here.choice(
            "token", range(len(tokens)), len(tokens) - 1,
            labels=lambda i: f"{i + 1}: {tokens[i]}",
        )
    here.strip("tokens", tokens, marked=[at])
    here.say(f"do_{step}")
    draw = {
        "embedding": embedding, "scores": scores, "mask": scores, "softmax": scores,
        "logits": logits,
    }.get(step, vectors)
    draw(here, found, step, layer - 1, head - 1, at)
    values = {"layer": layer - 1, "head": head - 1, "temperature": temperature}
    here.code(code.STEPS, folder=folder, text=text, **values)

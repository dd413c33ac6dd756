"""Figures of BERT: masks, predictions for a hole, pairs of sentences, accuracies."""

from collections.abc import Sequence
from typing import Any

from parts import figures, figures_matrix, panels, run_panel

Rows = list[dict[str, Any]]
BEFORE_AFTER = ("before", "after")


def headings(here: Any, *keys: str) -> dict[str, str]:
    """Returns texts of the lab by their keys."""
    return {key: here.text(key) for key in keys}


def masks(here: Any, before: list[str], after: list[str], chosen: list[int]) -> None:
    """Draws a text before and after masking, and what becomes of each chosen token.

    Args:
        here: The lab.
        before: The tokens.
        after: What the model reads.
        chosen: The positions of the tokens to predict.
    """
    rows = [
        {
            "position": n,
            "token": before[n],
            "input": after[n],
            "fate": here.text(fate(before[n], after[n])),
        }
        for n in chosen
    ]
    heads = headings(here, "position", "token", "input", "fate")
    here.strip("original", before, marked=chosen)
    here.strip("masked", after, rows, heads, marked=chosen)


def fate(before: str, after: str) -> str:
    """Returns what became of a chosen token.

    Examples:
        >>> fate("two", "[MASK]"), fate("two", "ten"), fate("two", "two")
        ('mask', 'random', 'kept')
    """
    if after == "[MASK]":
        return "mask"
    return "kept" if after == before else "random"


def expected_shares(rate: float, share: float, selectable: int) -> dict[str, float]:
    """Returns the expected fraction of all tokens with each fate.

    A random token is the token itself once in `selectable` times, and counts as kept.

    Args:
        rate: Fraction of the tokens that is chosen.
        share: Fraction of these that becomes [MASK].
        selectable: Number of tokens from which a random one is drawn.

    Examples:
        >>> found = expected_shares(0.15, 0.8, 10)
        >>> {name: round(part, 4) for name, part in found.items()}
        {'chosen': 0.15, 'mask': 0.12, 'random': 0.0135, 'kept': 0.0165}
    """
    part = (1 - share) / 2
    same = part / selectable
    return {
        "chosen": rate,
        "mask": rate * share,
        "random": rate * (part - same),
        "kept": rate * (part + same),
    }


def counts(here: Any, observed: dict[str, float], expected: dict[str, float]) -> None:
    """Draws the fraction of the tokens with each fate beside the expected one."""
    rows = [
        {
            "fate": here.text(name),
            "percent": 100 * float(found[name]),
            "of": here.text(of),
        }
        for name in expected
        for of, found in (("observed", observed), ("expected", expected))
    ]
    heads = headings(here, "fate", "percent", "of")
    options = {"by": "of", "titles": heads}
    chart = figures.bars(here.style, rows, "percent", "fate", **options)
    here.picture("counts", chart, rows, heads)


def predictions(here: Any, found: dict[str, list[tuple[str, float]]]) -> None:
    """Draws the most probable tokens for a hole, before and after training.

    Args:
        here: The lab.
        found: Tokens and probabilities by "before" and "after".
    """
    heads = headings(here, "token", "probability", "when")
    charts, rows = {}, []
    for when in BEFORE_AFTER:
        part = [{"token": token, "probability": p} for token, p in found[when]]
        options = {"titles": heads, "format": ".2f", "range_value": (0, 1.15)}
        charts[here.text(when)] = figures.bars(
            here.style, part, "probability", "token", **options
        )
        rows += [{**row, "when": here.text(when)} for row in part]
    panels.draw(here, "predictions", charts, rows, heads, across=2)


def attention(here: Any, tokens: Sequence[str], weights: Any) -> None:
    """Draws the attention weights of one token in all layers and heads.

    Args:
        here: The lab.
        tokens: The tokens that are attended to.
        weights: `(layers, heads, T)`.
    """
    layers, heads, _ = weights.shape
    rows = [
        here.text("layer_head", layer=layer + 1, head=head + 1)
        for layer in range(layers)
        for head in range(heads)
    ]
    values = weights.reshape(layers * heads, -1)
    names = {"row": "head", "column": "key_token", "value": "weight"}
    titles = {key: here.text(text) for key, text in names.items()}
    options = {"titles": titles, "limits": (0, 1), "root": True}
    chart = figures_matrix.matrix(here.style, values, rows, tokens, **options)
    here.picture("attention", chart, figures_matrix.cells(values, rows, tokens), titles)


def pairs(
    here: Any, texts: dict[str, tuple[str, str]], found: dict[str, list[float]]
) -> None:
    """Draws the probability that the second sentence follows, for several pairs.

    Args:
        here: The lab.
        texts: The pairs by name.
        found: The probabilities of the pairs in order, by "before" and "after".
    """
    rows = [
        {
            "pair": here.text(f"pair_{name}"),
            "when": here.text(when),
            "probability": found[when][n],
            "first": first,
            "second": second,
        }
        for n, (name, (first, second)) in enumerate(texts.items())
        for when in BEFORE_AFTER
    ]
    heads = headings(here, *rows[0])
    options = {"by": "when", "titles": heads, "range_value": (0, 1)}
    chart = figures.bars(here.style, rows, "probability", "pair", **options)
    here.picture("pairs", chart, rows, heads)


def continuations(here: Any, found: dict[str, list[float]]) -> None:
    """Draws the probability that a sentence follows that begins with each number."""
    rows = [
        {"number": n, "probability": p, "when": here.text(when)}
        for when in BEFORE_AFTER
        for n, p in enumerate(found[when])
    ]
    heads = headings(here, "number", "probability", "when")
    options = {"titles": heads, "range_y": (0, 1), "range_x": (0, len(found["after"]))}
    chart = figures.lines(here.style, rows, "number", "probability", "when", **options)
    here.picture("continuations", chart, rows, heads)


def accuracies(here: Any, rows: Rows) -> None:
    """Draws accuracy by number of labeled examples.

    Args:
        here: The lab.
        rows: "size", "accuracy" and "start" of each classifier.
    """
    heads = headings(here, "size", "accuracy", "start")
    rules = {here.text("guessing"): 0.5}
    options = {"titles": heads, "range_y": (0.3, 1), "rules": rules, "points": True}
    chart = figures.lines(
        here.style, rows, "size", "accuracy", "start", log_x=2, **options
    )
    here.picture("tuned", chart, rows, heads)


def training(here: Any, lines: Rows, baselines: dict[str, float]) -> None:
    """Draws both accuracies on the training data, and the most frequent answers.

    Args:
        here: The lab.
        lines: The progress of the run.
        baselines: Accuracies by "tokens" and "next".
    """
    rows = [
        {
            "step": line["step"],
            "accuracy": line[f"{name}_accuracy"],
            "of": here.text(name),
        }
        for name in ("tokens", "next")
        for line in lines
    ]
    heads = headings(here, "step", "accuracy", "of")
    rules = {here.text(f"frequent_{name}"): p for name, p in baselines.items()}
    options = {"titles": heads, "range_y": (0, 1), "rules": rules}
    chart = figures.lines(here.style, rows, "step", "accuracy", "of", **options)
    here.picture("history", chart, rows, heads)


def results(here: Any, found: dict[str, Any]) -> None:
    """Draws a table of held-out accuracies: most frequent answer, before and after.

    Args:
        here: The lab.
        found: The results of `kerasseq train bert`.
    """
    here.say("held_out", pairs=here.write(found["pairs"]))
    rows = [
        {"model": here.text(f"model_{name}"), **found[name]}
        for name in ("baselines", *BEFORE_AFTER)
    ]
    here.table(rows, headings(here, "model", "tokens", "next"))


def curves(here: Any) -> run_panel.Draw:
    """Returns what draws both accuracies of several runs on their training data."""

    def draw(found, lines):
        for value in ("tokens_accuracy", "next_accuracy"):
            rows = run_panel.table(found, lines, value)
            if rows:
                chart = run_panel.curve(here, rows, value)
                heads = headings(here, "step", value, "run")
                here.picture(f"curve_{value}", chart, rows, heads)

    return draw

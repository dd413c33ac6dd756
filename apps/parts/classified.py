"""What the lab Vision draws for a classifier of texts: its report and one decision."""

import pathlib
from typing import Any

import numpy as np

from parts import figures, figures_matrix, image_views, vision
from parts.errors import Refused

MOST_LABELS = 20  # of a confusion matrix, the most frequent ones
BASELINES = {  # as `kerasseq train classify` names them
    "majority": "baseline_majority",
    "logistic regression, 1 to 3 characters": "baseline_characters",
    "logistic regression, words": "baseline_words",
}
BEST = 5  # labels whose probabilities are shown
LONGEST = 300  # characters of a text of one's own


def report(here: Any, results: dict[str, Any]) -> None:
    """Draws accuracy beside the baselines, the confusion, and the hardest texts."""
    found = {results["model"]: results["accuracy"]}
    for name, each in results["baselines"].items():
        shown = here.text(BASELINES[name]) if name in BASELINES else name
        found[shown] = each["accuracy"]
    rows = [{"model": name, "accuracy": value} for name, value in found.items()]
    headings = image_views.titles(here, "model", "accuracy")
    options = {"titles": headings, "format": ".3f", "range_value": (0, 1.12)}
    chart = figures.bars(here.style, rows, "accuracy", "model", **options)
    here.picture("compared", chart, rows, headings)
    confusion(here, results["labels"], np.array(results["confusion"]))
    here.say("hardest_texts")
    if results["hardest"]:
        keys = ("text", "label", "predicted", "probability")
        here.table(results["hardest"], image_views.titles(here, *keys))
    else:
        here.say("all_right")


def confusion(here: Any, labels: list[str], counts: np.ndarray) -> None:
    """Draws which label was taken for which: the share of each row."""
    kept = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:MOST_LABELS])
    names = [str(labels[n])[:24] for n in kept]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    headings = {"row": here.text("title_label"), "value": here.text("title_share")}
    headings["column"] = here.text("title_predicted")
    options = {"titles": headings, "limits": (0, 1)}
    shown = shares[np.ix_(kept, kept)]
    chart = figures_matrix.matrix(here.style, shown, names, names, **options)
    rows = [
        {"row": str(labels[i]), "column": str(labels[j]), "count": int(counts[i, j])}
        | {"value": float(shares[i, j])}
        for i, j in zip(*np.nonzero(counts), strict=True)
    ]
    headings["count"] = here.text("title_count")
    here.picture("confusion", chart, rows, headings)


def decision(
    here: Any, folder: pathlib.Path, results: dict[str, Any], name: str, default: str
) -> Any:
    """Draws how the model decides on one of the hardest texts, or one's own.

    Args:
        here: The lab.
        folder: The run of the model.
        results: Its results.
        name: The name of the control for a text of one's own.
        default: Its default.

    Returns:
        The text and its most probable label.
    """
    hardest = results["hardest"]

    def named(number):
        return hardest[number - 1]["text"][:40] if number else here.text("own_text")

    options = range(len(hardest) + 1)
    number = here.choice("which", options, min(1, len(hardest)), labels=named)
    wanted = {hardest[number - 1]["label"]} if number else set()
    if number:
        text = hardest[number - 1]["text"]
    else:
        text = here.line(name, default[:LONGEST], most=LONGEST).strip()
        if not text:
            raise Refused("empty")
    found = here.compute(vision.read, folder, text, sorted(wanted))
    image_views.decision(here, found["probabilities"], BEST)
    for n, (label, scores) in enumerate(found["moved"].items()):
        here.say("moved_of", label=label)
        rows = [
            {"token": token, "moved": float(score)}
            for token, score in zip(found["tokens"], scores, strict=True)
        ]
        shown = [here.write(row["moved"], 3) for row in rows]
        here.strip(
            "moved_true" if n else "moved_predicted",
            found["tokens"],
            rows,
            image_views.titles(here, "token", "moved"),
            values=scores.tolist(),
            titles=shown,
            diverging=True,
        )
    return text, next(iter(found["moved"]))

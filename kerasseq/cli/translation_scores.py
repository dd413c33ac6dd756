"""Scores of translations, and of two answers that need no model."""

import zlib
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import labeled
from kerasseq.cli.console import Console, note, status
from kerasseq.datasets import Pairs

BUCKETS = 512  # of hashed characters and pairs of characters
ROWS = 20_000  # training pairs, at most, that the most similar one is among


def evaluate(translations: list[str], references: list[str]) -> dict[str, Any]:
    """Computes the scores of translations; None where a package is missing."""
    training = kerasseq.training
    exact = training.exact_match(translations, references)
    scores = {"exact": exact, "tested": len(translations)}
    try:
        scores["bleu"] = training.bleu(translations, references, tokenize="char")
        scores["chrf"] = training.chrf(translations, references)
    except ImportError as error:
        note(str(error))
        scores |= {"bleu": None, "chrf": None}
    return scores


def baselines(training: Pairs, tested: Pairs) -> dict[str, dict[str, Any]]:
    """Scores the source itself, and the target of the most similar training source.

    Args:
        training: The training pairs.
        tested: The held-out pairs.
    """
    with status("translating by the most similar training pair"):
        known = np.stack([_counts(text) for text in training.sources[:ROWS]])
        nearest = [_nearest(known, text) for text in tested.sources]
    answers = {
        "a copy of the source": tested.sources,
        "the most similar training pair": [training.targets[n] for n in nearest],
    }
    return {name: evaluate(each, tested.targets) for name, each in answers.items()}


def _counts(text: str) -> np.ndarray:
    """Counts hashed characters and pairs of them, and scales the counts to norm 1."""
    parts = [*text, *(text[n : n + 2] for n in range(len(text) - 1))]
    hashed = [zlib.crc32(part.encode("utf-8", "replace")) % BUCKETS for part in parts]
    counts = np.bincount(hashed, minlength=BUCKETS).astype("float32")
    return counts / max(float(np.linalg.norm(counts)), 1.0)


def _nearest(known: np.ndarray, text: str) -> int:
    """Returns the row that is most similar to a text.

    Examples:
        >>> _nearest(np.stack([_counts("one two"), _counts("three")]), "two one")
        0
    """
    return int(np.argmax(known @ _counts(text)))


def show_verdict(console: Console, results: dict[str, Any]) -> None:
    """Prints a sentence if the model does not beat these answers."""
    name = "exact" if results["chrf"] is None else "chrf"
    what = {"exact": "exact matches in percent", "chrf": "chrF"}[name]
    others = {other: each[name] for other, each in results["baselines"].items()}
    labeled.show_verdict(console, results["model"], results[name], others, what)

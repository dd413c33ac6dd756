"""Scores of translations, and of two answers that need no model."""

import zlib
from typing import Any

import numpy as np

import kerasseq
from kerasseq.cli import verdict
from kerasseq.cli.console import note, status
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


def of_each(translations: list[str], references: list[str]) -> tuple[str, np.ndarray]:
    """Returns the score of each translation by itself, and what it is.

    Examples:
        >>> what, scores = of_each(["one", "ten"], ["one", "two"])
        >>> scores.tolist()[0]
        100.0
    """
    rows = zip(translations, references, strict=True)
    try:
        scores = [kerasseq.training.chrf([one], [other]) for one, other in rows]
        return "mean chrF of a translation", np.array(scores)
    except ImportError:
        equal = np.array(translations) == np.array(references)
        return "exact matches in percent", 100.0 * equal


def answers(training: Pairs, tested: Pairs) -> dict[str, list[str]]:
    """Returns the source itself, and the target of the most similar training source.

    Args:
        training: The training pairs.
        tested: The held-out pairs.
    """
    with status("translating by the most similar training pair"):
        known = np.stack([_counts(text) for text in training.sources[:ROWS]])
        nearest = [_nearest(known, text) for text in tested.sources]
    return {
        "a copy of the source": tested.sources,
        "the most similar training pair": [training.targets[n] for n in nearest],
    }


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


def verdict_of(
    name: str,
    translations: list[str],
    others: dict[str, list[str]],
    references: list[str],
    advice: list[str],
) -> dict[str, Any]:
    """Returns whether the translations are better than answers without a model.

    Args:
        name: The model.
        translations: Its translations.
        others: The other answers, by name.
        references: The right ones.
        advice: The options that are most likely to help.
    """
    what, own = of_each(translations, references)
    scores = {other: of_each(each, references)[1] for other, each in others.items()}
    means = {other: float(each.mean()) for other, each in scores.items()}
    better_by = verdict.difference(own - scores[verdict.best_of(means)])
    words = name, float(own.mean()), means, what, better_by, advice
    return verdict.verdict(*words, rows="held-out pairs")

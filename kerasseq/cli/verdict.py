"""The sentence that ends a result: whether a model beats the best simple model.

The interval of the difference is that of the paired bootstrap (Efron, 1979): both
models are scored on the same samples of the held-out rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

SAMPLES = 1000  # of the bootstrap
LEVEL = 0.95  # of the interval
PART = 2**22  # counts that are drawn at a time


class Difference(NamedTuple):
    """How much better a model is than another one on the same rows.

    Attributes:
        mean: The difference of their scores.
        low: The lower end of its interval; None for a single row, which has none.
        high: The upper end.
        rows: Number of rows.
    """

    mean: float
    low: float | None
    high: float | None
    rows: int

    def of(self, rows: str) -> str:
        """Returns the difference with its interval.

        Args:
            rows: What the rows are called, such as "held-out rows".
        """
        rows = rows[:-1] if self.rows == 1 else rows
        return f"{self.mean:+.3f} ({self.interval}{self.rows:,} {rows})"

    def reversed(self) -> "Difference":
        """Returns the difference of the other model."""
        if self.low is None:
            return self._replace(mean=0.0 - self.mean)
        return self._replace(
            mean=0.0 - self.mean, low=0.0 - self.high, high=0.0 - self.low
        )

    @property
    def interval(self) -> str:
        """The interval for a sentence; "" without one."""
        if self.low is None:
            return ""
        return f"{100 * LEVEL:g} % interval {self.low:+.3g} to {self.high:+.3g}, "

    @property
    def is_certain(self) -> bool:
        """Whether the whole interval is above 0."""
        return self.low is not None and self.low > 0


def difference(
    gains: Sequence[float] | np.ndarray,
    sizes: Sequence[float] | np.ndarray | None = None,
) -> Difference:
    """Computes the mean of gains, with its bootstrap interval.

    Args:
        gains: By how much a model is better in each row: right answers less those of
            the other model.
        sizes: The number of answers of each row; None for one.

    Examples:
        >>> difference([1, 0, 0, 1, 0, -1, 0, 1])
        Difference(mean=0.25, low=-0.25, high=0.625, rows=8)
    """
    gains = np.asarray(gains, "float64")
    sizes = np.ones(len(gains)) if sizes is None else np.asarray(sizes, "float64")
    rng, count = np.random.default_rng(0), len(gains)
    mean = float(gains.sum() / sizes.sum())
    if count < 2:
        return Difference(mean, None, None, count)
    drawn = []
    for start in range(0, SAMPLES, max(1, PART // count)):
        size = min(SAMPLES - start, max(1, PART // count))
        weights = rng.multinomial(count, np.full(count, 1 / count), size)
        drawn.append((weights @ gains) / np.maximum(weights @ sizes, 1))
    ends = np.quantile(np.concatenate(drawn), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Difference(mean, *map(float, ends), count)


def verdict(
    name: str,
    score: float,
    others: Mapping[str, float],
    what: str,
    better_by: Difference,
    advice: Sequence[str],
    *,
    rows: str = "held-out rows",
    lowest: bool = False,
) -> dict[str, Any]:
    """Returns whether a model beats the best simple model, as plain data.

    Args:
        name: The model.
        score: Its score.
        others: The scores of the simple models, by name.
        what: What the score is, such as "accuracy on the held-out rows".
        better_by: By how much it is better than the best of them.
        advice: The options that are most likely to help.
        rows: What the rows of the difference are called.
        lowest: Whether a lower score is better.

    Examples:
        >>> by = difference([1, 0, 0, 1, 0, -1, 0, 1])
        >>> verdict("gru", 0.75, {"majority": 0.5}, "accuracy", by, [])["better"]
        False
    """
    best = best_of(others, lowest)
    by, shown = "difference", better_by
    if lowest:
        by = "lower by" if better_by.mean > 0 else "higher by"
        shown = better_by if better_by.mean > 0 else better_by.reversed()
    numbers = f"{what} {score:.3f}, {best} {others[best]:.3f}, {by} {shown.of(rows)}"
    better = better_by.is_certain
    if better:
        sentence = f"{name} is better than the best simple model: {numbers}."
    elif better_by.mean > 0:
        sentence = (
            f"{name} is not clearly better than a simple model: {numbers}. The "
            "difference may be chance; more data would tell."
        )
    else:
        sentence = (
            f"{name} does not beat a simple model: {numbers}. Until it does, the "
            "simple model is the better choice."
        )
    if not better and advice:
        sentence += f" Most likely to help: {' or '.join(advice)}."
    judged = {"sentence": sentence, "better": better, "baseline": best}
    return judged | better_by._asdict()


def compare(
    name: str,
    own: np.ndarray,
    others: Mapping[str, np.ndarray],
    what: str,
    advice: Sequence[str],
    *,
    sizes: np.ndarray | None = None,
    rows: str = "held-out rows",
    lowest: bool = False,
) -> dict[str, Any]:
    """Returns what `verdict` does, from the scores of a model in each row.

    Args:
        name: The model.
        own: Its score in each row: right answers, or errors.
        others: Those of simple models, by name.
        what: What the score is.
        advice: The options that are most likely to help.
        sizes: The number of answers of each row; None for one.
        rows: What the rows are called.
        lowest: Whether a lower score is better.

    Examples:
        >>> one, half = np.ones(8), np.array([0, 1] * 4)
        >>> compare("gru", one, {"majority": half}, "accuracy", [])["mean"]
        0.5
    """
    count = len(own) if sizes is None else np.sum(sizes)
    scores = {other: float(np.sum(each) / count) for other, each in others.items()}
    best = others[best_of(scores, lowest)]
    better_by = difference(best - own if lowest else own - best, sizes)
    words = name, float(np.sum(own) / count), scores, what, better_by, advice
    return verdict(*words, rows=rows, lowest=lowest)


def of_training(
    numbers: str, better_by: Difference, rows: str, advice: str
) -> dict[str, Any]:
    """Returns whether training makes a model better than it was, as plain data.

    Args:
        numbers: The scores in words.
        better_by: By how much it is better than before.
        rows: What the rows of the difference are called.
        advice: What is most likely to help.

    Examples:
        >>> by = difference([0.5] * 9 + [-0.5])
        >>> of_training("share 0.9, chance 0.5", by, "votes", "more votes")["better"]
        True
    """
    numbers = f"{numbers}, difference {better_by.of(rows)}"
    if better_by.is_certain:
        sentence = f"Training makes the model better on {rows}: {numbers}."
    elif better_by.mean > 0:
        sentence = (
            f"It is not clear that training makes the model better on {rows}: "
            f"{numbers}. The difference may be chance. Most likely to help: {advice}."
        )
    else:
        sentence = (
            f"Training does not make the model better on {rows}: {numbers}. Most "
            f"likely to help: {advice}."
        )
    better = better_by.is_certain
    return {"sentence": sentence, "better": better} | better_by._asdict()


def best_of(others: Mapping[str, float], lowest: bool = False) -> str:
    """Returns the name of the best simple model.

    Args:
        others: The scores of the simple models, by name.
        lowest: Whether a lower score is better.

    Examples:
        >>> best_of({"majority": 0.5, "logistic regression": 0.75})
        'logistic regression'
    """
    choose = min if lowest else max
    return choose(others, key=lambda other: others[other])

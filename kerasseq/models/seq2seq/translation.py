"""A generated target; batches of sources, and the seeds of their draws."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import bucket
from kerasseq.models.seq2seq.vocabulary import Vocabulary


@dataclasses.dataclass(frozen=True)
class Translation:
    """The target generated for one source; `str(translation)` is its text.

    Attributes:
        text: The target: a string, or an array of ids for a model without tokenizers.
        score: Its log-probability among targets without padding and start, which are
            never written; of a beam with length penalty, the score.
        alignment: Attention weights, an array `(target tokens, source tokens)`, or None
            for a model without attention. The last row is the end token.
        source_tokens: Labels of the columns of the alignment.
        target_tokens: Labels of its rows.
        candidates: The `n_best` of a beam as pairs of text and score, best first.
        unknown: Characters of the source that the tokenizer does not know, with counts.
        maps: The alignment over the feature map of a picture, an array `(target tokens,
            rows, columns)`, see `plot_caption`; None for other sources.
    """

    text: Any
    score: float
    alignment: np.ndarray | None
    source_tokens: list[str]
    target_tokens: list[str]
    candidates: list[tuple[Any, float]]
    unknown: dict[str, int]
    maps: np.ndarray | None = None

    @classmethod
    def of(
        cls, vocabulary: Vocabulary, ids: np.ndarray, scores: np.ndarray, **others: Any
    ) -> Self:
        """Makes the translation of hypotheses `(N, T)`, the best first."""
        texts = [vocabulary.decode(each) for each in ids]
        candidates = zip(texts, scores.tolist(), strict=True)
        return cls(
            text=texts[0],
            score=float(scores[0]),
            candidates=[(text, score) for text, score in candidates if score > -np.inf],
            **others,
        )

    def __str__(self) -> str:
        return str(self.text)


def group_by_length(
    rows: Sequence[Sequence[int] | np.ndarray] | np.ndarray, batch_size: int
) -> Iterator[np.ndarray]:
    """Yields the indices of each batch: rows that are padded to the same length.

    The default length of a target then depends on its own source only.

    Examples:
        >>> rows = [[5] * 3, [5] * 20, [5] * 7, [5] * 8]
        >>> [n.tolist() for n in group_by_length(rows, batch_size=2)]
        [[0, 2], [3], [1]]
    """
    lengths = np.array([bucket(len(row)) for row in rows])
    for length in np.unique(lengths):
        indices = np.flatnonzero(lengths == length)
        yield from np.split(indices, range(batch_size, len(indices), batch_size))


def row_seeds(seed: int | None, count: int) -> np.ndarray:
    """Returns a seed for each row, so that batches draw different numbers.

    Examples:
        >>> bool(np.all(row_seeds(7, 3)[:2] == row_seeds(7, 2)))
        True
    """
    if seed is not None:
        checks.whole_number("seed", seed, 0)
    return np.random.default_rng(seed).integers(2**31, size=count)

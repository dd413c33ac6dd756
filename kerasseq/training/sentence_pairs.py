"""Sentence pairs for BERT's next sentence prediction.

A pair is one row, `[CLS] a [SEP] b [SEP]`, in which a "sentence" is a span of text, as
long as possible. In half of the pairs, or another fraction, b follows a in its
document; in the others it is from another document.

Devlin et al. 2019, appendix A.2, without the sequences that are shortened at random.
Course slides A.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from kerasseq.core import checks
from kerasseq.training.batches import NumberedBatches
from kerasseq.training.masked_lm import MaskedLMMaskGenerator

# Inputs, labels and weights.
MaskedBatch: TypeAlias = tuple[
    dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]
]


class SentencePairs(NumberedBatches):
    """Batches of sentence pairs from documents, drawn anew in each epoch.

    Args:
        documents: A list of documents, each a list of sentences, each ids `(tokens,)`.
        start: The id of `[CLS]`.
        end: The id of `[SEP]`.
        padding: The id of `[PAD]`.
        sequence_length: Ids in a row, with special tokens. Sentences longer than half
            of it are split.
        batch_size: Pairs in a batch.
        seed: Seed of order and draws.
        next_rate: Fraction of the pairs in which b follows a.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If there are fewer than two documents, none has two sentences, the
            rows are too short, or the fraction is out of range.

    Examples:
        >>> documents = [[[10, 11], [12]], [[20], [21, 22]]]
        >>> pairs = SentencePairs(documents, 2, 3, sequence_length=9, batch_size=2)
        >>> x, follows = pairs.batch(0)
        >>> sorted(follows.tolist())
        [0, 1]
        >>> x["segments"][0].tolist()[:3]
        [0, 0, 0]
    """

    def __init__(
        self,
        documents: Iterable[Sequence[Sequence[int]]],
        start: int,
        end: int,
        padding: int = 0,
        *,
        sequence_length: int = 128,
        batch_size: int = 32,
        seed: int = 0,
        next_rate: float = 0.5,
    ) -> None:
        checks.whole_number("sequence_length", sequence_length, at_least=5)
        self.next_rate: float = checks.fraction("next_rate", next_rate)
        for name, mark in (("start", start), ("end", end), ("padding", padding)):
            checks.whole_number(name, mark, at_least=0)
        documents = checks.several("documents", documents, "documents")
        self.marks: tuple[int, int, int] = start, end, padding
        self.sequence_length = sequence_length
        half = (sequence_length - 3) // 2
        parts = [cut(document, half) for document in documents]
        self._sizes = np.array([len(p) for p in parts if p], int)
        if len(self._sizes) < 2:
            raise ValueError(
                f"expected at least two documents with text, received "
                f"{len(self._sizes)}: negative pairs need sentences of another document"
            )
        self._parts = [part for document in parts for part in document]
        self._firsts = np.cumsum(self._sizes) - self._sizes
        self._document = np.repeat(np.arange(len(self._sizes)), self._sizes)
        same = self._document[1:] == self._document[:-1]
        self._starts = np.flatnonzero(same)
        if not len(self._starts):
            raise ValueError(
                "expected a document with at least two sentences, received none"
            )
        super().__init__(len(self._starts), batch_size, seed)

    def order(self, draw: np.random.Generator) -> np.ndarray:
        """Returns the rows of an epoch: the spans a and b, and whether b follows a."""
        a = draw.permutation(self._starts)
        # The fraction holds in each batch, too.
        follows = np.diff(np.floor(np.arange(len(a) + 1) * self.next_rate)).astype(int)
        # Any span except those of the same document, which are consecutive.
        size, first = self._sizes[self._document[a]], self._firsts[self._document[a]]
        b = draw.integers(len(self._parts) - size)
        b = np.where(b < first, b, b + size)
        return np.stack([a, np.where(follows, a + 1, b), follows], axis=1)

    def all(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Returns all pairs of the first epoch."""
        return self.take(self.order(np.random.default_rng([self.seed, 0])))

    def take(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        pairs = [(self._parts[a], self._parts[b]) for a, b, _ in rows]
        return pack(pairs, *self.marks, self.sequence_length), rows[:, 2].astype(
            "int32"
        )


class MaskedPairs(NumberedBatches):
    """Sentence pairs with masked tokens, for the pre-training of BERT.

    Args:
        pairs: `SentencePairs`.
        masking: A `MaskedLMMaskGenerator`.
    """

    def __init__(self, pairs: SentencePairs, masking: MaskedLMMaskGenerator) -> None:
        self.pairs = pairs
        self.masking = masking
        sizes = pairs.rows, pairs.batch_size, pairs.seed
        super().__init__(*sizes, pairs.take, order=pairs.order)

    def all(self) -> MaskedBatch:
        """Returns all pairs of the first epoch as one batch."""
        return self.change(self.pairs.all(), 0)

    def change(
        self, batch: tuple[dict[str, np.ndarray], np.ndarray], number: int
    ) -> MaskedBatch:
        """Returns inputs, labels and weights of batch `number` of the run."""
        x, follows = batch
        masked = self.masking(x["ids"], number)
        inputs = {**x, "ids": masked.ids, "positions": masked.positions}
        labels = {"tokens": masked.labels, "next": follows}
        ones = np.ones(len(follows), "float32")
        return inputs, labels, {"tokens": masked.weights, "next": ones}


def cut(sentences: Sequence[Sequence[int]], half: int) -> list[list[int]]:
    """Joins the sentences of a document to long spans, at least two if possible.

    Args:
        sentences: A list of rows of ids.
        half: Maximum number of ids in a span.

    Examples:
        >>> cut([[1, 2], [3], [4, 5, 6, 7]], half=3)
        [[1, 2, 3], [4, 5, 6], [7]]
        >>> cut([[1], [2]], half=3)
        [[1], [2]]
    """
    limit = min(half, -(-sum(map(len, sentences)) // 2))
    parts = []
    for ids in sentences:
        ids = [int(i) for i in ids]
        for start in range(0, len(ids), half):
            part = ids[start : start + half]
            if parts and len(parts[-1]) + len(part) <= limit:
                parts[-1] = parts[-1] + part
            else:
                parts.append(part)
    return parts


def pack(
    pairs: Sequence[Sequence[Sequence[int] | np.ndarray]],
    start: int,
    end: int,
    padding: int,
    length: int,
    separators: int = 1,
) -> dict[str, np.ndarray]:
    """Packs rows `[CLS] a [SEP] b [SEP]` into two arrays.

    Args:
        pairs: A list of tuples of one or two rows of ids.
        start: The id of `[CLS]`.
        end: The id of `[SEP]`.
        padding: The id of `[PAD]`.
        length: Ids in a row.
        separators: Number of `[SEP]` between a and b: 2 in RoBERTa.

    Returns:
        A dictionary of "ids" and "segments", int32 `(rows, length)`: the segment is 1
        for b and the `[SEP]` after it; with two separators it is 0 everywhere.

    Examples:
        >>> x = pack([([5, 6], [7]), ([8],)], 2, 3, 0, length=7)
        >>> x["ids"].tolist()
        [[2, 5, 6, 3, 7, 3, 0], [2, 8, 3, 0, 0, 0, 0]]
        >>> x["segments"].tolist()
        [[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0]]
    """
    ids = np.full((len(pairs), length), padding, "int32")
    segments = np.zeros((len(pairs), length), "int32")
    for row, pair in enumerate(pairs):
        joined = [start]
        for n, part in enumerate(pair):
            joined += [end] * (separators - 1 if n else 0)
            begin = len(joined) if n else 0
            joined += [*part, end]
            segments[row, begin : len(joined)] = n if separators == 1 else 0
        ids[row, : len(joined)] = joined
    return {"ids": ids, "segments": segments}

r"""Counts of co-occurrences, for GloVe.

$$X_{ij} = \sum_{t} \sum_{1 \le |o| \le w} \frac{[x_t = i][x_{t+o} = j]}{|o|}$$

over the positions of a text whose word at $t + o$ is in the same sentence. Only pairs
that occur are stored.

From: Pennington et al., "GloVe: Global Vectors for Word Representation", 2014.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

PENDING = 2**22  # counts that are merged at a time


class Cooccurrences(NamedTuple):
    """Pairs of words that occur together.

    Attributes:
        pairs: Ids of word and context, int32, `(n, 2)`, sorted.
        counts: The sum of 1 / distance of each pair, float64, `(n,)`.
    """

    pairs: np.ndarray
    counts: np.ndarray


def cooccurrences(
    chunks: Iterable[tuple[np.ndarray, np.ndarray]], size: int, window: int
) -> Cooccurrences:
    """Counts the pairs of words at most `window` apart.

    Args:
        chunks: Ids, and the sentence of each, as of `vector_corpus.id_chunks`.
        size: Vocabulary size.
        window: The largest distance.

    Returns:
        The `Cooccurrences`.

    Raises:
        ValueError: If no words occur together.

    Examples:
        >>> counted = cooccurrences([(np.array([0, 1, 2]), np.zeros(3))], 3, window=2)
        >>> counted.pairs.tolist()
        [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]
        >>> counted.counts
        array([1. , 0.5, 1. , 1. , 0.5, 1. ])
    """
    keys, counts = [], []
    pending = 0
    for ids, sentences in chunks:
        for new_keys, weight in _pairs_of(ids.astype("int64"), sentences, size, window):
            keys.append(new_keys)
            counts.append(np.full(len(new_keys), weight))
            pending += len(new_keys)
        if pending > PENDING:
            keys, counts = ([part] for part in _merged(keys, counts))
            pending = 0
    if not any(map(len, keys)):
        raise ValueError(
            "no two words of the vocabulary occur in one sentence. Pass longer "
            "sentences, or lower min_count"
        )
    merged, totals = _merged(keys, counts)
    pairs = np.stack(np.divmod(merged, size), axis=1).astype("int32")
    return Cooccurrences(pairs, totals)


def _pairs_of(ids, sentences, size, window):
    """Yields the pairs at each distance, as numbers, in both orders."""
    for distance in range(1, min(window, len(ids) - 1) + 1):
        together = sentences[distance:] == sentences[:-distance]
        first, second = ids[:-distance][together], ids[distance:][together]
        yield first * size + second, 1 / distance
        yield second * size + first, 1 / distance


def _merged(keys, counts):
    """Adds up the counts of equal keys."""
    distinct, where = np.unique(np.concatenate(keys), return_inverse=True)
    return distinct, np.bincount(where, np.concatenate(counts), len(distinct))

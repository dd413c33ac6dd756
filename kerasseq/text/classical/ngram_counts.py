r"""Counts of all n-grams of a text up to length n, as sorted integers.

An n-gram of $m + 1$ tokens is encoded as one integer: the rank of its first $m$ tokens
among the n-grams of $m$ tokens, times $V$, plus its last token. Ranks are below the
length of the text, so no integer overflows, and looking up a whole text is one binary
search per length.

The n-grams of n tokens and the last $n - 1$ tokens of the text determine all shorter
n-grams, since each of them is the beginning of a longer one or the end of the text.
Only these are saved, and inconsistent counts in a file are detected.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.text.counting import rank_among
from kerasseq.text.texts import id_array


class NGramCounts:
    """The n-grams of 1 to n tokens in a text; level m has those of m + 1 tokens.

    Args:
        n: Length of the longest n-grams.
        size: Vocabulary size.
        tail: The text, or its last `n - 1` tokens if the rest is in `rows`.
        rows: `(grams, n)`: distinct n-grams.
        weights: `(grams,)`: count of each.

    Attributes:
        grams: For each level, the n-grams as sorted integers.
        counts: For each level, the count of each n-gram: $N(c u)$.
        totals: For each level, the number of tokens after each context: $N(c)$.

    Examples:
        >>> counts = NGramCounts(2, 3, np.array([0, 1, 0, 2]))
        >>> counts.counts[0], counts.totals[1]  # 0 is seen twice; nothing follows 2
        (array([2, 1, 1]), array([2., 1., 0.]))
    """

    def __init__(
        self,
        n: int,
        size: int,
        tail: np.ndarray,
        rows: np.ndarray | None = None,
        weights: ArrayLike = (),
    ):
        rows = np.zeros((0, n), "int64") if rows is None else rows
        self.n: int = n
        self.size: int = size
        self.tail: np.ndarray = tail[len(tail) - n + 1 :].copy()  # frees the text
        self.grams: list[np.ndarray] = []
        self.counts: list[np.ndarray] = []
        self.totals: list[np.ndarray] = []
        rank, contexts = np.zeros(len(rows) + len(tail), "int64"), 1
        for m in range(n):
            tokens = np.concatenate([rows[:, m], tail[m:]])
            grams, inverse = np.unique(rank * size + tokens, return_inverse=True)
            seen = np.concatenate([weights, np.ones(len(tail) - m)])
            counts = np.bincount(inverse, seen).astype("int64")
            self.grams.append(grams)
            self.counts.append(counts)
            self.totals.append(np.bincount(grams // size, counts, minlength=contexts))
            rank, contexts = (
                inverse[:-1],
                len(grams),
            )  # the last one has no continuation

    def find(self, context: np.ndarray) -> int:
        """Returns the rank of a context among those of its length, -1 if unseen."""
        rank = 0
        for grams, token in zip(self.grams, context.tolist(), strict=False):
            rank = int(rank_among(grams, rank * self.size + token))
            if rank < 0:
                break
        return rank

    def followers(self, m: int, rank: int) -> tuple[np.ndarray, slice]:
        """Returns the tokens that followed a context of m tokens, and their n-grams."""
        start = rank * self.size
        first, last = np.searchsorted(self.grams[m], [start, start + self.size])
        return self.grams[m][first:last] - start, slice(first, last)

    def walk(self, ids: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Looks up every n-gram of a text, the shorter ones first.

        Args:
            ids: `(time,)`.

        Yields:
            For each level m the rank of the context `ids[t : t + m]` and that of the
            n-gram `ids[t : t + m + 1]`, -1 if unseen, each `(time - m,)`.
        """
        rank = np.zeros(len(ids), "int64")
        for m in range(min(self.n, len(ids))):
            wanted = np.where(rank < 0, -1, rank * self.size + ids[m:])
            ranks = rank_among(self.grams[m], wanted)
            yield rank, ranks
            rank = ranks[:-1]

    def suffixes(self) -> list[np.ndarray]:
        """Returns for each level the index of each n-gram without its first token.

        Examples:
            >>> counts = NGramCounts(2, 3, np.array([0, 1, 0, 2]))
            >>> counts.suffixes()[1]  # of 01, 02, 10
            array([1, 2, 0])
        """
        suffixes = [np.zeros(len(self.grams[0]), "int64")]
        for m in range(1, self.n):
            context, token = np.divmod(self.grams[m], self.size)
            wanted = suffixes[-1][context] * self.size + token
            suffixes.append(rank_among(self.grams[m - 1], wanted))
        return suffixes

    def lines(self) -> list[str]:
        """Returns the n-grams as lines of n tokens and a count.

        Examples:
            >>> NGramCounts(2, 3, np.array([0, 1, 0, 1])).lines()
            ['0 1 2', '1 0 1']
        """
        columns, rank = [self.counts[-1]], np.arange(len(self.grams[-1]))
        for grams in reversed(self.grams):
            rank, token = np.divmod(grams[rank], self.size)
            columns.insert(0, token)
        table = np.column_stack(columns).tolist()
        return [" ".join(map(str, row)) for row in table]

    @classmethod
    def from_lines(
        cls, n: int, size: int, lines: list[str], tail: ArrayLike
    ) -> "NGramCounts":
        """Builds the counts from the result of `lines` and the end of the text.

        Args:
            n: Length of the longest n-grams.
            size: Vocabulary size.
            lines: A list of strings, each n tokens and a count.
            tail: The last `n - 1` tokens of the text.

        Raises:
            TypeError: If a token of `tail` is not a whole number.
            ValueError: If a line is malformed, a token is outside the vocabulary, a
                count is below 1, or the counts are inconsistent.
        """
        if not isinstance(lines, list) or not lines:
            raise ValueError("`counts` must be a list of at least one line.")
        table = np.array([_numbers(line, n + 1, i) for i, line in enumerate(lines)])
        rows, weights = table[:, :-1], table[:, -1]
        tail = id_array(tail, size, name="end")
        if len(tail) != n - 1:
            raise ValueError(
                f"`end` must have n - 1 = {n - 1} ids, received {len(tail)}."
            )
        _check_rows(rows, weights, size)
        result = cls(n, size, tail, rows, weights)
        if len(result.grams[-1]) < len(rows):
            raise ValueError("`counts` has an n-gram twice. Add up its counts.")
        result._check_one_text()
        return result

    def _check_one_text(self):
        """Checks that an n-gram occurs at least as often as the end of longer ones."""
        suffixes = self.suffixes()
        for m in range(1, self.n):
            known = suffixes[m] >= 0
            ends = np.bincount(
                suffixes[m][known], self.counts[m][known], len(self.grams[m - 1])
            )
            more = self.counts[m - 1] - ends
            if not known.all() or more.min() < 0:
                raise ValueError(
                    f"`counts` and `end` are inconsistent: an n-gram of {m} tokens "
                    "occurs less often than the longer ones that end with it. Fit the "
                    "model again."
                )


def _numbers(line, width: int, number: int) -> list[int]:
    """Returns the numbers in a line of an untrusted file."""
    try:
        numbers = [int(part) for part in line.split()]
    except (AttributeError, ValueError):
        numbers = []
    if len(numbers) != width or max(map(abs, numbers)) >= 2**40:  # sums stay exact
        raise ValueError(
            f"`counts[{number}]` must be {width - 1} ids and a count, separated "
            f"by spaces, received {repr(line)[:60]}."
        )
    return numbers


def _check_rows(rows: np.ndarray, weights: np.ndarray, size: int):
    if (weights < 1).any():
        i = int((weights < 1).argmax())
        raise ValueError(
            f"`counts[{i}]` must have a count of at least 1, received {weights[i]}."
        )
    outside = ((rows < 0) | (rows >= size)).any(axis=1)
    if outside.any():
        i = int(outside.argmax())
        raise ValueError(
            f"`counts[{i}]` has the ids {rows[i].tolist()}, outside the "
            f"vocabulary: ids run from 0 to {size - 1}."
        )

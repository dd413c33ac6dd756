r"""How often each n-gram occurs in a text, for all lengths up to n, as sorted numbers.

A gram of $m + 1$ tokens is written as one number: the rank of its first $m$ tokens
among the grams of $m$ tokens, times $V$, plus its last token. Ranks stay below the
length of the text, so nothing overflows, whatever $V$ to the $n$ is, and looking up a
whole text is one binary search per length.

Everything follows from the n-grams of n tokens and the last $n - 1$ tokens of the text:
a shorter gram begins a longer one, unless the text ends before that. So no more than
these is saved, and a file whose counts belong to no text is found out.
"""

import numpy as np

from kerasseq.text.counting import rank_among
from kerasseq.text.ids import id_array


class NGramCounts:
    """The grams of 1 to n tokens in a text; level m has those of m + 1.

    Args:
        n: The longest gram.
        size: The vocabulary's size.
        tail: The text, or the last `n - 1` tokens of it with the rest in `rows`.
        rows: `(grams, n)`: distinct n-grams.
        weights: `(grams,)`: how often each of them was seen.

    Attributes:
        grams: Per level, the grams as sorted numbers.
        counts: Per level, how often each was seen: $N(c u)$.
        totals: Per level, what followed each context, in all: $N(c)$.

    Examples:
        >>> counts = NGramCounts(2, 3, np.array([0, 1, 0, 2]))
        >>> counts.counts[0], counts.totals[1]  # 0 is seen twice; nothing follows 2
        (array([2, 1, 1]), array([2., 1., 0.]))
    """

    def __init__(self, n: int, size: int, tail, rows=None, weights=()):
        rows = np.zeros((0, n), "int64") if rows is None else rows
        self.n, self.size = n, size
        self.tail = tail[len(tail) - n + 1 :].copy()  # the text itself may go
        self.grams, self.counts, self.totals = [], [], []
        rank, contexts = np.zeros(len(rows) + len(tail), "int64"), 1
        for m in range(n):
            tokens = np.concatenate([rows[:, m], tail[m:]])
            grams, inverse = np.unique(rank * size + tokens, return_inverse=True)
            seen = np.concatenate([weights, np.ones(len(tail) - m)])
            counts = np.bincount(inverse, seen).astype("int64")
            self.grams.append(grams)
            self.counts.append(counts)
            self.totals.append(np.bincount(grams // size, counts, minlength=contexts))
            rank, contexts = inverse[:-1], len(grams)  # the last begins nothing longer

    def find(self, context: np.ndarray) -> int:
        """Return the rank of a context among those of its length, -1 if unseen."""
        rank = 0
        for grams, token in zip(self.grams, context.tolist(), strict=False):
            rank = int(rank_among(grams, rank * self.size + token))
            if rank < 0:
                break
        return rank

    def followers(self, m: int, rank: int) -> tuple[np.ndarray, slice]:
        """Return the tokens that followed a context of m tokens, and their grams."""
        start = rank * self.size
        first, last = np.searchsorted(self.grams[m], [start, start + self.size])
        return self.grams[m][first:last] - start, slice(first, last)

    def walk(self, ids: np.ndarray):
        """Look up every gram of a text, the shorter ones first.

        Args:
            ids: `(time,)`.

        Yields:
            For each level m the rank of the context `ids[t : t + m]` and that of the
            gram `ids[t : t + m + 1]`, -1 where unseen, each `(time - m,)`.
        """
        rank = np.zeros(len(ids), "int64")
        for m in range(min(self.n, len(ids))):
            wanted = np.where(rank < 0, -1, rank * self.size + ids[m:])
            found = rank_among(self.grams[m], wanted)
            yield rank, found
            rank = found[:-1]

    def suffixes(self) -> list[np.ndarray]:
        """Return per level where each gram without its first token stands, one below.

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
        """Return the n-grams as text: n tokens and the count in a line.

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
    def from_lines(cls, n: int, size: int, lines, tail) -> "NGramCounts":
        """Build the counts from what `lines` gave and the end of the text.

        Args:
            n: The longest gram.
            size: The vocabulary's size.
            lines: A list of strings, each n tokens and a count.
            tail: The last `n - 1` tokens of the text.

        Raises:
            TypeError: If a token of `tail` is no whole number.
            ValueError: If a line is none, a token is outside the vocabulary, a count is
                below 1, or no text has these counts.
        """
        if not isinstance(lines, list) or not lines:
            raise ValueError("`counts` must be a list of lines, at least one.")
        table = np.array([_numbers(line, n + 1, i) for i, line in enumerate(lines)])
        rows, weights = table[:, :-1], table[:, -1]
        tail = id_array(tail, size, name="end")
        if len(tail) != n - 1:
            raise ValueError(f"`end` must have n - 1 = {n - 1} ids, got {len(tail)}.")
        _check_rows(rows, weights, size)
        result = cls(n, size, tail, rows, weights)
        if len(result.grams[-1]) < len(rows):
            raise ValueError("`counts` has an n-gram twice: add up its counts.")
        result._check_one_text()
        return result

    def _check_one_text(self):
        """Each gram ends as many longer ones as it occurs, the first one less often."""
        suffixes = self.suffixes()
        for m in range(1, self.n):
            known = suffixes[m] >= 0
            ends = np.bincount(
                suffixes[m][known], self.counts[m][known], len(self.grams[m - 1])
            )
            more = self.counts[m - 1] - ends
            if not known.all() or more.min() < 0:
                raise ValueError(
                    f"`counts` and `end` are of no text: a gram of {m} tokens ends "
                    "longer ones more often than it occurs. Count anew."
                )


def _numbers(line, width: int, number: int) -> list[int]:
    """Return the numbers in a line that may come from anywhere."""
    try:
        numbers = [int(part) for part in line.split()]
    except (AttributeError, ValueError):
        numbers = []
    if len(numbers) != width or max(map(abs, numbers)) >= 2**40:  # sums stay exact
        raise ValueError(
            f"`counts[{number}]` must be {width - 1} ids and a count, with blanks "
            f"between them, got {repr(line)[:60]}."
        )
    return numbers


def _check_rows(rows: np.ndarray, weights: np.ndarray, size: int):
    if (weights < 1).any():
        i = int((weights < 1).argmax())
        raise ValueError(f"`counts[{i}]` counts {weights[i]}: a count is 1 or more.")
    outside = ((rows < 0) | (rows >= size)).any(axis=1)
    if outside.any():
        i = int(outside.argmax())
        raise ValueError(
            f"`counts[{i}]` has the ids {rows[i].tolist()}, outside the "
            f"vocabulary: ids run from 0 to {size - 1}."
        )

r"""Training of WordPiece: the pair of pieces with the highest score is merged.

Words are characters at first. Until the vocabulary has its size, the pair of
neighboring pieces with the highest score becomes one piece. There are two scores:

$$
\text{likelihood:}\; \frac{N(a\,b)}{N(a)\,N(b)} \qquad \text{count:}\; N(a\,b)
$$

The first is proportional to how much more often $b$ follows $a$ than by chance, so that
a frequent pair of two frequent letters is merged late.

Equal words are processed once, with their count, and a merge changes only words with
the pair. A heap, as in `bpe.py`, needs scores that only decrease; but a merge lowers
the counts of $a$ and $b$, which increases the likelihood score of other pairs with
them. So the counts are in arrays, and all scores are computed for each merge.

Schuster and Nakajima 2012; Google's trainer was never published. Hugging Face's trainer
goes by count.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kerasseq.text.tokenizers.bpe import merge_pair


class ScoredMerge(NamedTuple):
    """One merge of the training.

    Attributes:
        left: The token on the left.
        right: The token on the right.
        token: The merged token.
        count: Count of the pair at that step.
        score: Score of the pair.
    """

    left: str
    right: str
    token: str
    count: int
    score: float


def alphabet(words: Iterable[str], prefix: str) -> list[str]:
    """Returns all characters as starts of words, and with prefix inside words.

    Examples:
        >>> alphabet(["in", "a", "!"], "##")
        ['!', 'a', 'i', 'n', '##i', '##n']
    """
    alone = sorted(set().union(*words))
    inside = sorted(set().union(*(word for word in words if len(word) > 1)))
    return [*alone, *(prefix + character for character in inside)]


def learn(
    words: dict[str, int],
    vocabulary: Iterable[str],
    size: int,
    *,
    prefix: str,
    score: str,
    min_count: int,
) -> tuple[list[str], list[ScoredMerge]]:
    """Extends a vocabulary by merges.

    Ties are broken by count, then by the lower id of the left, then of the right token.

    Args:
        words: Count of each distinct word.
        vocabulary: Initial tokens, including the `alphabet`.
        size: Final vocabulary size, unless pairs become too rare.
        prefix: Prefix of tokens inside a word.
        score: "likelihood" or "count".
        min_count: Minimum count of a pair.

    Returns:
        The vocabulary and the list of `ScoredMerge`s.

    Examples:
        >>> start = alphabet(["oh", "ho"], "##")
        >>> tokens, merges = learn(
        ...     {"oh": 3, "ho": 1}, start, 5, prefix="##", score="count", min_count=1
        ... )
        >>> merges
        [ScoredMerge(left='o', right='##h', token='oh', count=3, score=3.0)]
    """
    vocabulary, merges = list(vocabulary), []
    id_of = {token: i for i, token in enumerate(vocabulary)}
    spelled = [
        [id_of[prefix + c if at else c] for at, c in enumerate(word)] for word in words
    ]
    corpus = _Corpus(spelled, list(words.values()), len(vocabulary))
    while len(vocabulary) < size and (best := corpus.best(score, min_count)):
        (left, right), count, value = best
        token = vocabulary[left] + vocabulary[right].removeprefix(prefix)
        if token not in id_of:  # a special token may be the same
            id_of[token] = len(vocabulary)
            vocabulary.append(token)
        corpus.merge((left, right), id_of[token])
        merges.append(
            ScoredMerge(vocabulary[left], vocabulary[right], token, count, value)
        )
    return vocabulary, merges


def read_merges(
    merges: list[list[Any]], known: set[str], prefix: str
) -> list[ScoredMerge]:
    """Checks the merges of a file: left, right, count and score of each.

    Raises:
        TypeError: If they are not a list.
        ValueError: If a merge does not result in a token of the vocabulary.

    Examples:
        >>> read_merges([["a", "##b", 2, 2.0]], {"a", "##b", "ab"}, "##")
        [ScoredMerge(left='a', right='##b', token='ab', count=2, score=2.0)]
    """
    if not isinstance(merges, list):
        raise TypeError(f"merges must be a list, received {repr(merges)[:60]}")
    return [_read_merge(merge, known, prefix) for merge in merges]


def _read_merge(merge, known, prefix):
    kinds = [type(part) for part in merge] if isinstance(merge, list) else None
    if kinds == [str, str, int, float]:
        left, right, count, score = merge
        token = left + right.removeprefix(prefix)
        if {left, right, token} <= known and right.startswith(prefix):
            return ScoredMerge(left, right, token, count, score)
    raise ValueError(
        f"the merge {repr(merge)[:60]} must be two tokens that together are a token of "
        "the vocabulary, a count and a score"
    )


class _Corpus:
    """Words as symbols, with the counts of symbols and pairs.

    Args:
        words: The symbols, as integers, of each distinct word.
        numbers: Count of each word.
        symbols: Initial number of symbols.
    """

    def __init__(self, words: list[list[int]], numbers: list[int], symbols: int):
        self.words, self.numbers = words, numbers
        self.words_of = defaultdict(set)
        self.symbol_count = np.zeros(symbols, "float64")
        self.pairs = _Pairs()
        change = defaultdict(int)
        for index, (word, number) in enumerate(zip(words, numbers, strict=True)):
            for symbol in word:
                self.symbol_count[symbol] += number
            for pair in pairwise(word):
                change[pair] += number
                self.words_of[pair].add(index)
        self.pairs.add(change)

    def best(self, score: str, min_count: int):
        """Returns the best pair, its count and score; None if all are too rare."""
        left, right, count = self.pairs.table()
        value = np.where(count < min_count, 0.0, count)
        if score == "likelihood":
            chance = self.symbol_count[left] * self.symbol_count[right]
            np.divide(value, chance, out=value, where=value > 0)
        highest = value.max(initial=0)
        if highest == 0:
            return None
        ties = np.flatnonzero(value == highest)
        order = np.lexsort((right[ties], left[ties], -count[ties]))
        place = ties[order[0]]
        pair = int(left[place]), int(right[place])
        return pair, int(count[place]), float(highest)

    def merge(self, pair, symbol):
        """Replaces a pair by `symbol` in all words, from left to right."""
        change, merged = defaultdict(int), 0
        for index in self.words_of.pop(pair):
            old, number = self.words[index], self.numbers[index]
            new = self.words[index] = merge_pair(old, pair, symbol)
            merged += number * (len(old) - len(new))
            for one in pairwise(old):
                change[one] -= number
                if one != pair:
                    self.words_of[one].discard(index)
            for one in pairwise(new):
                change[one] += number
                self.words_of[one].add(index)
        self.pairs.add(change)
        if symbol >= len(self.symbol_count):
            more = np.zeros(len(self.symbol_count))
            self.symbol_count = np.append(self.symbol_count, more)
        for part in pair:
            self.symbol_count[part] -= merged
        self.symbol_count[symbol] += merged


class _Pairs:
    """Counts of pairs, as columns of an array; rows of vanished pairs are reused."""

    def __init__(self):
        self._row, self._free = {}, []
        self._columns = np.zeros((3, 1024), "int64")  # left, right, count
        self._used = 0

    def table(self):
        """Returns left symbols, right symbols and counts; unused rows have count 0."""
        return self._columns[:, : self._used]

    def add(self, change: dict[tuple[int, int], int]):
        """Adds a change to the count of each pair."""
        for pair, number in change.items():
            if not number:
                continue
            row = self._row.get(pair)
            if row is None:
                row = self._new_row(pair)
            self._columns[2, row] += number
            if not self._columns[2, row]:
                self._free.append(self._row.pop(pair))

    def _new_row(self, pair):
        if self._free:
            row = self._free.pop()
        else:
            row = self._used
            self._used += 1
            if row == self._columns.shape[1]:
                self._columns = np.hstack([self._columns, np.zeros_like(self._columns)])
        self._columns[:2, row] = pair
        self._row[pair] = row
        return row

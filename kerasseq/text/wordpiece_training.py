r"""Learn the pieces of WordPiece: join two neighbours that belong together, repeat.

Words begin as characters. As long as the vocabulary may grow, the pair of neighbours
with the highest score becomes one piece. Two scores are in use:

$$
\text{likelihood:}\; \frac{N(a\,b)}{N(a)\,N(b)} \qquad \text{count:}\; N(a\,b)
$$

The first asks how much more often $b$ follows $a$ than it would by chance, so that a
frequent pair of two letters that are frequent anyway comes late.

Equal words are counted once, with their number, and a merge changes counts only in the
words that hold the pair. A heap of scores would not do: a merge takes occurrences from
$a$ and $b$, which raises the likelihood score of every other pair with one of them, and
an entry that promises too little is found too late. So the counts are kept in arrays,
and all scores are computed anew for each merge, which takes NumPy little time.

Schuster and Nakajima 2012; Google's trainer was never published. Hugging Face's trainer
goes by count.
"""

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kerasseq.text.bpe_training import replace


class ScoredMerge(NamedTuple):
    """A step of the training.

    Attributes:
        left: The token on the left.
        right: The token on the right.
        token: What they became.
        count: How often the pair occurred then.
        score: What it was chosen by.
    """

    left: str
    right: str
    token: str
    count: int
    score: float


def alphabet(words, prefix: str) -> list[str]:
    """Every character as the start of a word, and inside one if it has company there.

    Examples:
        >>> alphabet(["in", "a", "!"], "##")
        ['!', 'a', 'i', 'n', '##i', '##n']
    """
    alone = sorted(set().union(*words))
    inside = sorted(set().union(*(word for word in words if len(word) > 1)))
    return [*alone, *(prefix + character for character in inside)]


def learn(words: dict[str, int], vocabulary, size, *, prefix, score, min_count):
    """Grow a vocabulary by merges.

    Of pairs with the same score the more frequent one is taken, then the one whose left
    token, then whose right token has the lower id.

    Args:
        words: How often each distinct word occurs.
        vocabulary: The tokens to begin with, the `alphabet` among them.
        size: Of the vocabulary at the end, unless pairs become too rare.
        prefix: What a token inside a word begins with.
        score: "likelihood" or "count".
        min_count: A pair that occurs less often is not merged.

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
        if token not in id_of:  # as a special token may be
            id_of[token] = len(vocabulary)
            vocabulary.append(token)
        corpus.merge((left, right), id_of[token])
        merges.append(
            ScoredMerge(vocabulary[left], vocabulary[right], token, count, value)
        )
    return vocabulary, merges


def read_merges(merges, known: set[str], prefix: str) -> list[ScoredMerge]:
    """Merges as they stand in a file: left, right, count and score of each.

    Raises:
        TypeError: If they are no list.
        ValueError: If one does not make a token of the `known` ones from two.

    Examples:
        >>> read_merges([["a", "##b", 2, 2.0]], {"a", "##b", "ab"}, "##")
        [ScoredMerge(left='a', right='##b', token='ab', count=2, score=2.0)]
    """
    if not isinstance(merges, list):
        raise TypeError(f"merges must be a list, got {repr(merges)[:60]}")
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
    """Words as symbols, and how often each symbol and each pair of them occurs.

    Args:
        words: A list of symbols, whole numbers, for each distinct word.
        numbers: How often each word occurs.
        symbols: How many symbols there are to begin with.
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
        """The pair to merge, its count and its score; None if all are too rare."""
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
        """Put `symbol` where the pair stands, from left to right, in all words."""
        change, merged = defaultdict(int), 0
        for index in self.words_of.pop(pair):
            old, number = self.words[index], self.numbers[index]
            new = self.words[index] = replace(old, pair, symbol)
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
    """How often each pair occurs, as columns. A pair that is no more frees its row."""

    def __init__(self):
        self._row, self._free = {}, []
        self._columns = np.zeros((3, 1024), "int64")  # left, right, count
        self._used = 0

    def table(self):
        """Left symbols, right symbols and counts; unused rows have count 0."""
        return self._columns[:, : self._used]

    def add(self, change: dict[tuple[int, int], int]):
        """Change the counts of pairs by so much each."""
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

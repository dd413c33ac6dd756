r"""Fast training and merging of byte-pair encoding.

Training merges the most frequent pair of neighboring symbols, repeatedly; of equally
frequent pairs, the one that occurs first in the text. `basic_bpe.py` does this by
counting all pairs after each merge, in a time proportional to the number of merges
times the length of the text. The results here are the same, but:

- Equal words are processed once, with their count.
- `count[pair]` and the words with a pair, `words_of[pair]`, are updated: a merge
  changes only the words in which the pair occurs.
- A heap returns the best pair. An entry can only be too high, since the count of a pair
  decreases, and its first place in the text, counted in symbols of the beginning, moves
  to the right, except when one of its symbols is new; then it gets a new entry. So an
  entry is checked when it is popped, and pushed again with its current count.

Encoding links symbols in a list and keeps candidate merges in a heap, so that a word of
n symbols takes O(n log n): a text need not have spaces.

Gage 1994; for words Sennrich et al. 2016; course slide E.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

Pair = tuple[int, int]
Ranks = dict[Pair, tuple[int, int]]  # rank of a merge, and the merged id


class Merge(NamedTuple):
    """One merge of the training.

    Attributes:
        left: The token on the left.
        right: The token on the right.
        token: The merged token.
        count: Count of the pair at that step; None for merges from a file.
    """

    left: str
    right: str
    token: str
    count: int | None


def is_merge(merge: object, known: set[str]) -> bool:
    """Returns whether this is a pair of tokens, with or without count, that gives one.

    Examples:
        >>> is_merge(["a", "b", 3], {"a", "b", "ab"}), is_merge("ab", {"a", "b", "ab"})
        (True, False)
    """
    if not isinstance(merge, list | tuple) or len(merge) not in (2, 3):
        return False
    left, right = merge[:2]
    if not isinstance(left, str) or not isinstance(right, str):
        return False
    return left in known and right in known and left + right in known


def learn(
    words: dict[str, str],
    numbers: Iterable[int],
    vocabulary: Iterable[str],
    size: int,
    min_count: int,
) -> tuple[list[str], list[Merge]]:
    """Extends a vocabulary by merges.

    Args:
        words: The symbols of each distinct word, in order of appearance.
        numbers: Count of each word.
        vocabulary: Initial tokens, including all symbols.
        size: Final vocabulary size, unless pairs become too rare.
        min_count: Minimum count of a pair.

    Returns:
        The vocabulary and the list of `Merge`s.

    Examples:
        >>> learn({"oh": "oh", "ho": "ho"}, [3, 1], ["h", "o"], size=3, min_count=1)
        (['h', 'o', 'oh'], [Merge(left='o', right='h', token='oh', count=3)])
    """
    vocabulary = list(vocabulary)
    id_of = {token: i for i, token in enumerate(vocabulary)}
    ids = [[id_of[symbol] for symbol in word] for word in words.values()]
    learner, merges = MergeLearner(ids, list(numbers)), []
    while len(vocabulary) < size and (best := learner.best()):
        (left, right), count = best
        if count < min_count:
            break
        token = vocabulary[left] + vocabulary[right]
        if token not in id_of:  # other merges may result in the same token
            id_of[token] = len(vocabulary)
            vocabulary.append(token)
        learner.merge((left, right), id_of[token])
        merges.append(Merge(vocabulary[left], vocabulary[right], token, count))
    return vocabulary, merges


class MergeLearner:
    """Words as symbols, with the counts of neighboring pairs.

    Args:
        words: The symbols, as integers, of each distinct word, in order of appearance.
        numbers: Count of each word.

    Examples:
        >>> learner = MergeLearner([[0, 1, 0], [1, 0]], [2, 3])
        >>> learner.best()
        ((1, 0), 5)
        >>> learner.merge((1, 0), 2)
        >>> learner.words, learner.best()
        ([[0, 2], [2]], ((0, 2), 2))
    """

    def __init__(self, words: list[list[int]], numbers: list[int]):
        self.words: list[list[int]] = words
        self.numbers: list[int] = numbers
        self.width: defaultdict[int, int] = defaultdict(lambda: 1)  # of a symbol
        self.count: defaultdict[Pair, int] = defaultdict(int)
        self.words_of: defaultdict[Pair, set[int]] = defaultdict(set)
        for index in range(len(words)):
            self._add(index, 1)
        self.heap: list[tuple[int, int, int, Pair]] = [
            self._entry(pair) for pair in self.count
        ]
        heapq.heapify(self.heap)

    def best(self) -> tuple[Pair, int] | None:
        """Returns the most frequent pair and its count; None if there is no pair."""
        while self.heap:
            entry = heapq.heappop(self.heap)
            pair = entry[-1]
            if not self.count.get(pair):
                continue
            now = self._entry(pair)
            if now == entry:
                return pair, self.count[pair]
            heapq.heappush(self.heap, now)
        return None

    def merge(self, pair: Pair, symbol: int) -> None:
        """Replaces a pair by `symbol` in all words, from left to right."""
        touched, width = set(), self.width[pair[0]] + self.width[pair[1]]
        self.width[symbol] = max(self.width[symbol], width)
        for index in list(self.words_of[pair]):
            self._add(index, -1)
            self.words[index] = merge_pair(self.words[index], pair, symbol)
            touched.update(self._add(index, 1))
        for new in touched:
            if symbol in new:
                heapq.heappush(self.heap, self._entry(new))

    def _add(self, index, sign):
        """Adds or subtracts the pairs of a word, and returns them."""
        word = self.words[index]
        number, pairs = sign * self.numbers[index], list(pairwise(word))
        for pair in pairs:
            self.count[pair] += number
            if sign > 0:
                self.words_of[pair].add(index)
            else:
                self.words_of[pair].discard(index)
        return pairs

    def _entry(self, pair: Pair) -> tuple[int, int, int, Pair]:
        """Returns a heap entry: ordered by count, then by the first occurrence."""
        first, place = min(self.words_of[pair]), 0
        for left, right in pairwise(self.words[first]):
            if (left, right) == pair:
                break
            place += self.width[left]  # not 1, or a merge before it would move it left
        return -self.count[pair], first, place, pair


def merge_pair(word: list[int], pair: Pair, symbol: int) -> list[int]:
    """Replaces a pair by `symbol` in a word, from left to right.

    Examples:
        >>> merge_pair([7, 7, 7, 1], (7, 7), 9)
        [9, 7, 1]
    """
    new, at, (left, right) = [], 0, pair
    while at < len(word):
        if word[at] == left and at + 1 < len(word) and word[at + 1] == right:
            new.append(symbol)
            at += 2
        else:
            new.append(word[at])
            at += 1
    return new


def apply_merges(symbols: list[int], ranks: Ranks) -> list[int]:
    """Applies merges to a word, the one learned first before the others.

    Args:
        symbols: Ids of the symbols of a word.
        ranks: For each pair of ids its rank, lower is earlier, and the merged id.

    Returns:
        The merged ids.

    Examples:
        >>> apply_merges([0, 1, 0, 1, 2], {(1, 2): (1, 4), (0, 1): (0, 3)})
        [3, 3, 2]
    """
    end = len(symbols)
    symbols = [*symbols, None]  # sentinel on both sides, since index -1 is the same
    left = [*range(-1, end - 1), end - 1]
    right = [*range(1, end + 1), end]
    heap = []

    def offer(at):
        pair = symbols[at], symbols[right[at]]
        if pair in ranks:
            rank, symbol = ranks[pair]
            heap.append((rank, at, pair, symbol))

    for at in range(end):
        offer(at)
    heapq.heapify(heap)
    while heap:
        _, at, pair, symbol = heapq.heappop(heap)
        after = right[at]
        if (symbols[at], symbols[after]) != pair:
            continue  # one of the two was merged before
        symbols[at], symbols[after] = symbol, None
        right[at] = right[after]
        left[right[at]] = at
        for start in (left[at], at):
            pair = symbols[start], symbols[right[start]]
            if start >= 0 and pair in ranks:
                rank, symbol = ranks[pair]
                heapq.heappush(heap, (rank, start, pair, symbol))
    return [symbol for symbol in symbols if symbol is not None]

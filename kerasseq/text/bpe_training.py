r"""Learn the merges of byte-pair encoding, with counts kept up to date.

Again and again, the pair of neighbours that occurs most often becomes one symbol; of
pairs that occur equally often, the one that stands first in the text. Counting
everything anew after each merge would take the number of merges times the length of
the text. Instead:

- Equal words are counted once, with their number.
- `count[pair]` and the words that hold a pair, `words_of[pair]`, are kept up to date:
  a merge changes only the words it occurs in.
- A heap gives the best pair. Its entries grow stale, but only to the worse: a pair
  loses occurrences, and gains some only when one of its two symbols is made, when it is
  put into the heap again. So an entry is checked when it comes out, and put back if it
  promised too much.

Gage 1994; for words Sennrich et al. 2016. Course slide E counts anew each time; what
comes out is the same.
"""

import heapq
from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple


class Merge(NamedTuple):
    """A step of the training.

    Attributes:
        left: The token on the left.
        right: The token on the right.
        token: What they became.
        count: How often the pair occurred then; None if the merges came from a file.
    """

    left: str
    right: str
    token: str
    count: int | None


def learn(words: dict[str, str], numbers, vocabulary, size, min_count):
    """Grow a vocabulary by merges.

    Args:
        words: How each distinct word is spelled in symbols, in order of appearance.
        numbers: How often each occurs.
        vocabulary: The tokens to begin with, all symbols among them.
        size: Of the vocabulary at the end, unless pairs become too rare.
        min_count: A pair that occurs less often is not merged.

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
        if token not in id_of:  # it may have been made in another way
            id_of[token] = len(vocabulary)
            vocabulary.append(token)
        learner.merge((left, right), id_of[token])
        merges.append(Merge(vocabulary[left], vocabulary[right], token, count))
    return vocabulary, merges


class MergeLearner:
    """Words as symbols, and how often each pair of neighbours occurs.

    Args:
        words: A list of symbols, whole numbers, for each distinct word, in order of
            first appearance.
        numbers: How often each word occurs.

    Examples:
        >>> learner = MergeLearner([[0, 1, 0], [1, 0]], [2, 3])
        >>> learner.best()
        ((1, 0), 5)
        >>> learner.merge((1, 0), 2)
        >>> learner.words, learner.best()
        ([[0, 2], [2]], ((0, 2), 2))
    """

    def __init__(self, words: list[list[int]], numbers: list[int]):
        self.words, self.numbers = words, numbers
        self.count = defaultdict(int)
        self.words_of = defaultdict(set)
        for index in range(len(words)):
            self._add(index, 1)
        self.heap = [self._entry(pair) for pair in self.count]
        heapq.heapify(self.heap)

    def best(self):
        """The pair to merge and its count; None if there is no pair left."""
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

    def merge(self, pair, symbol):
        """Put `symbol` where the pair stands, from left to right, in all words."""
        touched = set()
        for index in list(self.words_of[pair]):
            self._add(index, -1)
            self.words[index] = replace(self.words[index], pair, symbol)
            touched.update(self._add(index, 1))
        for new in touched:
            if symbol in new:
                heapq.heappush(self.heap, self._entry(new))

    def _add(self, index, sign):
        """Count the pairs of a word, or take them out; returns them."""
        word = self.words[index]
        number, pairs = sign * self.numbers[index], list(pairwise(word))
        for pair in pairs:
            self.count[pair] += number
            if sign > 0:
                self.words_of[pair].add(index)
            else:
                self.words_of[pair].discard(index)
        return pairs

    def _entry(self, pair):
        """What the heap orders: the count, falling, and where the pair stands first."""
        first = min(self.words_of[pair])
        place = list(pairwise(self.words[first])).index(pair)
        return -self.count[pair], first, place, pair


def replace(word, pair, symbol):
    """A word with `symbol` where the pair stands, from left to right.

    Examples:
        >>> replace([7, 7, 7, 1], (7, 7), 9)
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

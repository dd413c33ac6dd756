"""Byte-pair encoding step by step: what is counted before each merge, for a lecture."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from kerasseq.text.tokenizers.bpe import Merge, merge_pair


class MergeStep(NamedTuple):
    """What is known before a merge.

    Attributes:
        words: Each different word as its tokens so far, in order of appearance.
        pairs: How often two tokens are neighbors in the words of the text, in order of
            appearance.
        merge: The merge that follows; None after the last.
    """

    words: dict[str, list[str]]
    pairs: dict[tuple[str, str], int]
    merge: Merge | None


def merge_steps(words: Counter[str], merges: Iterable[Merge]) -> Iterator[MergeStep]:
    """Yields what is known before each merge, and after the last one.

    Args:
        words: The count of each word, spelled in single symbols.
        merges: The merges in the order in which they were learned.

    Examples:
        >>> ab = Merge("a", "b", "ab", 3)
        >>> first, last = merge_steps(Counter({"ab": 2, "bab": 1}), [ab])
        >>> first.pairs
        {('a', 'b'): 3, ('b', 'a'): 1}
        >>> last.words
        {'ab': ['ab'], 'bab': ['b', 'ab']}
    """
    tokens = {word: [*word] for word in words}
    for merge in (*merges, None):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, number in words.items():
            for pair in pairwise(tokens[word]):
                pairs[pair] += number
        yield MergeStep(dict(tokens), dict(pairs), merge)
        if merge is not None:
            left, right, token, _ = merge
            tokens = {
                word: merge_pair(each, (left, right), token)
                for word, each in tokens.items()
            }

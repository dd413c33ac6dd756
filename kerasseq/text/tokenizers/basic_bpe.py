r"""Byte-pair encoding, as simple as it can be written.

The tokens are bytes at first. Training repeats one step: count all pairs of
neighboring tokens, and replace the most frequent pair by a new token. Encoding applies
the same merges to a new text, in the order in which they were learned.

This is a module to read. `BytePairTokenizer` with `min_count=1` learns the same merges
of the same words in a fraction of the time, and the tests compare both. It gives the
merges the same ids; those of the single bytes are in the order of GPT-2.

Gage 1994; Sennrich et al. 2016; structured like `basic.py` of Karpathy's minbpe, 2024.
"""

from collections import Counter
from itertools import pairwise


def merge_pair(ids: list[int], pair: tuple[int, int], new_id: int) -> list[int]:
    """Replaces each occurrence of a pair by a new id, from left to right.

    Examples:
        >>> merge_pair([5, 6, 6, 7, 6, 7], (6, 7), 99)
        [5, 6, 99, 99]
    """
    merged, i = [], 0
    while i < len(ids):
        if tuple(ids[i : i + 2]) == pair:
            merged.append(new_id)
            i += 2
        else:
            merged.append(ids[i])
            i += 1
    return merged


class BasicBPE:
    """A byte-pair encoding in a few lines, for teaching.

    Ids 0 to 255 are the bytes, and id 256 + n is the result of merge n.

    Attributes:
        merges: The id that each pair of ids becomes, in the order of training.
        vocabulary: The bytes of each id.

    Examples:
        >>> bpe = BasicBPE().train(["low", " lower", " lowest"], num_merges=3)
        >>> [bpe.vocabulary[i] for i in bpe.merges.values()]
        [b'lo', b'low', b' low']
        >>> bpe.encode([" slow", " lower"])
        [32, 115, 257, 258, 101, 114]
        >>> bpe.decode(bpe.encode([" slow", " lower"]))
        ' slow lower'
    """

    def __init__(self):
        self.merges: dict[tuple[int, int], int] = {}
        self.vocabulary: dict[int, bytes] = {i: bytes([i]) for i in range(256)}

    def train(self, words: list[str], num_merges: int) -> "BasicBPE":
        """Learns merges. Of equally frequent pairs, the one that occurs first wins.

        Args:
            words: The training text, split into words; no merge crosses a word.
            num_merges: Number of merges; fewer if no pair is left.

        Returns:
            The encoding itself.
        """
        sequences = [list(word.encode("utf-8")) for word in words]
        for new_id in range(256, 256 + num_merges):
            counts = Counter(pair for ids in sequences for pair in pairwise(ids))
            if not counts:
                break
            pair = max(counts, key=counts.get)  # the first of several maxima
            sequences = [merge_pair(ids, pair, new_id) for ids in sequences]
            self.merges[pair] = new_id
            self.vocabulary[new_id] = b"".join(self.vocabulary[i] for i in pair)
        return self

    def encode(self, words: list[str]) -> list[int]:
        """Converts words to ids: the merge learned first is applied first."""
        ids = []
        for word in words:
            sequence = list(word.encode("utf-8"))
            while known := [p for p in pairwise(sequence) if p in self.merges]:
                pair = min(known, key=self.merges.get)
                sequence = merge_pair(sequence, pair, self.merges[pair])
            ids += sequence
        return ids

    def decode(self, ids: list[int]) -> str:
        """Converts ids to text; bytes that are not UTF-8 become U+FFFD."""
        data = b"".join(self.vocabulary[i] for i in ids)
        return data.decode("utf-8", errors="replace")

r"""Lattices of segmentations of a text: best paths, sampling, expected counts.

The positions between characters are nodes $0$ to $n$; a piece $x$ of the text from $s$
to $t$ is an edge with weight $w = \log p(x)$. A path from $0$ to $n$ is a segmentation,
and its weight is the sum of its edges, since pieces are independent, hence *unigram*.
With $s \to t$ for the edges that end in $t$:

$$
\delta(t) = \max_{s \to t} \delta(s) + w_{st} \qquad
\alpha(t) = \log \sum_{s \to t} e^{\alpha(s) + w_{st}}
$$

Backtracking through the maxima of $\delta$ gives the best path (Viterbi). The
probability of the edge $s \to t$ for a path through $t$ is

$$
p(s \to t \mid t) = e^{\alpha(s) + w_{st} - \alpha(t)}
$$

Sampling an edge at every node samples a path (forward filtering, backward sampling).
With $\gamma(n) = 1$, the recursion

$$
\gamma(s) = \sum_{s \to t} \gamma(t)\, p(s \to t \mid t)
$$

gives the probability of an edge, $\gamma(t)\, p(s \to t \mid t)$.

From: Kudo, "Subword Regularization", 2018. A character that is not a piece is an edge
as well, `UNKNOWN`, as in SentencePiece.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

W = TypeVar("W")
Edge = tuple[int, int, int, float]  # start, end, index of the piece, weight
Path = list[tuple[int, int, int]]  # start, end and index of each piece
Trie = dict[str, Any]  # by letter; the empty string has index and weight

UNKNOWN = -1  # instead of the index of a piece: a character that is not a piece


def build_trie(pieces: Iterable[tuple[str, int, float]]) -> Trie:
    """Builds a trie of pieces from nested dictionaries.

    Args:
        pieces: Spelling, index and weight of each.

    Returns:
        Dictionaries by letter; the empty string has index and weight of a piece.

    Examples:
        >>> build_trie([("a", 0, -1.0), ("ab", 1, -2.0)])
        {'a': {'': (0, -1.0), 'b': {'': (1, -2.0)}}}
    """
    trie = {}
    for spelling, number, weight in pieces:
        node = trie
        for letter in spelling:
            node = node.setdefault(letter, {})
        node[""] = number, weight
    return trie


def edges(text: str, trie: Trie, strange: float) -> Iterator[Edge]:
    """Finds every piece in a text.

    Args:
        text: A string.
        trie: The result of `build_trie`.
        strange: Weight of a character that is not a piece.

    Yields:
        Start, end, index of the piece and weight, by start, then by end.

    Examples:
        >>> trie = build_trie([("a", 0, -1.0), ("ab", 1, -2.0)])
        >>> list(edges("ab", trie, -9.0))
        [(0, 1, 0, -1.0), (0, 2, 1, -2.0), (1, 2, -1, -9.0)]
    """
    for start, letter in enumerate(text):
        node, end = trie.get(letter), start + 1
        if node is None or "" not in node:
            yield start, end, UNKNOWN, strange
        while node is not None:
            if "" in node:
                yield start, end, *node[""]
            node = node.get(text[end]) if end < len(text) else None
            end += 1


def best_path(text: str, trie: Trie, strange: float) -> Path:
    """Returns the best segmentation of a text, by the Viterbi algorithm.

    Ties are resolved to the longer last piece, at every node, as in Hugging Face's
    tokenizers.

    Returns:
        Start, end and number of each piece.

    Examples:
        >>> trie = build_trie([("a", 0, -1.0), ("b", 1, -1.5), ("ab", 2, -2.0)])
        >>> best_path("aab", trie, -9.0)
        [(0, 1, 0), (1, 3, 2)]
    """
    delta = [0.0] + [-np.inf] * len(text)
    came = [None] * len(delta)
    for start, end, piece, weight in edges(text, trie, strange):
        reached = delta[start] + weight
        if reached > delta[end]:  # not >=, so that the longer piece wins
            delta[end], came[end] = reached, (start, end, piece)
    path, node = [], len(text)
    while node:
        path.append(came[node])
        node = came[node][0]
    return path[::-1]


def best_paths(edges: Iterable[Edge], length: int, n: int) -> list[tuple[float, Path]]:
    """Returns the `n` best segmentations of a text.

    Args:
        edges: Start, end, piece and weight of each, by start.
        length: Length of the text.
        n: Maximum number of segmentations.

    Returns:
        Weight and path of each, the best first.

    Examples:
        >>> trie = build_trie([("a", 0, -1.0), ("aa", 1, -3.0)])
        >>> best_paths(edges("aa", trie, -9.0), 2, 7)
        [(-2.0, [(0, 1, 0), (1, 2, 0)]), (-3.0, [(0, 2, 1)])]
    """
    # For each node: weight, edge, and rank among the paths to the start of the edge.
    ways = [[(0.0, None, 0)], *([] for _ in range(length))]
    sorted_up_to = 0
    for start, end, piece, weight in edges:
        if start > sorted_up_to:  # all edges to it are known
            ways[start] = _best(ways[start], n)
            sorted_up_to = start
        for rank, (reached, _, _) in enumerate(ways[start]):
            ways[end].append((reached + weight, (start, end, piece), rank))
    return [(way[0], _path(ways, way)) for way in _best(ways[length], n)]


def _best(ways, n):
    return sorted(ways, key=lambda way: -way[0])[:n]


def _path(ways, way):
    path = []
    while way[1] is not None:
        path.append(way[1])
        way = ways[way[1][0]][way[2]]
    return path[::-1]


class Lattices:
    """The lattices of many words, as arrays of their edges.

    Recursions process all words at once: first the nodes after one character, then
    those after two, and so on. Node `i` of word `w` has the index `w + i +` the length
    of all words before.

    Args:
        start: Start node of each edge, `(E,)`.
        end: End node of each edge, `(E,)`, sorted by depth, then by node.
        piece: Index of the piece of each edge, `(E,)`.
        depth: Number of characters before each node in its word, `(N,)`.
        word: Word of each node, `(N,)`.
        last: Last node of each word that is used, `(words,)`.
    """

    def __init__(
        self,
        start: np.ndarray,
        end: np.ndarray,
        piece: np.ndarray,
        depth: np.ndarray,
        word: np.ndarray,
        last: np.ndarray,
    ):
        self.start: np.ndarray = start
        self.end: np.ndarray = end
        self.piece: np.ndarray = piece
        self.depth: np.ndarray = depth
        self.word: np.ndarray = word
        self.last: np.ndarray = last
        self._group = np.flatnonzero(np.diff(end, prepend=-1))  # edges of one end
        self._node = end[self._group]
        level = np.flatnonzero(np.diff(depth[self._node], prepend=-1))
        groups = np.append(level, len(self._group))
        edges = np.append(self._group, len(end))[groups]
        self._steps = [
            (slice(*g), slice(*e))
            for g, e in zip(_pairs(groups), _pairs(edges), strict=True)
        ]

    @classmethod
    def of(
        cls,
        words: list[W],
        edges_of: Callable[[W], Iterable[Sequence[Any]]],
        length_of: Callable[[Any], int] = len,
    ) -> "Lattices":
        """Builds the lattices of words.

        Args:
            words: Words or objects that represent them, none empty.
            edges_of: Returns start, end, piece and optional values of a word's edges.
            length_of: Returns the length of a word.

        Returns:
            The lattices.
        """
        table, sizes, number = [], [], {}
        for word in dict.fromkeys(words):  # equal words have equal edges
            triples = [edge[:3] for edge in edges_of(word)]
            number[word] = len(sizes)
            sizes.append(len(triples))
            table += triples
        sizes = np.array(sizes)
        which = np.array([number[word] for word in words])
        n = sizes[which]
        rows = np.repeat((np.cumsum(sizes) - sizes)[which] - (np.cumsum(n) - n), n)
        rows += np.arange(len(rows))
        nodes = np.array([length_of(word) + 1 for word in words])
        last = np.cumsum(nodes) - 1
        word = np.repeat(np.arange(len(words)), nodes)
        depth = np.arange(len(word)) - (last - nodes + 1)[word]
        start, end, piece = np.array(table)[rows].T
        shift = np.repeat(last - nodes + 1, n)
        start, end = start + shift, end + shift
        order = np.lexsort((start, end, depth[end]))
        return cls(start[order], end[order], piece[order], depth, word, last)

    def kept(
        self, edges: np.ndarray, words: np.ndarray, number: np.ndarray
    ) -> "Lattices":
        """Removes edges and words.

        Args:
            edges: Mask of the edges to keep, `(E,)`.
            words: Mask of the words to keep, `(words,)`.
            number: The new index of each piece.

        Returns:
            The remaining lattices. Nodes keep their indices.
        """
        start, end, piece = self.start[edges], self.end[edges], self.piece[edges]
        last = self.last[words]
        return Lattices(start, end, number[piece], self.depth, self.word, last)

    def forward(self, w: np.ndarray, combine: np.ufunc = np.logaddexp) -> np.ndarray:
        r"""Returns $\alpha$, or $\delta$ with `combine=np.maximum`, of every node.

        Args:
            w: The weight of each edge, `(E,)`.
            combine: Reduction over the edges that end in a node.
        """
        alpha = np.zeros(len(self.depth))
        for groups, edges in self._steps:
            reached = alpha[self.start[edges]] + w[edges]
            begins = self._group[groups] - edges.start
            alpha[self._node[groups]] = combine.reduceat(reached, begins)
        return alpha

    def usage(self, w: np.ndarray, alpha: np.ndarray, times: ArrayLike) -> np.ndarray:
        """Returns the expected count of each edge, `(E,)`.

        Args:
            w: The weight of each edge, `(E,)`.
            alpha: The result of `forward`.
            times: Count of each word, `(words,)`.
        """
        p = np.exp(alpha[self.start] + w - alpha[self.end])
        gamma = np.zeros(len(alpha))
        gamma[self.last] = times
        for _, edges in reversed(self._steps):
            p[edges] *= gamma[self.end[edges]]
            gamma[self.start[edges]] += p[
                edges
            ]  # no two of one depth begin in one node
        return p

    def best(self, w: np.ndarray) -> np.ndarray:
        """Returns the edges of the best path of every word, in text order."""
        return self._trace(self.forward(w, np.maximum)[self.start] + w)

    def sample(self, w: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Samples a path for every word, and returns its edges in text order.

        The maximum after adding Gumbel noise is a sample, so that one maximum samples
        an edge for all nodes at once.
        """
        reached = self.forward(w)[self.start] + w
        return self._trace(reached + rng.gumbel(size=len(w)))

    def _trace(self, value):
        """Backtracks along the edges of the highest value from the word ends."""
        highest = np.maximum.reduceat(value, self._group)
        sizes = np.diff(self._group, append=len(value))
        hits = np.flatnonzero(value == np.repeat(highest, sizes))
        choice = np.zeros(len(self.depth), "int64")
        # Of equal edges the first, which is the longest.
        choice[self._node] = hits[np.searchsorted(hits, self._group)]
        node, used = self.last, []
        while node.size:
            used.append(choice[node])
            node = self.start[used[-1]]
            node = node[self.depth[node] > 0]
        used = np.concatenate(used)
        return used[np.argsort(self.start[used])]


def _pairs(bounds):
    return zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)

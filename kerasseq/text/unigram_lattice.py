r"""All ways to cut a text into pieces, and what is asked of them.

The characters of a text are the steps from node $0$ to node $n$; a piece $x$ that
stands in the text from $s$ to $t$ is an edge with the weight $w = \log p(x)$. A path
from $0$ to $n$ is one way to cut the text, and its weight is the sum over its edges:
pieces are drawn independently of each other, hence *unigram*. With $s \to t$ for the
edges that end in $t$:

$$
\delta(t) = \max_{s \to t} \delta(s) + w_{st} \qquad
\alpha(t) = \log \sum_{s \to t} e^{\alpha(s) + w_{st}}
$$

The best path follows the maxima of $\delta$ back from the end (Viterbi). The
probability that a path which comes through $t$ came along $s \to t$ is

$$
p(s \to t \mid t) = e^{\alpha(s) + w_{st} - \alpha(t)}
$$

Drawing an edge by it at every node gives a path drawn from all paths (forward
filtering, backward sampling); passing $\gamma(n) = 1$ back along it,

$$
\gamma(s) = \sum_{s \to t} \gamma(t)\, p(s \to t \mid t)
$$

gives the probability that a path uses an edge, $\gamma(t)\, p(s \to t \mid t)$, as the
backward recursion would.

From: Kudo, "Subword Regularization", 2018. A character that is no piece by itself is
one more edge, `STRANGE`, as in SentencePiece.
"""

from collections.abc import Iterable, Iterator

import numpy as np

STRANGE = -1  # in place of a piece's number: a character that is no piece


def build_trie(pieces: Iterable[tuple[str, int, float]]) -> dict:
    """Arrange pieces by their letters: one dictionary in another.

    Args:
        pieces: Spelling, number and weight of each.

    Returns:
        Letters lead on to dictionaries; the empty string leads to number and weight.

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


def edges(text: str, trie: dict, strange: float) -> Iterator[tuple]:
    """Find every piece in a text.

    Args:
        text: Any string.
        trie: From `build_trie`.
        strange: The weight of a character that is no piece.

    Yields:
        Start, end, number of the piece and weight, by start, then by end.

    Examples:
        >>> trie = build_trie([("a", 0, -1.0), ("ab", 1, -2.0)])
        >>> list(edges("ab", trie, -9.0))
        [(0, 1, 0, -1.0), (0, 2, 1, -2.0), (1, 2, -1, -9.0)]
    """
    for start, letter in enumerate(text):
        node, end = trie.get(letter), start + 1
        if node is None or "" not in node:
            yield start, end, STRANGE, strange
        while node is not None:
            if "" in node:
                yield start, end, *node[""]
            node = node.get(text[end]) if end < len(text) else None
            end += 1


def best_path(text: str, trie: dict, strange: float) -> list[tuple[int, int, int]]:
    """Cut a text the best way, by Viterbi, in a time that grows as its length.

    Of two equally good ways the one whose last piece is longer is taken, at every
    node, as Hugging Face's tokenizers do.

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
        if reached > delta[end]:  # not >=: the edge from further back stays
            delta[end], came[end] = reached, (start, end, piece)
    path, node = [], len(text)
    while node:
        path.append(came[node])
        node = came[node][0]
    return path[::-1]


def best_paths(edges: Iterable[tuple], length: int, n: int) -> list[tuple]:
    """Cut a text in the `n` best ways.

    Args:
        edges: Start, end, piece and weight of each, by start.
        length: Of the text.
        n: How many ways.

    Returns:
        Weight and path of each, the best first; fewer if there are fewer.

    Examples:
        >>> trie = build_trie([("a", 0, -1.0), ("aa", 1, -3.0)])
        >>> best_paths(edges("aa", trie, -9.0), 2, 7)
        [(-2.0, [(0, 1, 0), (1, 2, 0)]), (-3.0, [(0, 2, 1)])]
    """
    # At each node: weight, edge, and which of the ways to the edge's start, best first.
    ways = [[(0.0, None, 0)], *([] for _ in range(length))]
    sorted_up_to = 0
    for start, end, piece, weight in edges:
        if start > sorted_up_to:  # no edge to it can follow
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
    """The lattices of many words side by side, as arrays of their edges.

    All words take a step at the same time: first every node one character into its
    word, then every node two characters in, and so on. Node `i` of word `w` has the
    number `w + i +` the length of all words before.

    Args:
        start: Node where each edge starts, `(E,)`.
        end: Node where it ends, `(E,)`, sorted by depth, then by node.
        piece: Number of its piece, `(E,)`.
        depth: How many characters into its word each node is, `(N,)`.
        word: Its word, `(N,)`.
        last: The last nodes of the words that matter, `(words,)`.
    """

    def __init__(self, start, end, piece, depth, word, last):
        self.start, self.end, self.piece = start, end, piece
        self.depth, self.word, self.last = depth, word, last
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
    def of(cls, words: list, edges_of, length_of=len) -> "Lattices":
        """Build the lattices of words.

        Args:
            words: Words or what stands for them, none empty.
            edges_of: Gives start, end, piece, and perhaps more, of a word's edges.
            length_of: Gives the characters of a word.

        Returns:
            The lattices.
        """
        table, sizes, number = [], [], {}
        for word in dict.fromkeys(words):  # the same edges wherever a word occurs
            found = [edge[:3] for edge in edges_of(word)]
            number[word] = len(sizes)
            sizes.append(len(found))
            table += found
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

    def kept(self, edges, words, number) -> "Lattices":
        """Leave edges and words out.

        Args:
            edges: Which edges stay, bool `(E,)`.
            words: Which of the words stay, bool `(words,)`.
            number: The new number of each piece.

        Returns:
            The lattices of the rest. Nodes keep their numbers.
        """
        start, end, piece = self.start[edges], self.end[edges], self.piece[edges]
        last = self.last[words]
        return Lattices(start, end, number[piece], self.depth, self.word, last)

    def forward(self, w, combine=np.logaddexp) -> np.ndarray:
        r"""Return $\alpha$, or $\delta$ with `combine=np.maximum`, of every node.

        Args:
            w: The weight of each edge, `(E,)`.
            combine: What is done with the edges that end in a node.
        """
        alpha = np.zeros(len(self.depth))
        for groups, edges in self._steps:
            reached = alpha[self.start[edges]] + w[edges]
            begins = self._group[groups] - edges.start
            alpha[self._node[groups]] = combine.reduceat(reached, begins)
        return alpha

    def usage(self, w, alpha, times) -> np.ndarray:
        """Return how often each edge is expected to be used, `(E,)`.

        Args:
            w: The weight of each edge, `(E,)`.
            alpha: From `forward`.
            times: How often each word occurs, `(words,)`.
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

    def best(self, w) -> np.ndarray:
        """Return the edges of the best path of every word, in the order of the text."""
        return self._trace(self.forward(w, np.maximum)[self.start] + w)

    def sample(self, w, rng) -> np.ndarray:
        """Draw a path for every word: its edges, in the order of the text.

        The edge with the greatest weight after Gumbel noise is one drawn by weight:
        so one maximum draws for all nodes at once, of which a path visits a few.
        """
        reached = self.forward(w)[self.start] + w
        return self._trace(reached + rng.gumbel(size=len(w)))

    def _trace(self, value):
        """Follow the edge of the greatest value back from the end of every word."""
        highest = np.maximum.reduceat(value, self._group)
        sizes = np.diff(self._group, append=len(value))
        hits = np.flatnonzero(value == np.repeat(highest, sizes))
        choice = np.zeros(len(self.depth), "int64")
        # Of equal edges the first, which starts furthest back.
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

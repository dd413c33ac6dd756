r"""Training of a unigram model: pieces and their probabilities.

The segmentation of the words $w$, with counts $n_w$, is hidden. The probabilities
$p(x)$ of the pieces maximize the log-likelihood of the words:

$$
L = \sum_w n_w \log \sum_{x_1 \ldots x_m = w} \; \prod_i p(x_i)
$$

1. Seeds: the characters, and the most frequent substrings, weighted by length.
2. Expectation: the expected count of each piece over all segmentations.
   Maximization: $p(x)$ is its relative count. No such step decreases $L$.
3. Pruning: the loss of $L$ without piece $x$, if its $f_x$ of $N$ uses become the best
   segmentation $y_1 \ldots y_m$ of $x$ into other pieces, is

$$
\ell_x = f_x \Big( \log \frac{f_x}{N} -
\sum_{i=1}^m \log \frac{f_{y_i} + f_x}{N + (m - 1) f_x} \Big)
$$

   The pieces with the lowest loss are removed, a quarter at a time, until the
   vocabulary has its size. Characters are kept.

From: Kudo, "Subword Regularization", 2018, with the loss of SentencePiece. In contrast,
SentencePiece replaces counts by $e^{\psi(f)}$, with the digamma function $\psi$, drops
pieces with an expected count below one half, and uses counts of the best paths as $f$.
Here $f$ are expected counts, and maximization is exact, so that $L$ never decreases.
With digamma Tiny Shakespeare has about 1 % fewer tokens.
"""

from collections import Counter
from collections.abc import Set
from typing import NamedTuple

import numpy as np

from kerasseq.text.tokenizers.unigram_lattice import Lattices, build_trie, edges

SEEDS = 200_000  # maximum number of initial pieces
SHRINK = 0.75  # share of pieces that one pruning keeps
STEPS = 2  # of expectation maximization between two prunings
RARE = 1e-30  # minimum count of a piece, so that its probability stays positive
LONG = 256  # characters: longer words are split
SEEN = 0.5  # minimum final count of a character


class TrainingStep(NamedTuple):
    """One step of expectation and maximization.

    Attributes:
        pieces: Number of pieces.
        log_likelihood: Log-likelihood of all words before the step.
    """

    pieces: int
    log_likelihood: float


class Learned(NamedTuple):
    """The result of the training.

    Attributes:
        pieces: The spellings, the most probable first.
        scores: Natural logs of their probabilities, float64 `(pieces,)`.
        history: The steps.
    """

    pieces: list[str]
    scores: np.ndarray
    history: list[TrainingStep]


def learn(
    words: Counter[str], size: int, longest: int, taken: Set[str] = frozenset()
) -> Learned:
    """Learns pieces from words.

    Args:
        words: Count of each word.
        size: Maximum number of pieces, at least one per character.
        longest: Maximum length of a piece in characters.
        taken: Strings that must not become pieces.

    Returns:
        Pieces, scores and history.

    Examples:
        >>> learned = learn(Counter({"banana": 3, "ananas": 1}), 6, 16)
        >>> [piece for piece in learned.pieces if len(piece) > 1]
        ['banana', 'anana']
    """
    words = _short(words)
    seeds = seed_pieces(words, longest, taken)
    training = _Training(words, seeds)
    training.step()
    while len(training.pieces) > size:
        training.prune(max(size, int(SHRINK * len(training.pieces))))
        training.step()
    return training.learned()


def _short(words):
    parts = Counter()
    for word, times in words.items():
        for start in range(0, len(word), LONG):
            parts[word[start : start + LONG]] += times
    return parts


def seed_pieces(
    words: Counter[str], longest: int, taken: Set[str] = frozenset()
) -> dict[str, int]:
    """Returns the characters and the frequent substrings, with weights.

    Substrings that are always followed by the same character are left out, since the
    longer one is as frequent: these are not inner nodes of a suffix tree.

    Examples:
        >>> seed_pieces(Counter({"aha": 3}), 16)
        {'a': 6, 'h': 3, 'aha': 9, 'ha': 6}
    """
    count = Counter()
    for word, times in words.items():
        for character in word:
            count[character] += times
    seeds = dict(sorted(count.items()))
    counts = _substrings(words, longest)
    redundant = {s[:-1] for s, times in counts.items() if counts.get(s[:-1]) == times}
    ranked = sorted(
        (-len(s) * times, s)
        for s, times in counts.items()
        if s not in redundant and s not in taken
    )
    for weight, substring in ranked[: max(0, SEEDS - len(seeds))]:
        seeds[substring] = -weight
    return seeds


def _substrings(words, longest):
    """Counts the substrings of two or more characters that occur more than once."""
    frequent = {}
    places = [(w, start, n) for w, n in words.items() for start in range(len(w))]
    for length in range(2, longest + 1):
        count = Counter()
        places = [place for place in places if place[1] + length <= len(place[0])]
        for word, start, times in places:
            count[word[start : start + length]] += times
        # A longer substring is not more frequent.
        places = [p for p in places if count[p[0][p[1] : p[1] + length]] > 1]
        frequent |= {s: times for s, times in count.items() if times > 1}
        if not places:
            break
    return frequent


class _Training:
    """The current pieces, with the lattices of the words and of the pieces."""

    def __init__(self, words, seeds):
        self.pieces = list(seeds)
        self.uses = np.array(list(seeds.values()), "float64")
        self.times = np.array(list(words.values()), "float64")
        self.history = []
        trie = build_trie((s, i, 0.0) for i, s in enumerate(self.pieces))
        self.words = Lattices.of(list(words), lambda word: edges(word, trie, 0.0))
        # Segmentations of each piece into other pieces, word i for piece i.
        self.others = Lattices.of(
            self.pieces,
            lambda piece: [
                edge
                for edge in edges(piece, trie, 0.0)
                if len(piece) == 1 or edge[1] - edge[0] < len(piece)
            ],
        )

    def scores(self):
        uses = np.maximum(self.uses, RARE)
        return np.log(uses / uses.sum())

    def step(self):
        for _ in range(STEPS):
            uses, log_likelihood = expected_uses(self.words, self.scores(), self.times)
            self.history.append(TrainingStep(len(self.pieces), log_likelihood))
            self.uses = uses

    def prune(self, size):
        """Removes the pieces with the lowest loss."""
        loss = losses(self.others, self.uses, self.scores())
        order = np.argsort(-loss, kind="stable")
        stays = np.zeros(len(loss), bool)
        stays[order[:size]] = True
        number = np.cumsum(stays) - 1
        words, others = self.words, self.others
        every_word = np.ones(len(words.last), bool)
        self.words = words.kept(stays[words.piece], every_word, number)
        # Remove the segmentations of removed pieces.
        owner = np.searchsorted(others.last, others.start)
        kept = stays[others.piece] & stays[owner]
        self.others = others.kept(kept, stays, number)
        self.pieces = [p for p, stay in zip(self.pieces, stays, strict=True) if stay]
        self.uses = self.uses[stays]

    def learned(self):
        single = np.array([len(piece) == 1 for piece in self.pieces])
        uses = np.maximum(self.uses, np.where(single, SEEN, RARE))
        scores = np.log(uses / uses.sum())
        order = sorted(range(len(uses)), key=lambda i: (-scores[i], self.pieces[i]))
        return Learned([self.pieces[i] for i in order], scores[order], self.history)


def expected_uses(
    lattices: Lattices, scores: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, float]:
    """Returns the expected count of each piece over all segmentations of all words.

    Args:
        lattices: Lattices of the words.
        scores: Log-probabilities of the pieces, `(pieces,)`.
        times: Count of each word, `(words,)`.

    Returns:
        The expected counts `(pieces,)`, and the log-likelihood of all words.
    """
    w = scores[lattices.piece]
    alpha = lattices.forward(w)
    usage = lattices.usage(w, alpha, times)
    uses = np.bincount(lattices.piece, usage, len(scores))
    return uses, float(times @ alpha[lattices.last])


def losses(others: Lattices, f: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Returns the loss of removing each piece, infinite for characters.

    Args:
        others: Segmentations of each piece into other pieces.
        f: Expected count of each piece, `(pieces,)`.
        scores: Their log-probabilities, `(pieces,)`.

    Returns:
        float64 `(pieces,)`.
    """
    f = np.maximum(f, RARE)
    best = others.best(scores[others.piece])
    owner = np.searchsorted(others.last, others.start[best])
    m = np.bincount(owner, minlength=len(f))
    moved = np.bincount(owner, np.log(f[others.piece[best]] + f[owner]), len(f))
    N = f.sum()
    loss = f * (np.log(f / N) - moved + m * np.log(N + (m - 1) * f))
    return np.where(m == 1, np.inf, loss)

"""Lattices, n-best and sampled segmentations of a unigram tokenizer."""

from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import random_generator, whole_number
from kerasseq.text.probabilities import Seed, zero_or_more
from kerasseq.text.tokenizers.byte_alphabet import SPACE
from kerasseq.text.tokenizers.unigram_lattice import Lattices, best_paths
from kerasseq.text.tokenizers.unigram_pieces import Pieces


class Segmentation(NamedTuple):
    """A segmentation of a text.

    Attributes:
        tokens: Tokens of the vocabulary.
        ids: int32, `(tokens,)`.
        log_probability: The sum of the pieces' scores.
    """

    tokens: list[str]
    ids: np.ndarray
    log_probability: float


class LatticePiece(NamedTuple):
    """One piece in a lattice.

    Attributes:
        piece: The piece, as in the text of the lattice.
        ids: Its id, or those of its bytes.
        start: Start in the text of the lattice.
        end: End in the text of the lattice.
        log_probability: Its score.
        posterior: Posterior probability of the piece over all segmentations.
        best: Whether it is in the best segmentation.
    """

    piece: str
    ids: tuple[int, ...]
    start: int
    end: int
    log_probability: float
    posterior: float
    best: bool


class Lattice(NamedTuple):
    """All pieces in a text, from which the best segmentation is chosen.

    Attributes:
        text: The normalized text, with ▁ for spaces and for the prefix space.
        pieces: The pieces, sorted by start, then by end.
        log_probability: Log-probability of the text over all segmentations.
    """

    text: str
    pieces: list[LatticePiece]
    log_probability: float


class UnigramViews:
    """Mixin with the methods of a unigram tokenizer that use lattices."""

    _pieces: Pieces | None

    def _words(self, text: str) -> list[tuple[str, int | None]]:
        """Returns the words of a text, with the id of each special token, or None."""
        raise NotImplementedError

    def sample(self, text: str, *, alpha: float = 0.1, seed: Seed = None) -> np.ndarray:
        r"""Samples a segmentation with probability proportional to $p^\alpha$.

        Training on a new segmentation in each epoch is called subword regularization.

        Args:
            text: A string.
            alpha: 0 is uniform over segmentations; higher is more deterministic.
            seed: A number, or a `numpy.random.Generator`.

        Returns:
            Array of int32 ids.

        Raises:
            ValueError: If `alpha` is negative.
        """
        alpha, words = zero_or_more("alpha", alpha), self._words(text)
        if not words:
            return np.array([], "int32")
        lattices, w = _side_by_side(self._pieces, words)
        drawn = lattices.sample(alpha * w, random_generator(seed))
        start, end = _places(lattices)
        path = np.stack([start[drawn], end[drawn], lattices.piece[drawn]], axis=1)
        places = self._pieces.spell(_joined(words), path.tolist())
        return np.array([i for i, _, _ in places], "int32")

    def n_best(self, text: str, n: int) -> list[Segmentation]:
        """Returns the `n` most probable segmentations, the best first.

        Args:
            text: A string.
            n: Maximum number of segmentations.

        Returns:
            A list of `Segmentation`. The first is the result of `encode`.
        """
        n, words = whole_number("n", n), self._words(text)
        edges, length = [], 0
        for word in words:
            for start, end, piece, w in _edges(self._pieces, *word):
                edges.append((length + start, length + end, piece, w))
            length += len(word[0])
        ways = []
        for w, path in best_paths(edges, length, n):
            ids = [i for i, _, _ in self._pieces.spell(_joined(words), path)]
            tokens = [self._pieces.vocabulary[i] for i in ids]
            ways.append(Segmentation(tokens, np.array(ids, "int32"), w))
        return ways

    def score(self, text: str) -> float:
        """Returns the log-probability of the best segmentation."""
        return self.n_best(text, 1)[0].log_probability

    def lattice(self, text: str) -> Lattice:
        """Returns all pieces in a text with their probabilities.

        Args:
            text: A string.

        Returns:
            A `Lattice`.
        """
        words = self._words(text)
        if not words:
            return Lattice("", [], 0.0)
        lattices, w = _side_by_side(self._pieces, words)
        alpha = lattices.forward(w)
        best = np.isin(np.arange(len(w)), lattices.best(w))
        columns = [*_places(lattices), lattices.piece, w]
        columns += [lattices.usage(w, alpha, 1.0), best]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        cut, pieces = _joined(words), []
        for start, end, piece, *values in sorted(rows):
            spelled = self._pieces.spell(cut, [(start, end, piece)])
            ids = tuple(i for i, _, _ in spelled)
            shown = cut[start:end].replace(" ", SPACE)
            pieces.append(LatticePiece(shown, ids, start, end, *values))
        total = alpha[lattices.last].sum().item()
        return Lattice(cut.replace(" ", SPACE), pieces, total)


def _joined(words):
    return "".join(word for word, _ in words)


def _edges(pieces, word, special):
    """Returns start, end, index and weight; a special token is an edge of weight 0."""
    if special is not None:
        return [(0, len(word), special, 0.0)]
    return list(pieces.edges(word))


def _side_by_side(pieces, words):
    """Returns the lattices of words, and the weight of each edge."""
    edges = {word: _edges(pieces, *word) for word in set(words)}
    lattices = Lattices.of(words, edges.__getitem__, lambda word: len(word[0]))
    scores = np.array([*pieces.scores, pieces.strange])  # UNKNOWN, -1, is the last
    scores[[special for _, special in edges if special is not None]] = 0.0
    return lattices, scores[lattices.piece]


def _places(lattices):
    """Returns start and end of the edges in the joined text of all words."""
    start, end = lattices.start, lattices.end
    return start - lattices.word[start], end - lattices.word[end]

"""A text's lattice to look at, its best ways and ways drawn at random."""

from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import random_generator, whole_number
from kerasseq.text.probabilities import zero_or_more
from kerasseq.text.unigram_lattice import Lattices, best_paths
from kerasseq.text.unigram_pieces import SPACE, Pieces


class Segmentation(NamedTuple):
    """One way to cut a text.

    Attributes:
        tokens: As the vocabulary spells them.
        ids: int32, `(tokens,)`.
        log_probability: The sum of the pieces' scores.
    """

    tokens: list[str]
    ids: np.ndarray
    log_probability: float


class LatticePiece(NamedTuple):
    """One piece in a lattice.

    Attributes:
        piece: As it stands in the text of the lattice.
        ids: What it is encoded as: one id, or those of its bytes.
        start: Where it begins in the text of the lattice.
        end: Where it ends there.
        log_probability: Its score.
        posterior: The share of all ways that use it, by their probability.
        best: Whether the best way uses it.
    """

    piece: str
    ids: tuple[int, ...]
    start: int
    end: int
    log_probability: float
    posterior: float
    best: bool


class Lattice(NamedTuple):
    """Every piece in a text: what Viterbi chooses from.

    Attributes:
        text: The text as it is cut, with ▁ for spaces and for the one put before it.
        pieces: By where they start, then by where they end.
        log_probability: Of the text, over all ways to cut it.
    """

    text: str
    pieces: list[LatticePiece]
    log_probability: float


class UnigramViews:
    """What a unigram tokenizer shows of its choices: the part that needs lattices."""

    _pieces: Pieces | None

    def _words(self, text: str) -> list[tuple[str, int | None]]:
        """Words of a text, each with the id of the special token it is, or None."""
        raise NotImplementedError

    def sample(self, text: str, *, alpha: float = 0.1, seed=None) -> np.ndarray:
        r"""Cut a text at random, each way with a probability as $p^\alpha$.

        A model trained on texts that are cut anew in every epoch gets used to parts of
        words (subword regularization).

        Args:
            text: Any string.
            alpha: 0 makes all ways equally probable; the greater it is, the more
                often the best one comes.
            seed: A number, or a `numpy.random.Generator` to draw on from call to call.

        Returns:
            int32, one id per token.

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
        """Return the `n` most probable ways to cut a text, the best first.

        Args:
            text: Any string.
            n: How many; there may be fewer.

        Returns:
            A list of `Segmentation`: `tokens`, `ids`, `log_probability`. The first is
            what `encode` gives.
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
        """Return the log-probability of the best way to cut a text."""
        return self.n_best(text, 1)[0].log_probability

    def lattice(self, text: str) -> Lattice:
        """Return every piece that stands in a text, to see what was chosen from.

        Args:
            text: Any string.

        Returns:
            A `Lattice`: the `text` as it is cut, its `log_probability` over all ways,
            and `pieces`, each with its place, score, posterior, and whether the best
            way uses it.
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
    """Start, end, number and weight; a special token is one edge, and costs nothing."""
    if special is not None:
        return [(0, len(word), special, 0.0)]
    return list(pieces.edges(word))


def _side_by_side(pieces, words):
    """The words' lattices, and the weight of each edge in them."""
    found = {word: _edges(pieces, *word) for word in set(words)}
    lattices = Lattices.of(words, found.__getitem__, lambda word: len(word[0]))
    scores = np.array([*pieces.scores, pieces.strange])  # STRANGE, -1, is the last
    scores[[special for _, special in found if special is not None]] = 0.0
    return lattices, scores[lattices.piece]


def _places(lattices):
    """Start and end of the edges in the text of all words: each has a node more."""
    start, end = lattices.start, lattices.end
    return start - lattices.word[start], end - lattices.word[end]

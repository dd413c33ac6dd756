r"""Questions to word vectors: nearest words, analogies, directions, projections.

The similarity of two words is the cosine of their vectors. An analogy, $a$ is to $b$ as
$c$ is to …, is answered by 3CosAdd: the word $d$, other than the three, with the
largest $\cos(d, b - a + c)$, where all vectors have length 1.

From: Mikolov et al., "Linguistic Regularities in Continuous Space Word
Representations", 2013; Levy and Goldberg, "Linguistic Regularities in Sparse and
Explicit Word Representations", 2014 (3CosAdd).
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kerasseq.core import packages
from kerasseq.core.checks import one_of, several, short, whole_number
from kerasseq.core.checks import seed as checked_seed

PROJECTIONS = ("pca", "tsne")
PART = 256  # questions that are answered at a time


class Neighbor(NamedTuple):
    """A word and its similarity.

    Attributes:
        word: The word.
        similarity: The cosine, from -1 to 1.
    """

    word: str
    similarity: float


class AnalogyScore(NamedTuple):
    """How many analogies are answered correctly.

    Attributes:
        accuracy: Fraction of the questions whose answer by 3CosAdd is right.
        nearest: The same for the word that is nearest to the third, a baseline.
        chance: The same for a random word.
        questions: Number of questions; those with unknown words are left out.
    """

    accuracy: float
    nearest: float
    chance: float
    questions: int


class Projection(NamedTuple):
    """Words in the plane.

    Attributes:
        words: The words.
        points: Float32, `(words, dimensions)`.
    """

    words: list[str]
    points: np.ndarray


class VectorQueries:
    """Mixin with questions to word vectors.

    A subclass has `words`, the list of its words; `index`, the number of each; and
    `matrix`, their vectors `(words, D)` as an array.
    """

    words: list[str]
    index: dict[str, int]
    matrix: np.ndarray

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str) -> np.ndarray:
        return self.vector(word)

    def vector(self, word: str) -> np.ndarray:
        """Returns the vector of a word.

        Args:
            word: A word of the vocabulary.

        Returns:
            Float32, `(D,)`.

        Raises:
            ValueError: If the word is unknown. The message has similar ones.
        """
        return self.matrix[self._find(word)]

    def similarity(self, first: str, second: str) -> float:
        """Computes the cosine of the vectors of two words.

        Args:
            first: A word.
            second: Another one.

        Raises:
            ValueError: If a word is unknown.
        """
        return float(_unit(self.vector(first)) @ _unit(self.vector(second)))

    def nearest(
        self, to: str | np.ndarray, count: int = 10, *, exclude: Iterable[str] = ()
    ) -> list[Neighbor]:
        """Finds the words with the most similar vectors.

        Args:
            to: A word, which is not in the result; or a vector `(D,)`.
            count: Number of words.
            exclude: Words that shall not be in the result.

        Returns:
            A list of `Neighbor`, the most similar first.

        Raises:
            ValueError: If a word is unknown, or the vector has another length.
        """
        count = whole_number("count", count)
        excluded = {self._find(word) for word in several("exclude", exclude)}
        if isinstance(to, str):
            number = self._find(to)
            excluded.add(number)
            vector = self.matrix[number]
        else:
            vector = self._checked_vector(to)
        return self._best(_unit(self.matrix) @ _unit(vector), count, excluded)

    def analogy(self, a: str, b: str, c: str, count: int = 1) -> list[Neighbor]:
        r"""Answers: a is to b as c is to …, by 3CosAdd.

        $$\arg\max_{d \notin \{a, b, c\}} \cos(d, b - a + c)$$

        Args:
            a: First word of the pair, such as "man".
            b: Second word of the pair, such as "woman".
            c: The word that is asked about, such as "king".
            count: Number of answers.

        Returns:
            A list of `Neighbor`, the best answer first.

        Raises:
            ValueError: If a word is unknown.
        """
        count = whole_number("count", count)
        unit = _unit(self.matrix)
        i, j, k = (self._find(word) for word in (a, b, c))
        target = _unit(unit[j] - unit[i] + unit[k])
        return self._best(unit @ target, count, {i, j, k})

    def analogy_score(self, questions: Iterable[Sequence[str]]) -> AnalogyScore:
        """Answers many analogies.

        Args:
            questions: Rows of four words: a is to b as c is to d.

        Returns:
            The `AnalogyScore`.

        Raises:
            ValueError: If a row has not four words, or all have an unknown one.
        """
        rows = [tuple(row) for row in several("questions", questions, "rows of words")]
        for row in rows:
            if len(row) != 4 or not all(isinstance(word, str) for word in row):
                raise ValueError(
                    f"a question must have four words, received {short(row)}"
                )
        known = [
            [self.index[word] for word in row]
            for row in rows
            if all(word in self.index for word in row)
        ]
        if not known:
            words = {word for row in rows for word in row}
            missing = sorted(words - self.index.keys())[:3]
            raise ValueError(
                "at least one question must have known words only, received "
                f"{len(rows)} questions; unknown are, for example, {missing}"
            )
        asked, unit = np.array(known), _unit(self.matrix)
        right = np.zeros(2)
        for first in range(0, len(asked), PART):
            a, b, c, d = asked[first : first + PART].T
            for n, target in enumerate((unit[b] - unit[a] + unit[c], unit[c])):
                scores = target @ unit.T
                for word in (a, b, c):
                    scores[np.arange(len(word)), word] = -np.inf
                right[n] += (scores.argmax(axis=1) == d).sum()
        accuracy, nearest = (right / len(asked)).tolist()
        chance = 1 / max(len(self.words) - 3, 1)
        return AnalogyScore(accuracy, nearest, chance, len(asked))

    def direction(self, pairs: Iterable[Sequence[str]]) -> np.ndarray:
        r"""Computes what pairs have in common, such as the direction of the plural.

        $$\frac{1}{n} \sum_{(a, b)} (b - a), \text{ of length 1}$$

        where vectors have length 1.

        Args:
            pairs: Pairs of words, such as `[("cat", "cats"), ("dog", "dogs")]`.

        Returns:
            Float32, `(D,)`.

        Raises:
            ValueError: If there is no pair, or a word is unknown.
        """
        rows = [tuple(pair) for pair in several("pairs", pairs, "pairs of words")]
        if not rows or any(len(pair) != 2 for pair in rows):
            raise ValueError(
                "pairs must be pairs of words, at least one, received "
                f"{short(rows)}. For one pair: [('cat', 'cats')]"
            )
        differences = [_unit(self.vector(b)) - _unit(self.vector(a)) for a, b in rows]
        return _unit(np.mean(differences, axis=0))

    def along(self, direction: np.ndarray, words: Iterable[str]) -> np.ndarray:
        """Computes how far words lie in a direction: the cosine with it.

        Args:
            direction: A vector `(D,)`, such as of `direction`.
            words: Words, such as `["one", "two", "three"]`.

        Returns:
            Float32, `(words,)`.

        Raises:
            ValueError: If a word is unknown, or the direction has another length.
        """
        rows = [self._find(word) for word in several("words", words)]
        vector = _unit(self._checked_vector(direction))
        return _unit(self.matrix[rows]) @ vector

    def projection(
        self,
        words: Iterable[str] | None = None,
        *,
        method: str = "pca",
        dimensions: int = 2,
        seed: int = 0,
    ) -> Projection:
        """Projects the vectors of words, of length 1, to the plane, by scikit-learn.

        Args:
            words: The words; the 100 most frequent if None.
            method: `"pca"`, the directions of largest variance; or `"tsne"`, which
                keeps near words near.
            dimensions: Number of dimensions.
            seed: Random seed, for `"tsne"`.

        Returns:
            A `Projection`, for `tracing.plots.plot_words`.

        Raises:
            ImportError: If scikit-learn is not installed.
            ValueError: If a word is unknown, or there are too few.
        """
        one_of("method", method, PROJECTIONS)
        words = self.words[:100] if words is None else several("words", words)
        rows = [self._find(word) for word in words]
        dimensions = whole_number("dimensions", dimensions)
        least = max(dimensions + 1, 3)
        if len(rows) < least or dimensions > self.matrix.shape[1]:
            raise ValueError(
                f"a projection to {dimensions} dimensions needs at least {least} words "
                f"and as many dimensions, received {len(rows)} words with vectors of "
                f"{self.matrix.shape[1]}"
            )
        model = _projector(method, dimensions, len(rows), checked_seed("seed", seed))
        points = model.fit_transform(_unit(self.matrix[rows]))
        return Projection(list(words), points.astype("float32"))

    def _find(self, word: Any) -> int:
        if not isinstance(word, str):
            raise TypeError(f"a word must be a string, received {short(word)}")
        self._check_words()
        number = self.index.get(word)
        if number is not None:
            return number
        near = difflib.get_close_matches(word, self.words, 3)
        if word.lower() in self.index:
            near = [word.lower()]
        hint = f" Similar ones are {', '.join(map(repr, near))}." if near else ""
        raise ValueError(
            f"unknown word {word!r}: it is not among the {len(self.words):,} words of "
            f"the vocabulary.{hint}"
        )

    def _checked_vector(self, vector: Any) -> np.ndarray:
        array = np.asarray(vector, "float32")
        if array.shape != self.matrix.shape[1:]:
            raise ValueError(
                f"a vector must have the shape {self.matrix.shape[1:]}, received "
                f"{array.shape}"
            )
        return array

    def _best(
        self, scores: np.ndarray, count: int, excluded: set[int]
    ) -> list[Neighbor]:
        order = np.argsort(-scores, kind="stable")[: count + len(excluded)]
        best = [int(n) for n in order if int(n) not in excluded][:count]
        return [Neighbor(self.words[n], float(scores[n])) for n in best]


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Divides vectors by their lengths; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo("float32").tiny)


def _projector(method: str, dimensions: int, count: int, seed: int) -> Any:
    package = "scikit-learn", "a projection needs"
    PCA = packages.load("sklearn.decomposition", *package).PCA
    TSNE = packages.load("sklearn.manifold", *package).TSNE
    if method == "pca":
        return PCA(dimensions, random_state=seed)
    perplexity = min(30.0, (count - 1) / 3)  # scikit-learn's; below the words' number
    init = "pca" if count > dimensions else "random"
    # The fast approximation is for up to 3 dimensions.
    how = "barnes_hut" if dimensions < 4 else "exact"
    options = {"init": init, "random_state": seed, "method": how}
    return TSNE(dimensions, perplexity=perplexity, **options)

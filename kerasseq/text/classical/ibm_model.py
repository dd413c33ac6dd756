r"""IBM Model 1: which word of a sentence translates which, by counting.

A target sentence $y_1 \ldots y_T$ is made from a source sentence $x_1 \ldots x_S$: each
target word chooses a place $a_j$ of the source, each with the same probability, and is
drawn from the translations of the word there. $x_0$ is an empty word, for target words
that no source word stands for:

$$
p(y \mid x) = \prod_{j=1}^{T} \frac{1}{S + 1} \sum_{i=0}^{S} t(y_j \mid x_i), \qquad
p(a_j = i \mid x, y) = \frac{t(y_j \mid x_i)}{\sum_k t(y_j \mid x_k)}
$$

$t$ is learned by expectation maximization: the second formula says how much of a target
word each source word may count as its own, and $t$ is these counts, divided by their
sum over the target words. As the likelihood has no local maximum beside the global one,
it may start anywhere; here all translations start alike. $p(a_j = i)$ is what attention
later learned with the rest of a network.

From: Brown, Della Pietra, Della Pietra and Mercer, "The Mathematics of Statistical
Machine Translation: Parameter Estimation", 1993; course B, "Alignment in translation
(Hard attention)". Left out: models 2 to 5, which know places and how many words a word
becomes.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from kerasseq.core.checks import flag, several, short, whole_number
from kerasseq.core.schema import check
from kerasseq.text.files import Saved
from kerasseq.text.texts import check_text
from kerasseq.text.words import find_words

EMPTY = -1  # the place of the empty word in an alignment
SCHEMA = {
    "iterations": int,
    "empty_word": bool,
    "lowercase": bool,
    "source_words": [str],
    "target_words": [str],
    "pairs": [[int]],
    "probabilities": [float],
    "bits": [float],
}


class IBMModel1(Saved):
    """Word translations and alignments, learned from pairs of sentences.

    Args:
        iterations: How often all pairs are counted.
        empty_word: Whether a target word may come from no source word.
        lowercase: Whether texts are converted to lowercase.

    Attributes:
        source_words: The words of the sources, sorted; empty before `fit`.
        target_words: Those of the targets.
        bits: Mean of $-log_2 p$ of a target word before each iteration, and after the
            last. It never rises.

    Examples:
        >>> model = IBMModel1().fit(
        ...     ["la maison", "la fleur", "maison bleue"],
        ...     ["the house", "the flower", "blue house"],
        ... )
        >>> model.align("fleur bleue", "blue flower")
        array([1, 0], dtype=int32)
        >>> [(word, round(p, 2)) for word, p in model.translations("maison", 1)]
        [('house', 0.98)]
        >>> print(model)
        <IBMModel1: 4 source words, 4 target words>
    """

    def __init__(
        self, *, iterations: int = 10, empty_word: bool = True, lowercase: bool = True
    ):
        self.iterations: int = whole_number("iterations", iterations)
        self.empty_word: bool = flag("empty_word", empty_word)
        self.lowercase: bool = flag("lowercase", lowercase)
        self._set([], [], np.zeros((0, 2), "int64"), np.zeros(0), [])

    def fit(self, sources: Iterable[str], targets: Iterable[str]) -> "IBMModel1":
        """Learns the translations of each word.

        Args:
            sources: A list of strings.
            targets: The translation of each.

        Returns:
            The model itself. A second call replaces the first.

        Raises:
            TypeError: If one is not a list of strings.
            ValueError: If they differ in length, or a text has no words.
        """
        x, source_words = self._ids(self._sentences("sources", sources))
        y, target_words = self._ids(self._sentences("targets", targets))
        if len(x) != len(y):
            raise ValueError(
                f"sources and targets must be of the same length, received {len(x)} "
                f"and {len(y)}"
            )
        if self.empty_word:
            x = [np.append(row, len(source_words)) for row in x]
        cells, words, widths = _cells(x, y)
        pairs, cell = np.unique(cells, axis=0, return_inverse=True)
        cell = cell.reshape(-1)
        t = np.full(len(pairs), 1 / len(target_words))
        bits = []
        for _ in range(self.iterations):
            share, p = _expected(t, cell, words, widths)
            bits.append(p)
            counts = np.bincount(cell, share, len(pairs))
            t = counts / np.bincount(pairs[:, 0], counts)[pairs[:, 0]]
        bits.append(_expected(t, cell, words, widths)[1])
        self._set(source_words, target_words, pairs, t, bits)
        return self

    def weights(self, source: str, target: str) -> np.ndarray:
        """Computes the probability of each source word for each target word.

        Args:
            source: A sentence.
            target: Its translation.

        Returns:
            A float64 array `(T, S)`, or `(T, S + 1)` with the empty word as the last
            column. Rows sum to 1. A word that training did not have may come from
            anywhere.

        Raises:
            TypeError: If one is not a string.
            ValueError: Before `fit`, or if one has no words.
        """
        t = self._table(source, target)
        sums = t.sum(axis=1, keepdims=True)
        alike = np.full_like(t, 1 / t.shape[1])
        return np.divide(t, sums, out=alike, where=sums > 0)

    def align(self, source: str, target: str) -> np.ndarray:
        """Finds the source word that each target word most probably comes from.

        Args:
            source: A sentence.
            target: Its translation.

        Returns:
            An int32 array `(T,)`: the place of the source word, the first if several
            are as probable; -1 for the empty word, and for a word without a known
            translation in the source.

        Raises:
            TypeError: If one is not a string.
            ValueError: Before `fit`, or if one has no words.
        """
        t = self._table(source, target)
        places = t.argmax(axis=1)
        empty = (t.max(axis=1) == 0) | (places == len(self.words(source)))
        return np.where(empty, EMPTY, places).astype("int32")

    def translations(self, word: str, top: int = 5) -> list[tuple[str, float]]:
        """Returns the most probable translations of a source word.

        Args:
            word: A source word; "" for the empty word.
            top: The most that are returned.

        Returns:
            Target words with t, the most probable first.

        Raises:
            ValueError: Before `fit`, or if training did not have the word.
        """
        self._check_fitted()
        whole_number("top", top)
        check_text(word)
        key = word.lower() if self.lowercase else word
        row = self._source_ids.get(key)
        if word == "" and self.empty_word:
            row = len(self.source_words)
        if row is None:
            raise ValueError(f"word must be one of the sources, received {word!r}")
        probabilities = self._translations.get(row, {})
        order = sorted(probabilities, key=lambda y: (-probabilities[y], y))[:top]
        return [(self.target_words[y], probabilities[y]) for y in order]

    def words(self, text: str) -> list[str]:
        """Returns the words of a text, which alignments count.

        Args:
            text: A string.
        """
        check_text(text)
        return find_words(text, lowercase=self.lowercase, punctuation=True)

    def _sentences(self, name, texts):
        sentences = []
        for n, text in enumerate(several(name, texts)):
            if not isinstance(text, str):
                raise TypeError(f"{name}[{n}] must be a string, received {short(text)}")
            sentences.append(self.words(text))
            if not sentences[-1]:
                raise ValueError(f"{name}[{n}] must have at least one word, has none")
        if not sentences:
            raise ValueError(f"{name} must have at least one text, received none")
        return sentences

    def _ids(self, sentences):
        words = sorted({word for sentence in sentences for word in sentence})
        ids = {word: n for n, word in enumerate(words)}
        return [np.array([ids[w] for w in row]) for row in sentences], words

    def _table(self, source, target):
        """Returns the table t of both sentences, `(T, S)`, with the empty word last."""
        self._check_fitted()
        x = [self._source_ids.get(word) for word in self.words(source)]
        y = [self._target_ids.get(word) for word in self.words(target)]
        if not x or not y:
            name = "target" if x else "source"
            raise ValueError(f"{name} must have at least one word, has none")
        x += [len(self.source_words)] * self.empty_word
        rows = [self._translations.get(i, {}) for i in x]
        return np.array([[row.get(j, 0.0) for row in rows] for j in y])

    def _set(self, source_words, target_words, pairs, probabilities, bits):
        self.source_words: list[str] = list(source_words)
        self.target_words: list[str] = list(target_words)
        self.bits: list[float] = [float(each) for each in bits]
        self._source_ids = {word: n for n, word in enumerate(self.source_words)}
        self._target_ids = {word: n for n, word in enumerate(self.target_words)}
        self._translations: dict[int, dict[int, float]] = {}
        for (x, y), p in zip(pairs.tolist(), probabilities.tolist(), strict=True):
            self._translations.setdefault(x, {})[y] = p

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration and the fitted model as plain JSON."""
        cells = [
            (x, y, p) for x, row in self._translations.items() for y, p in row.items()
        ]
        return {
            "iterations": self.iterations,
            "empty_word": self.empty_word,
            "lowercase": self.lowercase,
            "source_words": self.source_words,
            "target_words": self.target_words,
            "pairs": [[x, y] for x, y, _ in cells],
            "probabilities": [p for _, _, p in cells],
            "bits": self.bits,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "IBMModel1":
        """Builds a model from the result of `get_config`.

        Raises:
            TypeError: If a value has the wrong type.
            ValueError: If a key is missing or unknown, or a number is out of range.
        """
        check(config, SCHEMA)
        options = ("iterations", "empty_word", "lowercase")
        model = cls(**{name: config[name] for name in options})
        sources, targets = config["source_words"], config["target_words"]
        most = len(sources) + model.empty_word, len(targets)
        pairs, p = config["pairs"], config["probabilities"]
        ids = [range(number) for number in most]
        if not all(
            len(pair) == 2 and pair[0] in ids[0] and pair[1] in ids[1] for pair in pairs
        ):
            raise ValueError("pairs must be ids of a source word and a target word")
        if len(p) != len(pairs) or not all(0 <= each <= 1 + 1e-9 for each in p):
            raise ValueError("probabilities must be in 0..1, one for each pair")
        for name in ("source_words", "target_words"):
            if len(set(config[name])) != len(config[name]):
                raise ValueError(f"{name} must have each word once")
        model._set(sources, targets, np.array(pairs), np.array(p), config["bits"])
        return model

    def _check_fitted(self):
        if not self.target_words:
            raise ValueError("this IBMModel1 has no translations: call `fit` first.")

    def __repr__(self) -> str:
        sizes = (
            f"{len(self.source_words)} source words, {len(self.target_words)} target"
        )
        return f"<IBMModel1: {sizes} words>"


def _cells(x, y):
    """Pairs each source word with each target word of its pair, as rows of ids.

    Returns:
        The cells `(cells, 2)`; the number of the target word that each belongs to, over
        all pairs; and how many source words each target word may come from.
    """
    cells = [
        np.stack([np.tile(a, len(b)), np.repeat(b, len(a))], axis=1)
        for a, b in zip(x, y, strict=True)
    ]
    widths = np.repeat([len(a) for a in x], [len(b) for b in y])
    return np.concatenate(cells), np.repeat(np.arange(len(widths)), widths), widths


def _expected(t, cell, words, widths):
    """Computes the share of each target word of each cell, and bits of a word."""
    of_cells = t[cell]
    sums = np.bincount(words, of_cells)
    return of_cells / sums[words], float(-np.mean(np.log2(sums / widths)))

r"""Texts for word vectors: read sentence by sentence, as often as needed.

A text never has to fit into memory as words. Frequent words are left out at random: a
word of relative frequency $f$ is kept with probability $\min(1, \sqrt{t / f})$, so that
"the" neither dominates training nor fills the windows. Negative words are drawn with
probabilities proportional to $n^{3/4}$, where $n$ is the count of a word.

From: Mikolov et al., "Distributed Representations of Words and Phrases and their
Compositionality", 2013.
"""

import gzip
import os
import pathlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from kerasseq.core.checks import short
from kerasseq.core.files import regular
from kerasseq.datasets.files import GZIP, check_encoding, check_is_file, decompressing
from kerasseq.text.words import find_words

LONGEST = 2**18  # characters of a line; a longer one is several sentences
CHUNK = 2**14  # words that are encoded at a time
NOISE_POWER = 0.75  # of word2vec: rare words are drawn more often than they occur


class Sentences:
    r"""The sentences of a text, each a list of words. Can be iterated several times.

    Args:
        source: A file as `pathlib.Path`, also compressed by gzip, or a text as string,
            each line of which is a sentence; or strings, or lists of words, in a list
            or another object that can be iterated several times.
        lowercase: Whether to convert strings to lowercase.
        punctuation: Whether punctuation characters are words.
        encoding: Encoding of a file.

    Raises:
        TypeError: If the source is something else, or can be read only once.

    Examples:
        >>> list(Sentences("To be,\nor not"))
        [['to', 'be'], ['or', 'not']]
        >>> list(Sentences([["New York", "is"], "far away"]))
        [['New York', 'is'], ['far', 'away']]
    """

    def __init__(
        self,
        source: Any,
        *,
        lowercase: bool = True,
        punctuation: bool = False,
        encoding: str = "utf-8",
    ) -> None:
        if (
            isinstance(source, bytes | dict)
            or not (isinstance(source, os.PathLike) or hasattr(source, "__iter__"))
            or not len(getattr(source, "shape", (1,)))
        ):
            raise TypeError(
                "a text must be a string, a pathlib.Path, a list of strings or a list "
                f"of lists of words, received {short(source)}"
            )
        if isinstance(source, Iterator):
            raise TypeError(
                "a text is read several times, received a "
                f"{type(source).__name__}, which can be read once. Pass a list, a "
                "pathlib.Path, or an object whose __iter__ starts again"
            )
        check_encoding(encoding)
        if isinstance(source, os.PathLike):
            check_is_file(pathlib.Path(source))
        self.source: Any = source
        self.lowercase: bool = lowercase
        self.punctuation: bool = punctuation
        self.encoding: str = encoding

    def __iter__(self) -> Iterator[list[str]]:
        options = {"lowercase": self.lowercase, "punctuation": self.punctuation}
        for number, sentence in enumerate(self._parts()):
            if isinstance(sentence, str):
                yield find_words(sentence, **options)
            else:
                yield _checked_words(sentence, number)

    def _parts(self) -> Iterable[Any]:
        if isinstance(self.source, os.PathLike):
            return _file_lines(pathlib.Path(self.source), self.encoding)
        return self.source.split("\n") if isinstance(self.source, str) else self.source


def _checked_words(sentence: Any, number: int) -> list[str]:
    words = list(sentence) if hasattr(sentence, "__iter__") else [sentence]
    for word in words:
        if not isinstance(word, str):
            raise TypeError(
                f"sentence {number} must be a string or a list of words, received "
                f"{short(sentence)}"
            )
    return words


def _file_lines(path: pathlib.Path, encoding: str) -> Iterator[str]:
    """Yields the lines of a file, without loading it."""
    with regular(path).open("rb") as file:
        compressed = file.read(2) == GZIP
    encoding = "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding
    opened = gzip.open if compressed else open
    count = 0
    try:
        with decompressing(path), opened(path, "rt", encoding=encoding) as file:
            for count, line in enumerate(_pieces(file), start=1):  # noqa: B007
                yield line
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not {encoding.removesuffix('-sig')}: byte "
            f"0x{error.object[error.start]:02x} after line {count}. Pass its "
            'encoding, as in encoding="cp1252", or save it as UTF-8'
        ) from error


def _pieces(file: IO[str]) -> Iterator[str]:
    """Yields lines, and long ones in pieces that end between words."""
    rest = ""
    while piece := file.readline(LONGEST):
        piece = rest + piece
        rest = ""
        if not piece.endswith("\n") and len(piece) >= LONGEST:
            cut = max(piece.rfind(" "), piece.rfind("\t"))
            if 0 <= cut < len(piece) < 2 * LONGEST:
                piece, rest = piece[:cut], piece[cut:]
        yield piece
    if rest:
        yield rest


class Vocabulary(NamedTuple):
    """The words of a model, by decreasing count.

    Attributes:
        words: The words.
        counts: How often each occurs, int64.
    """

    words: list[str]
    counts: np.ndarray


def vocabulary(
    sentences: Iterable[list[str]], min_count: int, max_words: int | None
) -> Vocabulary:
    """Counts the words of a text.

    Args:
        sentences: Lists of words.
        min_count: Words that occur less often are left out.
        max_words: Maximum number of words, or None.

    Returns:
        The `Vocabulary`; words of equal count are in alphabetical order.

    Raises:
        ValueError: If there are fewer than two words.

    Examples:
        >>> vocabulary([["b", "a"], ["c", "b"]], min_count=1, max_words=2)
        Vocabulary(words=['b', 'a'], counts=array([2, 1]))
    """
    total: Counter[str] = Counter()
    for sentence in sentences:
        total.update(sentence)
    if not total:
        raise ValueError("the text is empty: it has no word. Pass another one")
    frequent = [word for word, count in total.items() if count >= min_count]
    words = sorted(frequent, key=lambda word: (-total[word], word))[:max_words]
    if len(words) < 2:
        raise ValueError(
            f"a vocabulary must have at least 2 words, received {len(words)}: the text "
            f"has {total.total():,} words, {len(total):,} of them distinct, and "
            f"min_count={min_count}, max_words={max_words}. Lower min_count, or pass a "
            "longer text"
        )
    return Vocabulary(words, np.array([total[word] for word in words], "int64"))


def count_known(sentences: Iterable[list[str]], words: list[str]) -> np.ndarray:
    """Counts the words of a given vocabulary, of which at least two must occur.

    Args:
        sentences: Lists of words.
        words: The vocabulary.

    Returns:
        The counts, int64.

    Raises:
        ValueError: If fewer than two words of the vocabulary occur.
    """
    total = dict.fromkeys(words, 0)
    for sentence in sentences:
        for word in sentence:
            if word in total:
                total[word] += 1
    counts = np.array(list(total.values()), "int64")
    if np.count_nonzero(counts) < 2:
        raise ValueError(
            f"the text must have at least 2 of the {len(words):,} words of the model, "
            f"received one with {np.count_nonzero(counts)}. Is it in the same language "
            "and case?"
        )
    return counts


def keep_probabilities(counts: np.ndarray, t: float | None) -> np.ndarray:
    r"""Computes the probability to keep a word: $\min(1, \sqrt{t / f})$.

    Args:
        counts: How often each word occurs.
        t: The threshold, or None to keep all words.

    Examples:
        >>> keep_probabilities(np.array([90, 10]), t=0.1).round(3)
        array([0.333, 1.   ])
    """
    if t is None:
        return np.ones(len(counts))
    f = counts / counts.sum()
    return np.sqrt(t / np.maximum(f, t))


def noise(counts: np.ndarray) -> np.ndarray:
    r"""Computes the noise distribution, proportional to $n^{3/4}$, cumulated.

    Examples:
        >>> noise(np.array([16, 1])).round(3)
        array([0.889, 1.   ])
    """
    weights = counts**NOISE_POWER
    return np.cumsum(weights / weights.sum())


def draw_noise(
    rng: np.random.Generator, cumulated: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    """Draws words of the noise distribution, int32.

    Args:
        rng: NumPy's generator.
        cumulated: As of `noise`.
        shape: The shape.
    """
    indices = np.searchsorted(cumulated, rng.random(shape), side="right")
    return np.minimum(indices, len(cumulated) - 1).astype("int32")  # a sum below 1


def id_chunks(
    sentences: Iterable[list[str]], index: Mapping[str, int]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Encodes a text in parts of about `CHUNK` words, which are whole sentences.

    Args:
        sentences: Lists of words.
        index: The id of each word. Other words are left out.

    Yields:
        Ids, int32, and the number of the sentence of each, int64.
    """
    ids: list[int] = []
    lengths: list[int] = []
    first = 0
    for sentence in sentences:
        before = len(ids)
        ids += [index[word] for word in sentence if word in index]
        lengths.append(len(ids) - before)
        if len(ids) >= CHUNK:
            yield np.array(ids, "int32"), _numbers(lengths, first)
            first += len(lengths)
            ids, lengths = [], []
    if ids:
        yield np.array(ids, "int32"), _numbers(lengths, first)


def _numbers(lengths: list[int], first: int) -> np.ndarray:
    return np.repeat(np.arange(first, first + len(lengths)), lengths)

"""Word vectors from elsewhere, and for other programs: arrays and files."""

from collections.abc import Iterable
from typing import Any, Self

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.core.types import FilePath
from kerasseq.vectors.files import read_vectors, write_vectors
from kerasseq.vectors.formats import TEXT


class VectorExchange:
    """Mixin that builds a model from vectors, and writes them.

    A subclass takes `dimensions` and `words`, and has `matrix`, the vectors as an
    array; `method`; and the tables `v` and `u`.
    """

    words: list[str]
    matrix: np.ndarray
    method: str
    v: keras.Variable
    u: keras.Variable

    @classmethod
    def from_vectors(cls, words: Iterable[str], matrix: Any, **options: Any) -> Self:
        """Builds a model from words and their vectors.

        Args:
            words: The words.
            matrix: Their vectors, `(words, D)`.
            **options: Other arguments of `WordVectors`.

        Returns:
            The model, which can be trained further.

        Raises:
            ValueError: If there are not as many vectors as words, or fewer than two.

        Examples:
            >>> from kerasseq.models import WordVectors
            >>> model = WordVectors.from_vectors(["a", "b"], np.eye(2))
            >>> round(model.similarity("a", "b"), 3)
            0.0
        """
        words, matrix = checked_vocabulary(words), np.asarray(matrix)
        if matrix.ndim != 2 or len(matrix) != len(words):
            raise ValueError(
                f"matrix must have the shape ({len(words)}, D), with a row for each "
                f"word, received {matrix.shape}"
            )
        model = cls(dimensions=matrix.shape[1], words=words, **options)
        model.v.assign(matrix)
        if model.method == "glove":
            model.u.assign(np.zeros_like(matrix))
        return model

    @classmethod
    def from_file(
        cls,
        path: FilePath,
        format: str | None = None,
        *,
        no_header: bool | None = None,
        limit: int | None = None,
        errors: str = "strict",
        duplicates: str = "raise",
        **options: Any,
    ) -> Self:
        r"""Builds a model from a file of word2vec, GloVe, gensim or fastText.

        Three formats are read, also compressed by gzip:

        - "word2vec_text": a line with the number of words and the dimension $D$, then a
          line per word: the word and $D$ numbers.
        - "word2vec_binary": the same first line, then per word its bytes, a space, and
          $D$ numbers of 32 bits.
        - "glove": as the text, without the first line. A word may contain spaces.

        Args:
            path: The file.
            format: One of the formats. By default it is recognized by the content.
            no_header: Whether a text file begins with its first word, as
                `format="glove"` says, too.
            limit: Number of words to read, from the first, which is the most frequent.
            errors: What to do with words that are not UTF-8: `"strict"`, `"ignore"`,
                `"replace"` and others that `bytes.decode` knows.
            duplicates: `"raise"`, or `"first"` to skip the repetitions of a word.
            **options: Other arguments of `WordVectors`. `lowercase` is False by
                default, as the words of a file may have capital letters.

        Returns:
            The model, which can be trained further.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If it is damaged or in another format. The text names the line,
                or the byte of a binary file.

        Examples:
            >>> import pathlib, tempfile
            >>> from kerasseq.models import WordVectors
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = pathlib.Path(folder, "vectors.txt")
            ...     _ = file.write_text("king 1 0 0.5\nqueen 1 0 0.25\nParis 0 1 0\n")
            ...     model = WordVectors.from_file(file)
            >>> model.nearest("king", 1)[0].word
            'queen'
        """
        words, matrix = read_vectors(
            path,
            format,
            no_header=no_header,
            limit=limit,
            errors=errors,
            duplicates=duplicates,
        )
        return cls.from_vectors(words, matrix, **{"lowercase": False, **options})

    def to_file(
        self, path: FilePath, format: str = TEXT, *, errors: str = "strict"
    ) -> None:
        """Writes the vectors for word2vec, GloVe, gensim or fastText.

        Text has nine significant digits, which restore each number of 32 bits exactly.
        Other weights are not written: `save` keeps all of the model.

        Args:
            path: The file; under a name that ends in `.gz` it is compressed.
            format: `"word2vec_text"`, `"word2vec_binary"` or `"glove"`.
            errors: What to do with surrogates in words, as `str.encode` names it.

        Raises:
            OSError: If the file cannot be written.
            ValueError: If the model has no words yet, or a word cannot be written in
                this format.

        Examples:
            >>> import pathlib, tempfile
            >>> from kerasseq.models import WordVectors
            >>> model = WordVectors.from_vectors(["a", "b"], [[1, 0.5], [2, 0]])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = pathlib.Path(folder, "vectors.txt")
            ...     model.to_file(file, "glove")
            ...     file.read_text().splitlines()
            ['a 1 0.5', 'b 2 0']
        """
        write_vectors(path, self.words, self.matrix, format, errors=errors)


def checked_vocabulary(words: Iterable[str]) -> list[str]:
    """Returns distinct words as a list.

    Raises:
        TypeError: If a word is not a string.
        ValueError: If there are fewer than two, or a word is repeated.

    Examples:
        >>> checked_vocabulary(("a", "b"))
        ['a', 'b']
    """
    words = checks.several("words", words)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"words must be strings, received {checks.short(word)}")
    if len(words) < 2 or len(set(words)) < len(words):
        raise ValueError(
            "words must be at least two distinct words, received "
            f"{len(words)}, of which {len(set(words))} distinct"
        )
    return words

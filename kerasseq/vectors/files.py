r"""Reads and writes files of word vectors. Loads no Keras.

Three formats, those of the original programs, as gensim and fastText use them:

- "word2vec_text": a line with the number of words $N$ and the dimension $D$, then
  a line per word: the word and $D$ numbers, separated by single spaces.
- "word2vec_binary": the same first line, then per word its bytes, a space, and $D$
  numbers of 32 bits, little-endian; a newline before a word is skipped.
- "glove": as the text format, without the first line. A word may contain spaces, as in
  `glove.840B`; its last part is then not a number.

A byte order mark before the first line is skipped. Numbers are decimals, as in C: those
that only Python reads, such as `1_0`, are an error, and so are several spaces in a row
beside the word or the numbers.

Files are streamed: beside the words and the matrix, memory holds one line or one chunk.

Sources: Mikolov et al., 2013, https://code.google.com/archive/p/word2vec; Pennington et
al., 2014, https://nlp.stanford.edu/projects/glove.
"""

import codecs
import contextlib
import gzip
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import numpy as np

from kerasseq.core import checks
from kerasseq.core.files import regular, replacing
from kerasseq.core.types import FilePath
from kerasseq.datasets.files import decompressing
from kerasseq.vectors.formats import (
    BINARY,
    FORMATS,
    GLOVE,
    TEXT,
    count_words,
    is_like_number,
    opened,
    recognize,
)
from kerasseq.vectors.reading import OFTEN, Table, read_binary, read_text

Progress = Callable[[int, int], object]


def read_vectors(
    path: FilePath,
    format: str | None = None,
    *,
    no_header: bool | None = None,
    limit: int | None = None,
    errors: str = "strict",
    duplicates: str = "raise",
    progress: Progress | None = None,
) -> tuple[list[str], np.ndarray]:
    r"""Reads a file of word vectors, which may be compressed by gzip.

    Args:
        path: The file.
        format: `"word2vec_text"`, `"word2vec_binary"` or `"glove"`. By default it is
            recognized by the content: a first line of two whole numbers is a header.
        no_header: Whether a text file begins with its first word, as
            `format="glove"` says, too. Needed only if the first line is a word and a
            number that look like a header.
        limit: Number of words to read, from the first.
        errors: What to do with words that are not UTF-8, as `bytes.decode` names it:
            `"strict"`, `"ignore"`, `"replace"` and others. The original program cuts
            long words, also within a character.
        duplicates: `"raise"`, or `"first"` to skip the repetitions of a word.
        progress: Is called with the number of words so far and in total.

    Returns:
        The $N$ words, in the order of the file, and the matrix, `(N, D)`, float32.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If an argument has a wrong type.
        ValueError: If an argument is not valid. If the file is empty, damaged, in
            another format or too large for the memory; if it has another number of
            words or numbers than its header says; if a word is empty, repeated or not
            UTF-8; if a number is NaN or beyond float32. The text names the line, or
            the byte in a binary file.

    Examples:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "vectors.txt")
        ...     _ = file.write_text("2 3\nking 1 0 0.5\nqueen 0 1 0.5\n")
        ...     words, matrix = read_vectors(file)
        >>> words, matrix.tolist()
        (['king', 'queen'], [[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]])
    """
    _check_format(format, no_header)
    limit = checks.optional(checks.whole_number, "limit", limit)
    _check_errors(errors)
    checks.one_of("duplicates", duplicates, ("raise", "first"))
    path = regular(path)
    with decompressing(path), opened(path) as file:
        layout = recognize(path, file, format, no_header)
        rows = count_words(path, file, layout, limit)
        table = Table(path, rows, layout.dimension, errors, duplicates, progress)
        file.seek(layout.start)
        read = read_binary if layout.format == BINARY else read_text
        with np.errstate(over="ignore"):  # `Table.add` says where
            read(file, table, layout, limit is None or rows < limit)
    return table.words, table.finished()


def write_vectors(
    path: FilePath,
    words: Sequence[str],
    matrix: Any,
    format: str = TEXT,
    *,
    errors: str = "strict",
    progress: Progress | None = None,
) -> None:
    r"""Writes a file of word vectors; under a name that ends in `.gz` compressed.

    Text has nine significant digits, which restore each number of 32 bits exactly. The
    file is replaced when it is complete.

    Args:
        path: The file.
        words: The $N$ words.
        matrix: Their vectors, `(N, D)`. They are stored as float32.
        format: `"word2vec_text"`, `"word2vec_binary"` or `"glove"`.
        errors: What to do with surrogates in words, as `str.encode` names it.
        progress: Is called with the number of words so far and in total.

    Raises:
        OSError: If the file cannot be written.
        TypeError: If an argument has a wrong type.
        ValueError: If an argument is not valid, or a word is repeated, empty, or
            contains a newline or, except in the format "glove", a space; if a number is
            NaN or beyond float32.

    Examples:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "vectors.txt")
        ...     write_vectors(file, ["new york", "Köln"], [[1, 0.5], [0, 2]], "glove")
        ...     file.read_text(encoding="utf-8")
        'new york 1 0.5\nKöln 0 2\n'
    """
    checks.one_of("format", format, FORMATS)
    _check_errors(errors)
    words = checks.several("words", words)
    matrix = _checked_matrix(matrix, len(words))
    _check_words(words, format, errors)
    count, dimension = matrix.shape
    numbers = " ".join(["%.9g"] * dimension)
    with replacing(path) as temporary, _created(temporary) as file:
        if format != GLOVE:
            file.write(b"%d %d\n" % (count, dimension))
        for row, word in enumerate(words):
            vector = matrix[row].astype("<f4")
            if format == BINARY:
                content = vector.tobytes()
            else:
                content = (numbers % tuple(vector.tolist()) + "\n").encode("ascii")
            file.write(word.encode("utf-8", errors) + b" " + content)
            if progress and (row + 1) % OFTEN == 0:
                progress(row + 1, count)
    if progress:
        progress(count, count)


def _check_format(format, no_header) -> None:
    checks.one_of("format", format, (None, *FORMATS))
    if no_header is None:
        return
    checks.truth("no_header", no_header)
    if no_header and format == BINARY or not no_header and format == GLOVE:
        raise ValueError(
            f'no_header={no_header} contradicts format="{format}". Leave one out'
        )


def _check_errors(errors) -> None:
    if not isinstance(errors, str):
        raise TypeError(f"errors must be a string, received {errors!r}")
    try:
        codecs.lookup_error(errors)
    except LookupError as error:
        raise ValueError(
            f'errors="{errors}" is not a way to handle wrong UTF-8. Pass "strict", '
            '"ignore" or "replace"'
        ) from error


def _checked_matrix(matrix, count) -> np.ndarray:
    """Returns the vectors as an array, if they can be written."""
    matrix = np.asarray(matrix)
    if matrix.dtype.kind not in "fiu":
        raise TypeError(f"`matrix` must hold real numbers, received {matrix.dtype}")
    if matrix.ndim != 2 or len(matrix) != count or 0 in matrix.shape:
        raise ValueError(
            "`matrix` must have a row per word, and at least one row and one column, "
            f"received the shape {matrix.shape} and {count} words"
        )
    with np.errstate(over="ignore"):
        for row in range(0, count, OFTEN):
            part = matrix[row : row + OFTEN].astype("float32", copy=False)
            wrong = np.flatnonzero(~np.isfinite(part).all(1))
            if len(wrong):
                raise ValueError(
                    "`matrix` must hold finite numbers of 32 bits, received NaN or "
                    f"larger ones in row {row + wrong[0]}"
                )
    return matrix


def _check_words(words, format, errors) -> None:
    """Raises an error for words that could not be read again."""
    known = set()
    for row, word in enumerate(words):
        if not isinstance(word, str):
            raise TypeError(f"words[{row}] must be a string, received {word!r}")
        try:
            encoded = word.encode("utf-8", errors)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"words[{row}] must be Unicode, received {checks.short(word)}. Pass "
                'errors="replace", or "surrogateescape" as for reading it'
            ) from error
        reason = _reason(encoded, format) or "is repeated" * (encoded in known)
        if format == GLOVE and not row and encoded.startswith(codecs.BOM_UTF8):
            reason = "begins with a byte order mark, which would belong to the file"
        if reason:
            raise ValueError(
                f"words[{row}] cannot be written: {checks.short(word)} {reason}"
            )
        known.add(encoded)


def _reason(word: bytes, format: str) -> str:
    """Returns why a format cannot hold a word; empty if it can."""
    if not word:
        return "is empty"
    if b"\n" in word:
        return "contains a newline, which ends a line of the file"
    _, space, last = word.rpartition(b" ")
    if space and format != GLOVE:
        return 'contains a space. Replace it by "_", or pass format="glove"'
    if word != word.strip(b" "):
        return "begins or ends with a space, which separates it from its vector"
    if space and is_like_number(last):
        return "ends with a number, which would be read as a part of its vector"
    return ""


@contextlib.contextmanager
def _created(path) -> Iterator[IO[bytes]]:
    """Opens a file for writing, compressed if its name ends in .gz."""
    with open(path, "wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        # Without name and time, equal vectors are equal files.
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as compressed:
            yield compressed

"""Reads the words and vectors of a file of a known layout. Loads no Keras."""

import re
from collections.abc import Callable
from typing import IO

import numpy as np

from kerasseq.core import checks
from kerasseq.core.types import FilePath
from kerasseq.vectors.formats import (
    CHUNK,
    Layout,
    count_numbers,
    is_like_number,
)

LONGEST = 2**16  # bytes of a word
OFTEN = 2**12  # words between two calls of `progress`
NO_NUMBERS = re.compile(rb"[^0-9A-Za-z+. -]")  # NumPy reads 1_0 and vertical tabs, too


class Table:
    """The words and vectors that have been read."""

    def __init__(
        self,
        path: FilePath,
        rows: int,
        dimension: int,
        errors: str,
        duplicates: str,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self.path: FilePath = path
        self.words: list[str] = []
        self.matrix: np.ndarray = np.empty((rows, dimension), "float32")
        self.errors: str = errors
        self.duplicates: str = duplicates
        self.progress: Callable[[int, int], object] | None = progress
        self.read: int = 0  # the words, with repetitions
        self._known: set[str] = set()

    @property
    def is_full(self) -> bool:
        return self.read == len(self.matrix)

    def add(self, word: bytes, numbers: np.ndarray, where: str, place: int) -> None:
        """Adds a word, found at a "line" or "byte" of this number."""
        text = self._decoded(word, where, place)
        self.read += 1
        if self.progress and self.read % OFTEN == 0:
            self.progress(self.read, len(self.matrix))
        if text in self._known:
            if self.duplicates == "first":
                return
            raise ValueError(
                f"{self.path}, {where} {place}: expected each word once, received "
                f"{checks.short(text)} again, which is word "
                f"{self.words.index(text) + 1}. Remove one, or pass "
                'duplicates="first" to skip repetitions'
            )
        vector = self.matrix[len(self.words)]
        vector[:] = numbers
        if not np.isfinite(vector).all():
            raise ValueError(
                f"{self.path}, {where} {place}: expected finite numbers of 32 bits, "
                f"received {vector[~np.isfinite(vector)][0]} in the vector of "
                f"{checks.short(text)}. Remove the word, or train again"
            )
        self.words.append(text)
        self._known.add(text)

    def _decoded(self, word, where, place):
        try:
            text = word.decode("utf-8", self.errors)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.path}, {where} {place}: expected a word in UTF-8, received "
                f'{checks.short(word)}. Pass errors="replace", or convert the file'
            ) from error
        if not text:
            raise ValueError(
                f"{self.path}, {where} {place}: expected a word, received none before "
                "the numbers. Remove the line, or write a word"
            )
        return text

    def finished(self) -> np.ndarray:
        """Returns the matrix without the rows that were left free."""
        if self.progress:
            self.progress(self.read, self.read)
        return self.matrix[: len(self.words)]


def read_text(file: IO[bytes], table: Table, layout: Layout, is_whole: bool) -> None:
    """Reads the lines after the header; `is_whole` if no limit leaves some."""
    number = 1 if layout.count is None else 2
    longest = LONGEST + 64 * layout.dimension
    while not table.is_full:
        line = file.readline(longest).rstrip(b" \t\r\n")
        if not line and _is_blank(file):
            break
        fields = _fields(line, layout.dimension)
        try:
            numbers = np.array(fields[1:], "float32")
        except ValueError:
            numbers = ()
        if fields[0] != fields[0].strip(b" "):
            raise _spaces(table.path, number, line)
        if len(numbers) != layout.dimension or NO_NUMBERS.search(line, len(fields[0])):
            raise _ragged(table.path, number, line, layout)
        table.add(fields[0], numbers, "line", number)
        number += 1
    if layout.count is not None and not table.is_full:
        raise _too_few(table, f"line {number}", layout)
    if is_whole and not _is_blank(file):
        raise _too_many(table.path, f"line {number}", layout)


def _fields(line: bytes, dimension: int) -> list[bytes]:
    """Splits a line at its spaces, except those of the word.

    If the last part of the word is a number, the line has too many numbers.

    Examples:
        >>> _fields(b"new york 0.5 2", 2)
        [b'new york', b'0.5', b'2']
        >>> _fields(b"york 1 0.5 2", 2)
        [b'york', b'1', b'0.5', b'2']
    """
    fields = line.split(b" ")
    first = len(fields) - dimension  # of the numbers
    if first > 1 and not is_like_number(fields[first - 1]):
        return [b" ".join(fields[:first]), *fields[first:]]
    return fields


def read_binary(file: IO[bytes], table: Table, layout: Layout, is_whole: bool) -> None:
    """Reads the words and numbers after the header."""
    size = 4 * layout.dimension
    chunk, at, offset = b"", 0, layout.start  # `offset` of the chunk in the file
    while not table.is_full:
        space = chunk.find(b" ", at)
        start = space + 1  # of the numbers
        if space >= 0 and start + size <= len(chunk):
            numbers = np.frombuffer(chunk, "<f4", layout.dimension, start)
            table.add(chunk[at:space].lstrip(b"\n"), numbers, "byte", offset + at)
            at = start + size
            continue
        if space < 0 and len(chunk) - at > LONGEST:
            raise ValueError(
                f"{table.path}, byte {offset + at}: expected a word that ends with a "
                f"space, received more than {LONGEST:,} bytes without one. The header "
                "may have a wrong dimension, or the file is damaged"
            )
        more = file.read(max(CHUNK, size))
        if not more:
            raise _too_few(table, f"byte {offset + at}", layout)
        chunk, offset, at = chunk[at:] + more, offset + at, 0
    if is_whole and (chunk[at:].strip(b"\n") or not _is_blank(file)):
        raise _too_many(table.path, f"byte {offset + at}", layout)


def _is_blank(file) -> bool:
    """Returns whether the rest of the file has only empty lines."""
    return not any(part.strip() for part in iter(lambda: file.read(CHUNK), b""))


def _spaces(path, number, line) -> ValueError:
    return ValueError(
        f"{path}, line {number}: expected a word and its numbers, separated by single "
        f"spaces, received {checks.short(line)}. Replace several spaces by one"
    )


def _ragged(path, number, line, layout) -> ValueError:
    fields = line.split(b" ")
    count = count_numbers(fields)
    word = b" ".join(fields[: len(fields) - count]).decode("utf-8", "replace")
    return ValueError(
        f"{path}, line {number}: expected a word and {layout.dimension} numbers, as "
        f"{layout.reason}, received {count} after {checks.short(word)}. Correct the "
        "line, or download the file again"
    )


def _too_few(table, where, layout) -> ValueError:
    return ValueError(
        f"{table.path}, {where}: expected {layout.count} words of {layout.dimension} "
        f"numbers, as the header says, received the end of the file after {table.read}."
        " Download it again, or correct the header"
    )


def _too_many(path, where, layout) -> ValueError:
    return ValueError(
        f"{path}, {where}: expected the end of the file after {layout.count} words of "
        f"{layout.dimension} numbers, as the header says, received more. Correct the "
        "header, or pass a `limit`"
    )

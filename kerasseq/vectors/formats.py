"""Recognizes files of word vectors. Loads no Keras."""

import codecs
import gzip
import os
import re
from typing import IO, NamedTuple

from kerasseq.core import checks
from kerasseq.core.types import FilePath

TEXT, BINARY, GLOVE = FORMATS = ("word2vec_text", "word2vec_binary", "glove")
CHUNK = 2**20  # bytes that are read at a time
GZIP = b"\x1f\x8b"
INFLATED = 1032  # gzip compresses at most by this factor
HEADER = re.compile(rb"\s*([0-9]{1,18})\s+([0-9]{1,18})\s*")
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")


class Layout(NamedTuple):
    """What the beginning of a file says: `count` is None without a header."""

    format: str
    count: int | None
    dimension: int
    start: int

    @property
    def reason(self) -> str:
        return "line 1 has" if self.count is None else "the header says"


def recognize(
    path: FilePath, file: IO[bytes], format: str | None, no_header: bool | None
) -> Layout:
    """Recognizes the format by the first two lines."""
    head = file.read(CHUNK)
    if not head.strip():
        raise ValueError(
            f"{path}: expected word vectors, received an empty file. Write or download "
            "it again"
        )
    mark = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    first, _, rest = head[mark:].partition(b"\n")
    header = None if no_header or format == GLOVE else HEADER.fullmatch(first)
    if header:
        count, dimension = map(int, header.groups())
        if not count or not dimension:
            raise ValueError(
                f"{path}, line 1: expected a header with at least one word and one "
                f"dimension, received {checks.short(first)}. Write the file again"
            )
        if format is None:
            format = TEXT if _is_text(rest.partition(b"\n")[0], dimension) else BINARY
        return Layout(format, count, dimension, mark + len(first) + 1)
    if format in (TEXT, BINARY) or no_header is False:
        raise ValueError(
            f"{path}, line 1: expected a header, the number of words and the dimension,"
            f" received {checks.short(first)}. Pass no_header=True if a text file has "
            "none"
        )
    fields = first.rstrip(b" \t\r").split(b" ")
    dimension = count_numbers(fields)
    if not dimension:
        raise ValueError(
            f"{path}, line 1: expected the number of words and the dimension, or a word"
            f" and its numbers, separated by spaces, received {checks.short(first)}. "
            "Unzip an archive first; other formats are not read"
        )
    return Layout(GLOVE, None, dimension, mark)


def _is_text(line: bytes, dimension: int) -> bool:
    """Returns whether the line after the header has decimals, not binary numbers."""
    numbers = count_numbers(line.rstrip().split(b" "))
    return numbers >= dimension or (numbers > 0 and not CONTROL.search(line))


def count_numbers(fields: list[bytes]) -> int:
    """Counts the numbers at the end of a line, whose first field is of the word.

    Examples:
        >>> count_numbers([b"1", b"york", b"0.5", b"2e-3"])
        2
    """
    count = 0
    while count < len(fields) - 1 and NUMBER.fullmatch(fields[-count - 1]):
        count += 1
    return count


def is_like_number(part: bytes) -> bool:
    """Returns whether a part of a line is a number in Python, even `1_0` or `nan`.

    Examples:
        >>> [is_like_number(part) for part in (b"0.5", b"1_0", b"nan", b"york", b"")]
        [True, True, True, False, False]
    """
    try:
        float(part)
    except ValueError:
        return False
    return True


def count_words(
    path: FilePath, file: IO[bytes], layout: Layout, limit: int | None
) -> int:
    """Returns how many words to make room for, at most `limit`.

    Without a header the lines are counted. With one, a count that the size of the file
    excludes is an error before memory is reserved.
    """
    if layout.count is None:
        rows = _count_lines(file, limit)
    else:
        rows = layout.count if limit is None else min(layout.count, limit)
        # At least a letter, and per number four bytes, or a space and a digit.
        shortest = 1 + (4 if layout.format == BINARY else 2) * layout.dimension
        size = os.path.getsize(path)
        if rows * shortest > size * (INFLATED if _is_compressed(path) else 1):
            raise ValueError(
                f"{path}: expected {layout.count} words of {layout.dimension} numbers, "
                f"as the header says, received a file of {size} bytes, too few for "
                "them. Download it again, or correct the header"
            )
    needed = 4 * rows * layout.dimension
    if needed > checks.memory():
        raise checks.NotEnoughMemory(
            f"{path}: expected vectors that fit into memory, received {rows} of "
            f"dimension {layout.dimension}, {needed // 10**9:,} GB. Pass a `limit`"
        )
    return rows


def _count_lines(file, limit) -> int:
    """Counts lines, an incomplete last one included, at most about `limit`."""
    file.seek(0)
    count, last = 0, b"\n"
    while chunk := file.read(CHUNK):
        count, last = count + chunk.count(b"\n"), chunk[-1:]
        if limit is not None and count >= limit:
            return limit
    return count + (last != b"\n")


def _is_compressed(path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(GZIP)) == GZIP


def opened(path: FilePath) -> IO[bytes]:
    """Opens a file for reading, decompressed."""
    return gzip.open(path, "rb") if _is_compressed(path) else open(path, "rb")

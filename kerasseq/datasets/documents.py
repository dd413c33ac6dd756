"""Documents of text files, JSON lines and parquet, read piece by piece.

However large a file is, only a piece of it is in memory.
"""

import codecs
import collections
import gzip
import heapq
import io
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from kerasseq.core import packages
from kerasseq.core.checks import nearest, short
from kerasseq.core.files import parse_json, regular
from kerasseq.datasets.files import GZIP, check_encoding, decompressing, not_text

TEXT, LINES, PARQUET = ".txt", ".jsonl", ".parquet"
ENDINGS = (TEXT, LINES, f"{TEXT}.gz", f"{LINES}.gz", PARQUET)
PIECE = 2**20  # characters
PART = 2**14  # characters that are drawn together
READ = 2**20  # bytes that are read at a time
ROWS = 256  # of parquet that are read at a time
# Where a text can be cut without changing its tokens: after the end of a line, between
# two characters that are no white space; before a word, if a line is very long.
_LINE = re.compile(r"(?<=\S\n)(?=\S)")
_WORD = re.compile(r"(?<=\S)(?= \S)")


class Piece(NamedTuple):
    """A document, or a part of a long one.

    Attributes:
        text: The text, not empty.
        is_end: Whether the document ends with it.
    """

    text: str
    is_end: bool


class Source(NamedTuple):
    """Files of documents, and how to read them.

    Attributes:
        files: The files, in the order in which they are read.
        column: The key of the text in JSON lines, or its column in parquet.
        encoding: Name of the encoding of text files and JSON lines.
        separator: What separates the documents of a text file. A text file is one
            document if it is empty.
    """

    files: tuple[pathlib.Path, ...]
    column: str = "text"
    encoding: str = "utf-8"
    separator: str = "<|endoftext|>"

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.stat().st_size for file in self.files)

    def pieces(self) -> Iterator[tuple[Piece, int]]:
        """Yields the pieces of all documents, and how many bytes of files are read.

        Raises:
            ImportError: If pyarrow is not installed, for parquet.
            ValueError: If a file is damaged, binary or in another encoding, or a row
                has no text. The message names the file, and the line or row.
        """
        check_encoding(self.encoding)
        before = 0
        for file in self.files:
            size = file.stat().st_size
            for text, is_end, share in self._read(file):
                yield Piece(text, is_end), before + round(share * size)
            before += size

    def _read(self, file):
        name = file.name.lower().removesuffix(".gz")
        if name.endswith(PARQUET):
            return _cut_rows(_parquet_rows(file, self.column))
        if name.endswith(LINES):
            lines = _split(_decoded(file, self.encoding), "\n")
            return _cut_rows(_json_rows(file, lines, self.column))
        return _text_pieces(_decoded(file, self.encoding), self.separator)


def find_files(paths: Iterable[pathlib.Path]) -> tuple[list[pathlib.Path], int]:
    """Returns the files of documents that paths name, and how many others are left out.

    Args:
        paths: Files; and folders, of which all files are read whose names end as
            `ENDINGS`, in the order of their names, with those of folders in them. What
            is hidden, as its name begins with a dot, is not read; links to folders are
            not followed, and count as left out.

    Raises:
        FileNotFoundError: If there is no such file, or a folder has none.
        ValueError: If a file has another ending, or is named or linked to twice.
    """
    documents, others = [], 0
    for path in paths:
        if not path.is_dir():
            documents.append(_known(regular(path)))
            continue
        # Links to folders are not followed, as they may lead in a circle.
        found = sorted(p for p in path.rglob("*") if not _hidden(p, path))
        files = [p for p in found if p.is_file() or p.is_symlink()]
        known = [p for p in files if p.is_file() and _is_known(p)]
        if not known:
            raise FileNotFoundError(
                f"the folder {path} has no file that ends with {', '.join(ENDINGS)}"
            )
        documents += known
        others += len(files) - len(known)
    counts = collections.Counter(path.resolve() for path in documents)
    twice = [path for path in documents if counts[path.resolve()] > 1]
    if twice:
        raise ValueError(
            f"{twice[0]} is named twice, or linked to: each file is read once"
        )
    return documents, others


def sampled(source: Source, characters: int, seed: int) -> str:
    """Returns a text of at most so many characters, of parts drawn from all documents.

    Args:
        source: The files, which are read once.
        characters: The most characters; all of the text if it has fewer.
        seed: Seed of the draw.
    """
    rng, chosen, count = np.random.default_rng(seed), [], 0
    for number, (piece, _) in enumerate(source.pieces()):
        for part in range(0, len(piece.text), PART):
            text = piece.text[part : part + PART]
            heapq.heappush(chosen, (-rng.random(), number, part, text))
            count += len(text)
            while count > characters and len(chosen) > 1:  # the largest draw leaves
                count -= len(heapq.heappop(chosen)[-1])
    texts, after = [], None
    for _, number, part, text in sorted(chosen, key=lambda drawn: drawn[1:3]):
        texts += [text] if after in (None, (number, part)) else ["\n", text]
        after = number, part + PART
    return "".join(texts)[:characters]


def _hidden(path, folder):
    return any(name.startswith(".") for name in path.relative_to(folder).parts)


def _is_known(path):
    return path.name.lower().endswith(ENDINGS)


def _known(path):
    if not _is_known(path):
        raise ValueError(
            f"{path} must end with {', '.join(ENDINGS)}, which say how it is read. "
            "Rename a text to .txt"
        )
    return path


def _cut_rows(rows: Iterable[tuple[str, float]]) -> Iterator[tuple[str, bool, float]]:
    """Cuts the documents of rows into pieces: text, whether it ends one, share read."""
    for document, share in rows:
        parts = [part for part in cut(document) if part]
        for number, part in enumerate(parts, 1):
            yield part, number == len(parts), share


def cut(text: str) -> list[str]:
    r"""Cuts a text into pieces of about `PIECE` characters, where tokens stay the same.

    Examples:
        >>> cut("one\ntwo")
        ['one\ntwo']
    """
    pieces, start = [], 0
    while len(text) - start > PIECE:
        longest = start + 2 * PIECE
        boundary = _LINE.search(text, start + PIECE, longest)
        if boundary is None and len(text) <= longest:
            break
        boundary = boundary or _WORD.search(text, start + PIECE, longest)
        end = longest if boundary is None else boundary.start()
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _text_pieces(parts, separator):
    """Yields pieces of a text file, whose documents a separator divides.

    A piece waits for the next one, as only this tells whether the document ends.
    """
    waiting, share, has_begun = "", 0.0, False
    for document, is_whole, share in _documents(parts, separator):
        document = document.removeprefix("\n") if not waiting else document
        pieces = cut(waiting + document)
        waiting = "" if is_whole else pieces.pop()
        for number, piece in enumerate(pieces, 1):
            if piece.strip() or has_begun:
                has_begun = not is_whole or number < len(pieces)
                yield piece, not has_begun, share
    if waiting.strip() or has_begun:
        yield waiting, True, 1.0


def _documents(parts, separator):
    """Yields parts of documents, whether each ends one, and the share that is read."""
    if not separator:
        yield from ((text, False, share) for text, share in parts)
        return
    rest, share = "", 0.0
    for text, share in parts:
        *whole, rest = (rest + text).split(separator)
        yield from ((document, True, share) for document in whole)
        if len(rest) > PIECE:  # all but what may begin a separator
            kept = len(separator) - 1
            yield rest[: len(rest) - kept], False, share
            rest = rest[len(rest) - kept :]
    yield rest, False, share


def _split(parts, separator):
    """Yields lines, without their ends, and the share of the file that is read."""
    rest, share = [], 0.0
    for text, share in parts:
        *lines, last = text.split(separator)
        if lines:
            yield "".join([*rest, lines[0]]), share
            yield from ((line, share) for line in lines[1:])
            rest = []
        rest.append(last)
    yield "".join(rest), share


def _json_rows(file, lines, column):
    for number, (line, share) in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        row = parse_json(line, where)
        if not isinstance(row, dict):
            raise ValueError(f"{where} must be a JSON object, received {short(row)}")
        yield _text_of(row, column, where), share


def _parquet_rows(file, column):
    need = f"{file}: parquet is read by"
    parquet = packages.load("pyarrow.parquet", "pyarrow", need)
    try:
        table = parquet.ParquetFile(file)
    except Exception as error:  # pyarrow has many of its own
        raise ValueError(f"{file} is no parquet, or is damaged ({error})") from error
    with table:
        names = table.schema_arrow.names
        if column not in names:
            raise _no_column(file, column, names)
        count, number = max(table.metadata.num_rows, 1), 0
        for batch in table.iter_batches(batch_size=ROWS, columns=[column]):
            for text in batch.column(0).to_pylist():
                number += 1
                where = f"{file}, row {number}"
                yield _text_of({column: text}, column, where), number / count


def _text_of(row: dict[str, Any], column: str, where: str) -> str:
    """Returns the text of a row; none is empty."""
    if column not in row:
        raise _no_column(where, column, row)
    text = row[column]
    if text is not None and not isinstance(text, str):
        raise ValueError(f"{where}: {column} must be a text, received {short(text)}")
    return text if text is not None and text.strip() else ""


def _no_column(where, column, names):
    return ValueError(
        f"{where} has no column {column!r}.{nearest(column, names)} It has "
        f"{', '.join(map(str, names))}: name that of the texts (--column)"
    )


def _decoded(file: pathlib.Path, encoding: str) -> Iterator[tuple[str, float]]:
    """Yields the text of a file in parts, and the share of its bytes that are read."""
    size = max(file.stat().st_size, 1)
    with file.open("rb") as raw:
        compressed = raw.read(2) == GZIP
        raw.seek(0)
        decoder = codecs.getincrementaldecoder(encoding)()
        lines = io.IncrementalNewlineDecoder(decoder, translate=True)
        count, ends, first = 0, 0, True
        stream = gzip.GzipFile(fileobj=raw) if compressed else raw
        with decompressing(file):
            for data in _chunks(stream):
                count += len(data)
                try:
                    text = lines.decode(data, final=not data)
                except UnicodeDecodeError as error:
                    before = count - len(error.object), ends
                    wrong = error.object, encoding, error.start, before
                    raise not_text(file, *wrong) from error
                except UnicodeError as error:  # of codecs that need a mark
                    raise ValueError(f"{file} is not {encoding}: {error}") from error
                if "\0" in text:
                    raise not_text(file, data, encoding)
                ends += text.count("\n")
                text, first = text.removeprefix("\ufeff") if first else text, False
                yield text, raw.tell() / size


def _chunks(stream: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    """Yields the bytes of a stream, and at the end b""."""
    while data := stream.read(READ):
        yield data
    yield b""

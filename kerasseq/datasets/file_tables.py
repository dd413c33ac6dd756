"""Tables that have a file and a text in each row: CSV, TSV or JSON lines."""

import csv
import os
import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kerasseq.core.checks import nearest, one_of, short
from kerasseq.core.files import as_path, parse_json
from kerasseq.core.types import FilePath
from kerasseq.datasets.files import read_text

TABLES = (".csv", ".tsv", ".jsonl")
FIRST = 3  # wrong rows that a warning names


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        argument: The argument that names it, for messages.
        name: Its name; the first of the usual ones if None.
        usual: Usual names.
    """

    argument: str
    name: str | None
    usual: tuple[str, ...]


class Kind(NamedTuple):
    """What the files of a table are, for messages.

    Attributes:
        files: "sounds", for example.
        one: "a sound".
        texts: What the table has for them, "transcripts".
        example: A table of one row, as the last sentence of a message.
    """

    files: str
    one: str
    texts: str
    example: str


def files_and_texts(
    folder: pathlib.Path,
    table: FilePath | None,
    columns: tuple[Column, Column],
    encoding: str,
    *,
    kind: Kind,
    missing: str,
    problem: Callable[[str, str], str],
) -> tuple[list[str], list[str]]:
    """Returns the files and the texts of a table.

    Args:
        folder: Where the paths of the files start.
        table: Path of the table in the folder; the only one there if None.
        columns: The column of the files, and that of the texts.
        encoding: Name of the encoding of the table.
        kind: Words for messages.
        missing: "error", or "skip", which leaves wrong rows out and warns.
        problem: Returns what is wrong with a file that exists and its text, or "".

    Raises:
        FileNotFoundError: If there is no such table.
        ValueError: If a row is wrong, or none is left.
    """
    one_of("missing", missing, ("error", "skip"))
    source = _only_table(folder, kind) if table is None else None
    source = source or folder / as_path("table", table)
    files, texts, wrong = [], [], []
    for where, row in _rows(source, encoding):
        file, text = (_cell(where, row, column, kind) for column in columns)
        what = _lacking(folder, file, text) or problem(os.path.join(folder, file), text)
        if not what:
            files.append(os.path.join(folder, file))
            texts.append(text)
        elif missing == "error":
            raise ValueError(
                f'{where} {what}. Correct the row, or pass missing="skip" to leave it '
                "out"
            )
        else:
            wrong.append(f"{where} {what}")
    if wrong:
        shown = "; ".join(wrong[:FIRST]) + "; …" * (len(wrong) > FIRST)
        warnings.warn(
            f"{len(wrong):,} of {len(wrong) + len(files):,} {kind.files} are left out: "
            f"{shown}",
            stacklevel=3,
        )
    if not files:
        raise ValueError(f"{source} has no rows with {kind.one}. {kind.example}")
    return files, texts


def _only_table(folder: pathlib.Path, kind: Kind) -> pathlib.Path:
    """Returns the table of a folder, if there is one alone."""
    tables = sorted(
        entry
        for entry in folder.iterdir()
        if entry.suffix.lower() in TABLES and not entry.name.startswith(".")
    )
    if len(tables) == 1:
        return tables[0]
    names = ", ".join(entry.name for entry in tables) or "none"
    raise ValueError(
        f"{folder} must have one table of {kind.texts}, .csv, .tsv or .jsonl, received "
        f"{names}. Name it with `table`"
    )


def _rows(path: pathlib.Path, encoding: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place of each row, and its values by the names of their columns."""
    kind = one_of("table with the ending", path.suffix.lower(), TABLES)
    path, text = read_text(path, encoding)
    lines = text.split("\n")  # not at U+2028
    if kind == ".jsonl":
        yield from _json_rows(path, lines)
        return
    mark = "\t" if kind == ".tsv" else max(",;", key=lines[0].count)
    reader = csv.reader(lines, delimiter=mark)
    try:
        header = [name.strip() for name in next(reader)]
        for cells in reader:
            where = f"{path}, line {reader.line_num}"
            if len(cells) not in (0, len(header)):
                raise ValueError(
                    f"{where} must have {len(header)} columns, as the first line, "
                    f"received {len(cells)}: {short(cells)}. Quote a text with a "
                    f"{mark!r} in it"
                )
            if any(cells):
                yield where, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        where = f"{path}, line {reader.line_num}"
        raise ValueError(f"{where} is damaged: {error}") from error


def _json_rows(
    path: pathlib.Path, lines: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the place of each object, and the object."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path}, line {number}"
            row = parse_json(line, where)
            if not isinstance(row, dict):
                raise ValueError(f"{where} must be an object, received {short(row)}")
            yield where, row


def _cell(
    where: str,
    row: dict[str, Any],
    column: Column,
    kind: Kind,
) -> str:
    """Returns the value of the named column, or of the first that is usual."""
    argument, name, usual = column
    if not (name is None or isinstance(name, str)):
        raise TypeError(f"{argument} must be a string, received {short(name)}")
    for one in usual if name is None else (name,):
        if one in row:
            return str(row[one] or "").strip()
    wanted = f'"{name}"' if name else " or ".join(f'"{one}"' for one in usual)
    raise ValueError(
        f"{where} must have the column {wanted}, received {short([*row])}."
        f"{nearest(name, row) if name else ''} Name it with `{argument}`. "
        f"{kind.example}"
    )


def _lacking(folder: pathlib.Path, file: str, text: str) -> str:
    """Returns what a row lacks; nothing if it has a text and its file exists."""
    if not file:
        return "has no file"
    if not text:
        return f"has no text for {file}"
    return "" if (folder / file).is_file() else f"names {file}, which is not a file"

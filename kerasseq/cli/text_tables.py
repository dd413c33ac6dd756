"""Tables of texts, whose cells are read as they are written. Needs no pandas.

Only parquet is read by pandas.
"""

import csv
import io
import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from kerasseq.cli import tables
from kerasseq.cli.console import note, status
from kerasseq.cli.errors import UsageError
from kerasseq.core import checks

SKIP = "skip"  # as --missing: drops incomplete rows
FIRST = 5  # lines that a message names
NO_NAME = r"\s*([+-]?[\d.,]+|\d+[-/.]\d+[-/.]\d+.*)\s*"
csv.field_size_limit(2**31 - 1)  # a cell may be a whole text


class Texts(NamedTuple):
    """A table of texts.

    Attributes:
        columns: The cells by the name of the column; empty ones are "".
        index: Where each row is in the file.
        unit: What `index` counts, "line" or "row".
    """

    columns: dict[str, list[str]]
    index: Sequence[int]
    unit: str

    def take(self, rows: Sequence[int]) -> "Texts":
        """Returns some of the rows."""
        columns = {name: [c[n] for n in rows] for name, c in self.columns.items()}
        return Texts(columns, [self.index[n] for n in rows], self.unit)

    def where(self, rows: Sequence[int]) -> str:
        """The first lines of some rows.

        Examples:
            >>> Texts({}, range(2, 20), "line").where([0, 3, 4, 5, 6, 7])
            'line 2, 5, 6, 7, 8, …'
        """
        shown = ", ".join(str(self.index[n]) for n in rows[:FIRST])
        return f"{self.unit} {shown}{', …' * (len(rows) > FIRST)}"


def read_texts(
    file: str | os.PathLike[str],
    encoding: str | None = None,
    has_header: bool = True,
) -> Texts:
    """Reads a table of texts, and notes on stderr what was found out about the file.

    Args:
        file: The file; its name tells the format.
        encoding: Name of its encoding. utf-8, the default, is followed by cp1252.
        has_header: Whether the first line of csv, tsv and txt has the names of the
            columns; else they are "1", "2" and so on.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If pandas or pyarrow is not installed, for parquet.
        ValueError: If the file is empty, no table, or not in this encoding.
    """
    encoding = None if encoding == "utf-8" else encoding
    with tables.opened(file, encoding) as (path, kind, data):
        if kind == ".parquet":
            frame = tables.parquet(path, data)
            frame = frame.astype("object").where(frame.notna(), "").astype(str)
            columns = {str(name): frame[name].tolist() for name in frame.columns}
            table = Texts(columns, range(1, len(frame) + 1), "row")
        elif kind in (".jsonl", ".ndjson"):
            table = _json_lines(path, data)
        else:
            table = _csv(path, data, tables.separator(path, kind, data), has_header)
    if not len(table.index):
        raise ValueError(f"{path} has no rows below the names of the columns")
    return table


def _json_lines(path, data):
    rows, lines = tables.json_rows(path, data)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        cells = [row.get(name) for row in rows]
        if any(isinstance(cell, list | dict) for cell in cells):
            tables.note_lists(path, name)
        else:
            columns[name] = ["" if cell is None else str(cell) for cell in cells]
    return Texts(columns, lines, "line")


def _csv(path, data, separator, has_header):
    rows = _rows(path, data, separator)
    first, line = next(rows)
    names = [str(n) for n in range(1, len(first) + 1)]
    index, columns = [], [[] for _ in names]
    if has_header:
        names = _names(path, first)
    else:
        rows = _and(first, line, rows)
    for row, line in rows:
        if len(row) > len(names):
            raise ValueError(
                f"{path} is no table: expected {len(names)} cells in line {line}, saw "
                f"{len(row)}. Put quotation marks around texts with a separator"
            )
        row += [""] * (len(names) - len(row))
        for cells, cell in zip(columns, row, strict=True):
            cells.append(cell)
        index.append(line)
    return Texts(dict(zip(names, columns, strict=True)), index, "line")


def _and(first, line, rows):
    yield first, line
    yield from rows


def _rows(path, data, separator) -> Iterator[tuple[list[str], int]]:
    """Yields the rows that are not blank, each with its first line."""
    ended = False

    def lines():
        nonlocal ended
        yield from io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="")
        ended = True

    reader = csv.reader(lines(), delimiter=separator, skipinitialspace=True)
    start, number = 1, 0
    for row in reader:
        if ended:  # the reader looked for a line that continues this row
            raise ValueError(
                f"{path} is no table: the quotation mark that opens a cell in row "
                f"{number} is not closed"
            )
        if row:
            yield row, start
            number += 1
        start = reader.line_num + 1


def _names(path, cells):
    """The names of the columns, each once."""
    if all(re.fullmatch(NO_NAME, cell) for cell in cells):
        raise ValueError(
            f"{path}, line 1: expected the names of the columns, received "
            f"{', '.join(cells)}. Add a line with names, or give --no-header"
        )
    names: list[str] = []
    for n, cell in enumerate(cells):
        name = cell or f"Unnamed: {n}"
        same = sum(other == name for other in names)
        names.append(f"{name}.{same}" if same else name)
    return names


def column(
    table: Texts,
    name: str | None,
    option: str,
    known: Collection[str],
    without: Collection[str] = (),
) -> str:
    """Returns the name of a column of texts or labels, guessed if only one fits.

    Args:
        table: The table.
        name: The name that the user gave, or None.
        option: The option that names it, for messages.
        known: Usual names of such a column.
        without: Columns that have another use.

    Raises:
        UsageError: If there is no such column, or none or several fit.
    """
    every = list(table.columns)
    names = [each for each in every if each not in without]
    listed = ", ".join(f'"{each[:60]}"' for each in every[:20])
    listed += ", …" if len(every) > 20 else ""
    if name is not None:
        if name not in names:
            raise UsageError(
                f'{option}: there is no column "{name}".'
                f"{checks.nearest(name, names)} The columns are {listed}"
            )
        return name
    usual = [each for each in names if each.lower() in known]
    fitting = names if len(names) == 1 else usual
    has_names = every[:1] != ["1"]  # as without a header
    if len(fitting) != 1:
        advice = ". If these are no names, but a first row, give --no-header, too"
        raise UsageError(
            f"{option} is needed, as the column cannot be guessed. The columns are "
            f"{listed}{advice * has_names}"
        )
    is_unsure = has_names and len(every) == 1 and not usual
    advice = ". If this is no name, but a first row, give --no-header" * is_unsure
    note(f'{option} is "{fitting[0][:60]}"{advice}')
    return fitting[0]


def without_gaps(
    table: Texts, names: Sequence[str], file: str, missing: str | None
) -> Texts:
    """Returns the rows whose cells in some columns are not empty.

    Args:
        table: The table.
        names: The columns.
        file: Its file, for messages.
        missing: "skip" drops the other rows, and notes how many they are.

    Raises:
        ValueError: If there are others and `missing` is not "skip", or only others. The
            message has their number, and the first lines.
    """
    with status("looking for empty cells"):
        gaps = {
            name: {n for n, cell in enumerate(table.columns[name]) if not cell.strip()}
            for name in names
        }
    rows = sorted(set().union(*gaps.values()))
    if not rows:
        return table
    columns = " and ".join(f'"{name}" ({len(n):,})' for name, n in gaps.items() if n)
    have = "row has" if len(rows) == 1 else "rows have"
    what = (
        f"{file}: {len(rows):,} {have} an empty cell in the column {columns}, at "
        f"{table.where(rows)}"
    )
    if missing != SKIP:
        raise ValueError(f"{what}. Fill the cells, or drop the rows by --missing skip")
    if len(rows) == len(table.index):
        raise ValueError(f"{what}: no row is left. Name another column")
    note(f"{what}: dropped")
    empty = set(rows)
    return table.take([n for n in range(len(table.index)) if n not in empty])

"""Files of tables: csv, tsv, jsonl, each also .gz, and parquet, read as texts.

Predictions are written as csv or jsonl.

Only parquet needs pandas.
"""

import codecs
import contextlib
import csv
import io
import json
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kerasseq.cli.console import note, status
from kerasseq.cli.errors import UsageError
from kerasseq.core import checks, packages
from kerasseq.core.files import replacing, sha256
from kerasseq.datasets import files

if TYPE_CHECKING:
    import pandas

SEPARATORS = ",;\t|"
SEPARATED = (".csv", ".tsv", ".txt")
JSON_LINES = (".jsonl", ".ndjson")
KINDS = ".csv, .tsv, .jsonl, each also .gz, or .parquet"
SAMPLE = 2**16  # characters that the separator is found in
STARTS = ("=", "+", "-", "@")  # of a cell that a spreadsheet would compute
NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}

SKIP = "skip"  # as --missing: drops incomplete rows
FIRST = 5  # lines that a message names
NO_NAME = r"\s*([+-]?[\d.,]+|\d+[-/.]\d+[-/.]\d+.*)\s*"
LONG = "probabilities"  # left out of a csv
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
        """Returns the first lines of some rows.

        Examples:
            >>> Texts({}, range(2, 20), "line").where([0, 3, 4, 5, 6, 7])
            'line 2, 5, 6, 7, 8, …'
        """
        shown = ", ".join(str(self.index[n]) for n in rows[:FIRST])
        return f"{self.unit} {shown}{', …' * (len(rows) > FIRST)}"


def read_texts(
    file: str | os.PathLike[str], encoding: str | None = None, has_header: bool = True
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
    with opened(file, encoding) as (path, kind, data):
        if kind == ".parquet":
            frame = parquet(path, data)
            frame = frame.astype("object").where(frame.notna(), "").astype(str)
            columns = {str(name): frame[name].tolist() for name in frame.columns}
            table = Texts(columns, range(1, len(frame) + 1), "row")
        elif kind in JSON_LINES:
            table = _json_lines(path, data)
        else:
            table = parse_csv(path, data, separator(path, kind, data), has_header)
    if not len(table.index):
        raise ValueError(f"{path} has no rows below the names of the columns")
    return table


@contextlib.contextmanager
def opened(
    file: str | os.PathLike[str],
    encoding: str | None,
    checksum: list[str] | None = None,
) -> Iterator[tuple[pathlib.Path, str, bytes]]:
    """Opens a table, and shows that it is read until the block ends.

    Args:
        file: The file.
        encoding: Name of its encoding, or None.
        checksum: Gets the checksum of the file.

    Yields:
        The path, the ending that tells the format, and the content, a text in UTF-8.
    """
    path, kind = _path(file)
    with status("reading the table", os.path.getsize(path)):
        path, data = files.read_bytes(path, "utf-8")
        if checksum is not None:
            checksum.append(sha256(data))
        if kind != ".parquet":
            data = _utf8(path, files.decompressed(path, data), encoding)
            if kind in SEPARATED and not data.strip():
                raise ValueError(f"{path} is empty")
        yield path, kind, data


def _path(file):
    """Returns the path, and the ending that tells the format."""
    path = pathlib.Path(file)
    endings = [ending.lower() for ending in path.suffixes]
    compressed = endings[-1:] == [".gz"]
    kind = endings[-2 if compressed else -1 :][0] if endings[compressed:] else ""
    files.check_is_file(path)
    if kind not in (*SEPARATED, *JSON_LINES, ".parquet") or (
        compressed and kind == ".parquet"
    ):
        raise ValueError(
            f"expected a table, {KINDS}, received {path.name}. Export it from a "
            "spreadsheet as CSV"
        )
    return path, kind


def _utf8(path, data, encoding):
    """Returns the bytes of a text in UTF-8, without a byte order mark."""
    if encoding is None:
        if b"\0" in data:
            raise files.not_text(path, data, "utf-8")
        try:
            data.decode("utf-8")
            return data.removeprefix(codecs.BOM_UTF8)
        except UnicodeDecodeError:
            encoding = "cp1252"
            text = files.decode(path, data, encoding)
            note(
                f"{path} is not utf-8: read as cp1252. Another can be named by "
                "--encoding"
            )
    else:
        text = files.decode(path, data, encoding)
    return text.removeprefix("\ufeff").encode("utf-8", "replace")


def json_rows(
    path: pathlib.Path, data: bytes
) -> tuple[list[dict[str, Any]], list[int]]:
    """Returns the objects of JSON lines, and the line of each."""
    rows, lines = [], []
    for number, line in enumerate(io.BytesIO(data), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: no JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(
                f'{path}, line {number}: expected an object such as {{"sales": 3}}, '
                f"received {line.decode().strip():.40}"
            )
        rows.append(row)
        lines.append(number)
    return rows, lines


def note_lists(path: pathlib.Path, name: object) -> None:
    """Notes that a column has lists."""
    note(f'{path}: the column "{name}" has lists or objects, and is left out')


def separator(path: pathlib.Path, kind: str, data: bytes) -> str:
    """Returns the separator of the columns: the sniffed one, or the most frequent."""
    if kind == ".tsv":
        return "\t"
    text = data[:SAMPLE].decode("utf-8", "ignore")
    head = text.lstrip().splitlines()[0]
    try:
        mark = csv.Sniffer().sniff(text, SEPARATORS).delimiter
    except csv.Error:
        mark = ""
    if not mark or mark not in head:
        most = max(SEPARATORS, key=head.count)
        mark = most if most in head else ","
    if mark != ",":
        note(f"the columns of {path} are separated by {NAMES[mark]}s")
    return mark


def _json_lines(path, data):
    rows, lines = json_rows(path, data)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        cells = [row.get(name) for row in rows]
        if any(isinstance(cell, list | dict) for cell in cells):
            note_lists(path, name)
        else:
            columns[name] = ["" if cell is None else str(cell) for cell in cells]
    return Texts(columns, lines, "line")


def parse_csv(
    path: pathlib.Path, data: bytes, mark: str, has_header: bool = True
) -> Texts:
    """Parses cells between separators."""
    rows, index = _rows(path, data, mark)
    names = [str(n) for n in range(1, len(rows[0]) + 1)]
    if has_header:
        names = _names(path, rows[0])
        del rows[0], index[0]
    for row, line in zip(rows, index, strict=True):
        if len(row) > len(names):
            raise ValueError(
                f"{path} is no table: expected {len(names)} cells in line {line}, saw "
                f"{len(row)}. Put quotation marks around texts with a separator"
            )
        if len(row) < len(names):
            row += [""] * (len(names) - len(row))
    columns = map(list, zip(*rows, strict=True)) if rows else ([] for _ in names)
    return Texts(dict(zip(names, columns, strict=True)), index, "line")


def _rows(path, data, mark) -> tuple[list[list[str]], list[int]]:
    """Returns the rows that are not blank, and the first line of each."""
    ended = False

    def lines():
        nonlocal ended
        yield from io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="")
        ended = True

    reader = csv.reader(lines(), delimiter=mark, skipinitialspace=True)
    rows, index, start = [], [], 1
    for row in reader:
        if ended:  # the reader looked for a line that continues this row
            raise ValueError(
                f"{path} is no table: the quotation mark that opens a cell in row "
                f"{len(rows)} is not closed"
            )
        if row:
            rows.append(row)
            index.append(start)
        start = reader.line_num + 1
    return rows, index


def _names(path, cells):
    """Returns the names of the columns, each once."""
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


def require_pandas() -> Any:
    """Returns pandas, or raises an `ImportError` that says how to install it."""
    return packages.load("pandas", "pandas", "a table is read by")


def parquet(path: pathlib.Path, data: bytes) -> "pandas.DataFrame":
    """Reads a parquet file."""
    pandas = require_pandas()
    try:
        # Whole numbers stay whole beside empty cells.
        frame = pandas.read_parquet(io.BytesIO(data), dtype_backend="numpy_nullable")
    except ImportError as error:
        raise ImportError(
            f"{packages.missing(f'{path}: parquet is read by', 'pyarrow')}, or export "
            "the table as CSV"
        ) from error
    except Exception as error:  # pyarrow has many of its own
        raise ValueError(
            f"{path} is no parquet file, or is damaged: {error}. Copy or export it "
            "again"
        ) from error
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    frame = frame.set_axis(pandas.RangeIndex(1, len(frame) + 1, name="row"))
    return without_lists(path, frame)


def without_lists(path: pathlib.Path, frame: "pandas.DataFrame") -> "pandas.DataFrame":
    """Returns the frame without columns that have lists or objects, which are noted."""
    several = [name for name in frame.columns if _has_several(frame[name])]
    for name in several:
        note_lists(path, name)
    return frame.drop(columns=several)


def _has_several(column):
    """Returns whether a cell of a column has several values, such as a list."""
    return column.dtype == "object" and any(
        hasattr(cell, "__len__") and not isinstance(cell, str | bytes)
        for cell in column
    )


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


# Written tables


def is_formula(cell: Any) -> bool:
    """Returns whether a spreadsheet may take a cell for a formula.

    Examples:
        >>> is_formula("=1+1"), is_formula(" @a"), is_formula("-1.5"), is_formula(-1.5)
        (True, True, False, False)
    """
    if not isinstance(cell, str) or not cell.strip().startswith(STARTS):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def note_formulas(file: str | os.PathLike[str], cells: Iterable[Any]) -> None:
    """Notes how many cells of a csv look like formulas, which can run programs."""
    count = sum(map(is_formula, cells))
    if count:
        note(
            f"{count:,} cells of {file} begin with {', '.join(STARTS)}, which a "
            "spreadsheet may compute as formulas. Import the columns of texts as text"
        )


def write(file: str, rows: Iterable[dict[str, Any]]) -> None:
    """Writes predictions as they come, atomically."""
    count, formulas = 0, []
    with (
        replacing(file) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as stream,
    ):
        writer = None
        for row in rows:
            count += 1
            if file.endswith(".jsonl"):
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
                continue
            cells = _cells(row)
            formulas += filter(is_formula, cells.values())
            if writer is None:
                writer = csv.DictWriter(stream, list(cells))
                writer.writeheader()
            writer.writerow(cells)
    note(f"wrote {count:,} rows to {file}")
    note_formulas(file, formulas)


def _cells(row):
    """Returns a prediction as the cells of a row.

    Examples:
        >>> _cells({"words": ["a", "b"], "next": [{"token": "c", "probability": 0.5}]})
        {'words': 'a b', 'token_1': 'c', 'probability_1': 0.5}
    """
    cells = {}
    for name, value in row.items():
        if name == "next":
            for n, each in enumerate(value, 1):
                cells |= {f"{key}_{n}": one for key, one in each.items()}
        elif name != LONG:
            is_list = isinstance(value, list)
            cells[name] = " ".join(map(str, value)) if is_list else value
    return cells

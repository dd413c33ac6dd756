"""Files of tables: csv, tsv, jsonl, each also .gz, and parquet; numbers by pandas."""

import codecs
import contextlib
import csv
import io
import json
import os
import pathlib
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kerasseq.cli import runs
from kerasseq.cli.console import note, status
from kerasseq.core import packages
from kerasseq.datasets import files

if TYPE_CHECKING:
    import pandas

SEPARATORS = ",;\t|"
SEPARATED = (".csv", ".tsv", ".txt")
TEXTS = (*SEPARATED, ".jsonl", ".ndjson")
KINDS = ".csv, .tsv, .jsonl, each also .gz, or .parquet"
SAMPLE = 2**16  # characters that the separator is found in
GUESSED = 10_000  # rows that the kinds of columns are guessed from
NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
DECIMAL_COMMA = r"\s*[+-]?\d+,\d+\s*"
NO_NAME = r"\s*([+-]?[\d.,]+|\d+[-/.]\d+[-/.]\d+.*)\s*"


def read_table(
    file: str | os.PathLike[str], encoding: str | None = None
) -> "pandas.DataFrame":
    """Reads a table, and notes on stderr what was found out about the file.

    Args:
        file: The file; its name tells the format.
        encoding: Name of its encoding. Defaults to utf-8, then cp1252.

    Returns:
        A DataFrame whose index, "line" or "row", tells where a row is in the file, and
        whose `attrs` have the checksum of the file as "sha256".

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If pandas, or for parquet pyarrow, is not installed.
        ValueError: If the file is empty, no table, or not in this encoding.
    """
    pandas = require_pandas()
    checksum = []
    with opened(file, encoding, checksum) as (path, kind, data):
        if kind == ".parquet":
            frame = parquet(path, data)
        elif kind in (".jsonl", ".ndjson"):
            rows, lines = json_rows(path, data)
            frame = pandas.DataFrame(rows, index=pandas.Index(lines, name="line"))
            frame = _without_lists(path, frame)
        else:
            frame = _csv(pandas, path, data, separator(path, kind, data))
    if not len(frame):
        raise ValueError(f"{path} has no rows below the names of the columns")
    frame.attrs["sha256"] = checksum[0]
    return frame


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
            checksum.append(runs.sha256(data))
        if kind != ".parquet":
            data = _utf8(path, files.decompressed(path, data), encoding)
            if kind in SEPARATED and not data.strip():
                raise ValueError(f"{path} is empty")
        yield path, kind, data


def require_pandas() -> Any:
    """Returns pandas, or raises an `ImportError` that says how to install it."""
    try:
        import pandas
    except ImportError as error:
        raise packages.missing("a table is read by", "pandas") from error
    return pandas


def _path(file):
    """The path, and the ending that tells the format."""
    path = pathlib.Path(file)
    endings = [ending.lower() for ending in path.suffixes]
    compressed = endings[-1:] == [".gz"]
    kind = endings[-2 if compressed else -1 :][0] if endings[compressed:] else ""
    files.check_is_file(path)
    if kind not in (*TEXTS, ".parquet") or (compressed and kind == ".parquet"):
        raise ValueError(
            f"expected a table, {KINDS}, received {path.name}. Export it from a "
            "spreadsheet as CSV"
        )
    return path, kind


def _utf8(path, data, encoding):
    """The bytes of a text in UTF-8, without a byte order mark."""
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
    return _without_lists(path, frame)


def _without_lists(path, frame):
    """The frame without columns that have lists or objects, which are noted."""
    several = [name for name in frame.columns if _has_several(frame[name])]
    for name in several:
        note_lists(path, name)
    return frame.drop(columns=several)


def _has_several(column):
    """Whether a cell of a column has several values, such as a list."""
    return column.dtype == "object" and any(
        hasattr(cell, "__len__") and not isinstance(cell, str | bytes)
        for cell in column
    )


# Text with separators


def separator(path: pathlib.Path, kind: str, data: bytes) -> str:
    """Returns the separator of the columns: the sniffed one, or the most frequent."""
    if kind == ".tsv":
        return "\t"
    text = data[:SAMPLE].decode("utf-8", "ignore")
    head = text.lstrip().splitlines()[0]
    try:
        found = csv.Sniffer().sniff(text, SEPARATORS).delimiter
    except csv.Error:
        found = ""
    if not found or found not in head:
        most = max(SEPARATORS, key=head.count)
        found = most if most in head else ","
    if found != ",":
        note(f"the columns of {path} are separated by {NAMES[found]}s")
    return found


def _csv(pandas, path, data, mark):
    frame = _parse(pandas, path, data, mark, ".")
    if mark != "," and _has_decimal_commas(frame):
        frame = _parse(pandas, path, data, mark, ",")
        note(f"numbers in {path} have a decimal comma")
    if all(re.fullmatch(NO_NAME, str(name)) for name in frame.columns):
        listed = ", ".join(map(str, frame.columns))
        raise ValueError(
            f"{path}, line 1: expected the names of the columns, received {listed}. "
            "Add a line with names, such as date,sales"
        )
    return frame.set_axis(_lines(pandas, data, len(frame)))


def _parse(pandas, path, data, mark, decimal):
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            return pandas.read_csv(
                io.BytesIO(data),
                sep=mark,
                decimal=decimal,
                index_col=False,
                skipinitialspace=True,
            )
        except pandas.errors.ParserWarning:
            message = "rows have more columns than the first line has names"
        except (pandas.errors.ParserError, ValueError) as error:
            message = str(error).removeprefix("Error tokenizing data. C error: ")
            message = re.sub(
                r"EOF inside string starting at row (\d+)",
                r"the quotation mark that opens a cell in row \1 is not closed",
                message,
            )
    raise ValueError(f"{path} is no table: {message.strip()}")


def _has_decimal_commas(frame):
    texts = (frame[name].dropna() for name in frame.select_dtypes(exclude="number"))
    return any(
        len(cells) and cells.astype(str).str.fullmatch(DECIMAL_COMMA).any()
        for cells in texts
    )


def _lines(pandas, data, count):
    """The lines of the rows; their numbers if cells contain line breaks."""
    if data.count(b"\n") + (not data.endswith(b"\n")) == count + 1:
        return pandas.RangeIndex(2, count + 2, name="line")
    lines = [n for n, line in enumerate(data.splitlines(), 1) if line.strip()]
    if len(lines) == count + 1:
        return pandas.Index(lines[1:], name="line")
    return pandas.RangeIndex(1, count + 1, name="row")


# Guesses


def _some_rows(frame):
    """Evenly spaced rows of a large table, which suffice for a guess."""
    return frame.iloc[:: -(-len(frame) // GUESSED)]


def number_columns(frame: "pandas.DataFrame") -> list[str]:
    """The columns in which most cells are numbers."""
    pandas, found = require_pandas(), []
    frame = _some_rows(frame)
    for name in frame.columns:
        cells = frame[name].dropna()
        if frame[name].dtype.kind in "mM" or not len(cells):
            continue
        if pandas.to_numeric(cells, errors="coerce").notna().mean() > 0.5:
            found.append(name)
    return found


def date_columns(frame: "pandas.DataFrame") -> list[str]:
    """The columns of dates, and those of numbers that are years or dates by name."""
    pandas, found = require_pandas(), []
    numbers = number_columns(frame)
    frame = _some_rows(frame)
    for name in frame.columns:
        if name in numbers:
            words = re.split(r"[^a-z]+", str(name).lower())
            is_date = not {"date", "year", "month", "yearmonth"}.isdisjoint(words)
            whole = frame[name].dropna().astype(str).str.removesuffix(".0")
            if is_date and whole.str.fullmatch(r"\d{4}|\d{6}|\d{8}").all():
                found.append(name)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about formats
            parsed = pandas.to_datetime(
                frame[name].dropna(), errors="coerce", format="mixed"
            )
        if len(parsed) and parsed.notna().mean() > 0.5:
            found.append(name)
    return found

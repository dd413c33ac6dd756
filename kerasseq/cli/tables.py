"""Tables of the user: csv, tsv, jsonl, each also .gz, and parquet, read by pandas."""

import codecs
import csv
import io
import json
import os
import pathlib
import re
import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from kerasseq.cli import runs
from kerasseq.cli.console import note, status
from kerasseq.cli.errors import UsageError
from kerasseq.core import checks, packages
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
    file: str | os.PathLike[str],
    encoding: str | None = None,
    as_text: bool = False,
    has_header: bool = True,
) -> "pandas.DataFrame":
    """Reads a table, and notes on stderr what was found out about the file.

    Args:
        file: The file; its name tells the format.
        encoding: Name of its encoding. Defaults to utf-8, then cp1252.
        as_text: Whether cells are read as they are written, empty ones as "".
        has_header: Whether the first line of csv, tsv and txt has the names of the
            columns; else they are "1", "2" and so on.

    Returns:
        A DataFrame whose index, "line" or "row", tells where a row is in the file, and
        whose `attrs` have the checksum of the file as "sha256".

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If pandas, or for parquet pyarrow, is not installed.
        ValueError: If the file is empty, no table, or not in this encoding.
    """
    pandas = require_pandas()
    path, kind = _path(file)
    with status("reading the table", os.path.getsize(path)):
        path, data = files.read_bytes(path, "utf-8")
        checksum = runs.sha256(data)
        if kind == ".parquet":
            frame = _parquet(pandas, path, data)
        else:
            data = _utf8(path, files.decompressed(path, data), encoding)
            if kind in (".jsonl", ".ndjson"):
                frame = _json_lines(pandas, path, data)
            else:
                separator = "\t" if kind == ".tsv" else None
                frame = _csv(pandas, path, data, separator, as_text, has_header)
        if as_text and kind not in SEPARATED:
            frame = frame.astype("object").where(frame.notna(), "").astype(str)
    if not len(frame):
        raise ValueError(f"{path} has no rows below the names of the columns")
    frame.attrs["sha256"] = checksum
    return frame


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


def _json_lines(pandas, path, data):
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
    frame = pandas.DataFrame(rows, index=pandas.Index(lines, name="line"))
    return _without_lists(path, frame)


def _parquet(pandas, path, data):
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
        note(f'{path}: the column "{name}" has lists or objects, and is left out')
    return frame.drop(columns=several)


def _has_several(column):
    """Whether a cell of a column has several values, such as a list."""
    return column.dtype == "object" and any(
        hasattr(cell, "__len__") and not isinstance(cell, str | bytes)
        for cell in column
    )


# Text with separators


def _csv(pandas, path, data, separator, as_text, has_header):
    if not data.strip():
        raise ValueError(f"{path} is empty")
    if separator is None:
        separator = _separator(data[:SAMPLE].decode("utf-8", "ignore"))
        if separator != ",":
            name = NAMES[separator]
            note(f"the columns of {path} are separated by {name}s")
    options = {"dtype": str, "keep_default_na": False} if as_text else {}
    if not has_header:
        options["header"] = None
    frame = _parse(pandas, path, data, separator, ".", options)
    if not as_text and separator != "," and _has_decimal_commas(frame):
        frame = _parse(pandas, path, data, separator, ",", options)
        note(f"numbers in {path} have a decimal comma")
    frame = _named(path, frame, as_text, has_header)
    return frame.set_axis(_lines(pandas, data, len(frame), has_header))


def _named(path, frame, as_text, has_header):
    """The frame with names of its columns: numbers if it has no header."""
    if not has_header:
        frame.columns = [str(n + 1) for n in range(frame.shape[1])]
        if as_text:
            frame = frame.fillna("")  # of lines with fewer cells
    elif all(re.fullmatch(NO_NAME, str(name)) for name in frame.columns):
        listed = ", ".join(map(str, frame.columns))
        advice = ", or give --no-header" if as_text else ", such as date,sales"
        raise ValueError(
            f"{path}, line 1: expected the names of the columns, received {listed}. "
            f"Add a line with names{advice}"
        )
    return frame


def _separator(text):
    """The separator of the columns: the sniffed one, or the most frequent."""
    head = text.lstrip().splitlines()[0]
    try:
        sniffed = csv.Sniffer().sniff(text, SEPARATORS).delimiter
    except csv.Error:
        sniffed = ""
    if sniffed and sniffed in head:
        return sniffed
    most = max(SEPARATORS, key=head.count)
    return most if most in head else ","


def _parse(pandas, path, data, separator, decimal, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            return pandas.read_csv(
                io.BytesIO(data),
                sep=separator,
                decimal=decimal,
                index_col=False,
                skipinitialspace=True,
                **options,
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


def _lines(pandas, data, count, has_header):
    """The lines of the rows; their numbers if cells contain line breaks."""
    first = int(has_header)
    if data.count(b"\n") + (not data.endswith(b"\n")) == count + first:
        return pandas.RangeIndex(1 + first, count + 1 + first, name="line")
    lines = [n for n, line in enumerate(data.splitlines(), 1) if line.strip()]
    if len(lines) == count + first:
        return pandas.Index(lines[first:], name="line")
    return pandas.RangeIndex(1, count + 1, name="row")


# Guesses


def column(
    frame: "pandas.DataFrame",
    name: str | None,
    option: str,
    known: Collection[str],
    without: Collection[str] = (),
) -> str:
    """Returns the name of a column of texts or labels, guessed if only one fits.

    Args:
        frame: The table.
        name: The name that the user gave, or None.
        option: The option that names it, for messages.
        known: Usual names of such a column.
        without: Columns that have another use.

    Raises:
        UsageError: If there is no such column, or none or several fit.
    """
    names = [str(each) for each in frame.columns if each not in without]
    listed = ", ".join(f'"{str(each)[:60]}"' for each in frame.columns[:20])
    listed += ", …" if len(frame.columns) > 20 else ""
    if name is not None:
        if name not in names:
            raise UsageError(
                f'{option}: there is no column "{name}".'
                f"{checks.nearest(name, names)} The columns are {listed}"
            )
        return name
    usual = [each for each in names if each.lower() in known]
    fitting = names if len(names) == 1 else usual
    has_names = str(frame.columns[0]) != "1"  # as without a header
    if len(fitting) != 1:
        advice = ". If these are no names, but a first row, give --no-header, too"
        raise UsageError(
            f"{option} is needed, as the column cannot be guessed. The columns are "
            f"{listed}{advice * has_names}"
        )
    is_unsure = has_names and frame.shape[1] == 1 and not usual
    advice = ". If this is no name, but a first row, give --no-header" * is_unsure
    note(f'{option} is "{fitting[0][:60]}"{advice}')
    return fitting[0]


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

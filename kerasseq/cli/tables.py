"""Tables of numbers and dates, as pandas' DataFrames."""

import os
import re
import warnings
from typing import TYPE_CHECKING

from kerasseq.cli import text_tables
from kerasseq.cli.console import note

if TYPE_CHECKING:
    import pandas

GUESSED = 10_000  # rows that the kinds of columns are guessed from
DECIMAL_COMMA = r"\s*[+-]?\d+,\d+\s*"
EMPTY = ("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NULL", "null", "None", "#N/A")
BOOLEANS = {"True": True, "TRUE": True, "true": True}
BOOLEANS |= {"False": False, "FALSE": False, "false": False}


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
    pandas = text_tables.require_pandas()
    checksum = []
    with text_tables.opened(file, encoding, checksum) as (path, kind, data):
        if kind == ".parquet":
            frame = text_tables.parquet(path, data)
        elif kind in text_tables.JSON_LINES:
            rows, lines = text_tables.json_rows(path, data)
            frame = pandas.DataFrame(rows, index=pandas.Index(lines, name="line"))
            frame = text_tables.without_lists(path, frame)
        else:
            frame = _csv(pandas, path, data, kind)
    if not len(frame):
        raise ValueError(f"{path} has no rows below the names of the columns")
    frame.attrs["sha256"] = checksum[0]
    return frame


def _csv(pandas, path, data, kind):
    """Returns the cells of a text, in which columns of numbers are found."""
    mark = text_tables.separator(path, kind, data)
    table = text_tables.parse_csv(path, data, mark)
    frame = pandas.DataFrame(table.columns, dtype="object")
    frame = frame.set_axis(pandas.Index(table.index, name=table.unit))
    frame = frame.mask(frame.isin(EMPTY))
    if mark != ",":
        fits = {"pat": DECIMAL_COMMA, "na": False}
        commas = frame.apply(lambda cells: cells.str.fullmatch(**fits)).astype(bool)
        if commas.to_numpy().any():
            note(f"numbers in {path} have a decimal comma")
            frame = frame.mask(commas, frame.replace(",", ".", regex=True))
    return frame.apply(lambda cells: _as_numbers(pandas, cells))


def _as_numbers(pandas, cells):
    """Converts cells to numbers or Booleans, if all that are not empty are some."""
    if cells.iloc[:1].isin(BOOLEANS).all() and cells.isin(BOOLEANS).all():
        return cells.map(BOOLEANS).astype(bool)
    try:
        return pandas.to_numeric(cells)
    except (ValueError, TypeError):
        return cells


# Guesses


def _some_rows(frame):
    """Returns evenly spaced rows of a large table, which suffice for a guess."""
    return frame.iloc[:: -(-len(frame) // GUESSED)]


def number_columns(frame: "pandas.DataFrame") -> list[str]:
    """Returns the columns in which most cells are numbers."""
    pandas, columns = text_tables.require_pandas(), []
    frame = _some_rows(frame)
    for name in frame.columns:
        cells = frame[name].dropna()
        if frame[name].dtype.kind in "mM" or not len(cells):
            continue
        if pandas.to_numeric(cells, errors="coerce").notna().mean() > 0.5:
            columns.append(name)
    return columns


def date_columns(frame: "pandas.DataFrame") -> list[str]:
    """Returns columns of dates, and of numbers that are years or dates by name."""
    pandas, columns = text_tables.require_pandas(), []
    numbers = number_columns(frame)
    frame = _some_rows(frame)
    for name in frame.columns:
        if name in numbers:
            words = re.split(r"[^a-z]+", str(name).lower())
            is_date = not {"date", "year", "month", "yearmonth"}.isdisjoint(words)
            whole = frame[name].dropna().astype(str).str.removesuffix(".0")
            if is_date and whole.str.fullmatch(r"\d{4}|\d{6}|\d{8}").all():
                columns.append(name)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about formats
            parsed = pandas.to_datetime(
                frame[name].dropna(), errors="coerce", format="mixed"
            )
        if len(parsed) and parsed.notna().mean() > 0.5:
            columns.append(name)
    return columns

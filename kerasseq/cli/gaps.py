"""Rows that are not complete: counted, and refused or dropped."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kerasseq.cli import options
from kerasseq.cli.console import note, status

if TYPE_CHECKING:
    import pandas

SKIP = "skip"  # drops incomplete rows
MISSING = ("error", SKIP)  # what is done with them
FIRST = 5  # lines that a message names


def add_gaps(parser: options.Options, what: str, default: str | None = None) -> None:
    """Adds what is done with rows that are not complete."""
    parser.add_argument(
        "--missing",
        type=options.one_of("choice", MISSING),
        metavar="NAME",
        help=f"{what}: error or skip (default: {default or 'error'})",
    )


def add_no_header(parser: options.Options) -> None:
    """Adds that a table has no line of names."""
    text = "the first line of the table is a row; its columns are named 1, 2, …"
    parser.add_argument("--no-header", action="store_true", default=None, help=text)


def without_gaps(
    frame: "pandas.DataFrame", names: Sequence[str], file: str, missing: str | None
) -> "pandas.DataFrame":
    """Returns the rows whose cells in some columns are not empty.

    Args:
        frame: The table, read as text.
        names: The columns.
        file: Its file, for messages.
        missing: "skip" drops the other rows, and notes how many they are.

    Raises:
        ValueError: If there are others and `missing` is not "skip", or only others. The
            message has their number, and the first lines.
    """
    with status("looking for empty cells"):
        gaps = [(name, frame[name].str.strip().eq("").to_numpy()) for name in names]
        empty = np.logical_or.reduce([cells for _, cells in gaps])
    rows = np.flatnonzero(empty)
    if not len(rows):
        return frame
    columns = " and ".join(
        f'"{name}" ({cells.sum():,})' for name, cells in gaps if cells.any()
    )
    what = (
        f"{file}: {plural(len(rows), 'row has', 'rows have')} an empty cell in the "
        f"column {columns}, at {where(frame.index, rows)}"
    )
    if missing != SKIP:
        raise ValueError(f"{what}. Fill the cells, or drop the rows by --missing skip")
    if len(rows) == len(frame):
        raise ValueError(f"{what}: no row is left. Name another column")
    note(f"{what}: dropped")
    return frame.iloc[np.flatnonzero(~empty)]


def where(index: "pandas.Index", rows: Sequence[int]) -> str:
    """The first lines of some rows, such as "line 2, 5, 7".

    Examples:
        >>> import pandas
        >>> where(pandas.RangeIndex(2, 20, name="line"), [0, 3, 4, 5, 6, 7])
        'line 2, 5, 6, 7, 8, …'
    """
    shown = ", ".join(str(index[n]) for n in rows[:FIRST])
    return f"{index.name} {shown}{', …' * (len(rows) > FIRST)}"


def plural(count: int, one: str, several: str) -> str:
    """A number and a word that agrees with it.

    Examples:
        >>> plural(1, "row has", "rows have"), plural(1200, "row has", "rows have")
        ('1 row has', '1,200 rows have')
    """
    return f"{count:,} {one if count == 1 else several}"

"""Dates in the cells of a DataFrame, however they are written."""

import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from kerasseq.series.dates import DATES

Score = Callable[[np.ndarray], Any]
DATE = r"(?=.*\d{4})\s*\d+[-/.]\d+.*"  # a text with a year and a month


def date_columns(frame: Any, taken: Collection[Any]) -> list[Any]:
    """Returns the columns of dates: by their type, or texts such as 2024-01-31.

    Args:
        frame: The DataFrame.
        taken: Columns that have another use.
    """
    import pandas

    names = []
    for name in frame.columns:
        dtype = frame[name].dtype
        if name in taken:
            continue
        is_date = dtype.kind == "M" or isinstance(dtype, pandas.PeriodDtype)
        if is_date or _has_date_texts(frame[name]):
            names.append(name)
    return names


def _has_date_texts(column):
    if column.dtype.kind != "O" or not len(column):
        return False
    is_text = column.map(lambda cell: isinstance(cell, str))
    if not is_text.all() or not column.str.fullmatch(DATE).all():
        return False
    return parse_dates(column) is not None


def read_dates(
    frame: Any, date: Any, rows: Sequence[str], score: Score | None = None
) -> np.ndarray | None:
    """Reads the dates of a DataFrame.

    Args:
        frame: The DataFrame.
        date: The column of dates; None for the index, if it is of dates.
        rows: The place of each row, for messages.
        score: Of two ways to read the texts 02/01/2024, the one with the lesser score
            is right; see `parse_dates`.

    Returns:
        `datetime64[us]` of shape `(rows,)`; None if the index has no dates.

    Raises:
        ValueError: If a cell is no date, or is more precise than microseconds. The
            message names it.
    """
    import pandas

    column = frame.index.to_series() if date is None else frame[date]
    if isinstance(column.dtype, pandas.PeriodDtype):
        column = column.dt.to_timestamp()
    if date is None and column.dtype.kind in "iufb":
        return None
    name = "the index" if date is None else f"the column {date!r}"
    if isinstance(column.dtype, pandas.DatetimeTZDtype):
        raise ValueError(
            f"{name} has dates with a time zone, {column.dtype}. Convert them: "
            'dates.tz_convert("UTC").tz_localize(None)'
        )
    if column.dtype.kind == "M":
        return _microseconds(column.to_numpy(), name, rows)
    if column.dtype.kind in "iuf":
        return _dates_of_numbers(column, name, rows)
    dates = parse_dates(column, score)
    if dates is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the format, which is told below
            parsed = pandas.to_datetime(column, errors="coerce", format="mixed")
        row = int(parsed.isna().to_numpy().argmax())
        raise ValueError(
            f"{name} must have dates, but {rows[row]} has "
            f"{column.iloc[row]!r:.60}. Write all dates alike, such as 2024-01-31"
        )
    return _microseconds(dates, name, rows)


def _microseconds(dates, name, rows):
    """Returns the dates in microseconds."""
    converted = dates.astype(DATES)
    finer = (converted != dates) & ~np.isnat(dates)
    if finer.any():
        row = int(finer.argmax())
        raise ValueError(
            f"{name} must have dates of whole microseconds, but {rows[row]} has "
            f"{dates[row]}. Round the dates"
        )
    return converted


def parse_dates(column: Any, score: Score | None = None) -> np.ndarray | None:
    """Parses dates that are written alike; None if they are not.

    If day and month could be either, as in 02/01/2024, the dates with the lesser score
    win, then evenly spaced ones, and then the month first.
    """
    import pandas

    readings = []
    for day_first in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a date has the day first
            try:
                dates = pandas.to_datetime(column, dayfirst=day_first)
            except (ValueError, TypeError, OverflowError):
                continue
        if dates.dtype.kind != "M" or isinstance(dates.dtype, pandas.DatetimeTZDtype):
            return None
        readings.append(dates.to_numpy())

    def order(dates):
        return (score(dates) if score else 0, _unevenness(dates))

    return min(readings, key=order, default=None)


def _unevenness(dates):
    """Returns the number of steps in time that differ from the most frequent one."""
    rests = []
    for unit in ("datetime64[M]", DATES):
        steps = np.diff(dates.astype(unit).astype("int64"))
        counts = np.unique(steps[steps != 0], return_counts=True)[1]
        rests.append(len(steps) - counts.max(initial=0))
    return min(rests)


def _dates_of_numbers(column, name, rows):
    """Dates of numbers such as 2024, 202401 or 20240131."""
    import pandas

    text = column.map(lambda n: f"{n:.0f}" if n == n and n % 1 == 0 else str(n))
    for digits, form in ((4, "%Y"), (6, "%Y%m"), (8, "%Y%m%d")):
        if (text.str.len() == digits).all():
            dates = pandas.to_datetime(text, format=form, errors="coerce")
            if dates.notna().all():
                return dates.to_numpy(DATES)
    wrong = (~text.str.fullmatch(r"\d{4}|\d{6}|\d{8}")).to_numpy()
    row = int(wrong.argmax())
    raise ValueError(
        f"{name} must have dates, but {rows[row]} has {text.iloc[row]}. Write all "
        "dates alike, such as 2024-01-31"
    )

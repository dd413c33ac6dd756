"""Series of a user's table, checked: a pandas DataFrame or Series, or an array.

pandas is imported only if the table is one of its objects.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.core.checks import nearest, short
from kerasseq.series.dates import DATES, Frequency, find_frequency, shown
from kerasseq.series.groups import (
    Like,
    find_frequencies,
    misfits,
    several_series,
    split_groups,
)
from kerasseq.series.parsing import date_columns, read_dates

MISSING = ("error", "interpolate", "forward")
FILLS = 'pass missing="interpolate" or missing="forward"'


@dataclasses.dataclass(frozen=True)
class Columns:
    """The names of the columns that a forecast uses.

    Attributes:
        value: The column to forecast; None for the only column of numbers.
        date: The column of dates; None for the index.
        group: The column that tells several series apart, or None.
        past: Columns known up to the last value only.
        known: Columns known in advance.
    """

    value: Any = None
    date: Any = None
    group: Any = None
    past: tuple[Any, ...] = ()
    known: tuple[Any, ...] = ()

    @property
    def others(self) -> tuple[Any, ...]:
        return self.past + self.known


@dataclasses.dataclass
class OneSeries:
    """One series of a table.

    Attributes:
        name: What its rows have in the column of the group, or None.
        values: float64 `(time,)`.
        others: The columns past and known, float64 `(time + future, columns)`: rows
            beyond the values are the future, in which past columns are 0.
        dates: `datetime64[us]` of shape `(time + future,)`, or None.
        frequency: The distance of its dates, with its own day of the month, or None.
    """

    name: Any
    values: np.ndarray
    others: np.ndarray
    dates: np.ndarray | None
    frequency: Frequency | None = None

    def until(self, time: int, future: int = 0) -> "OneSeries":
        """The series up to a time, and `future` further rows of the other columns."""
        dates = None if self.dates is None else self.dates[: time + future]
        return dataclasses.replace(
            self,
            values=self.values[:time],
            others=self.others[: time + future],
            dates=dates,
        )

    def after(self, time: int) -> "OneSeries":
        """The series from a time on."""
        dates = None if self.dates is None else self.dates[time:]
        return dataclasses.replace(
            self, values=self.values[time:], others=self.others[time:], dates=dates
        )

    def dates_after(self, steps: int) -> np.ndarray | None:
        """The dates of the steps after the last value, `(steps,)`; None without dates.

        Examples:
            >>> dates = np.array(["2021-01-30", "2021-02-28"], "M8[us]")
            >>> monthly = Frequency("month", 1, day=30)
            >>> one = OneSeries(None, np.ones(2), np.ones((2, 0)), dates, monthly)
            >>> one.dates_after(1).astype("M8[D]")
            array(['2021-03-30'], dtype='datetime64[D]')
        """
        if self.dates is None or self.frequency is None:
            return None
        return self.frequency.after(self.dates[len(self.values) - 1], steps)

    @property
    def title(self) -> str:
        """How messages name the series."""
        return "the series" if self.name is None else f"the series {self.name!r}"


@dataclasses.dataclass
class SeriesTable:
    """The series of a table.

    Attributes:
        series: The series, in the order of their names.
        columns: The columns that they come from.
        frequency: The distance of their dates, the same for all series but for the
            day of the month, or None.
        kind: `"frame"`, `"series"` or `"array"`: forecasts are of the same kind.
    """

    series: list[OneSeries]
    columns: Columns
    frequency: Frequency | None
    kind: str

    def until(self, times: Sequence[int], future: int = 0) -> "SeriesTable":
        """The table up to a time of each series, as `OneSeries.until`."""
        parts = [
            one.until(time, future)
            for one, time in zip(self.series, times, strict=True)
        ]
        return dataclasses.replace(self, series=parts)


def read_series(
    data: Any, columns: Columns, missing: str = "error", like: Like | None = None
) -> SeriesTable:
    """Reads the series of a table, and checks each row.

    Empty cells of the value at the end of a series are its future, not values to fill.

    Args:
        data: A DataFrame, a Series, an array `(time,)`, or a `datasets.Series`.
        columns: The columns to read.
        missing: What to do about empty cells and missing dates: `"error"`,
            `"interpolate"` linearly, or `"forward"`, which repeats the value before.
        like: If a table of the same columns was read before, the frequency that a
            series had there, by its name. Otherwise a single column of dates is used
            if none is named and the index has none.

    Raises:
        TypeError: If the data are no table or array of numbers.
        ValueError: If a column does not exist, a cell is empty or no number, or the
            dates repeat, jump or run backwards. The message names column and row.

    Examples:
        >>> table = read_series([3.0, 5.0, 7.0], Columns())
        >>> table.series[0].values, table.kind
        (array([3., 5., 7.]), 'array')
    """
    _check_missing(missing)
    if isinstance(data, SeriesTable):
        return data
    if is_frame(data):
        return _of_frame(data, columns, missing, like)
    named = {"date": columns.date, "group": columns.group, "value": columns.value}
    wrong = [name for name, column in named.items() if column is not None]
    if wrong or columns.others:
        raise TypeError(
            f"{(wrong or ['past or known'])[0]} names a column, so that the data must "
            f"be a pandas DataFrame, received {type(data).__name__}"
        )
    values, dates = data, None
    if hasattr(data, "values") and hasattr(data, "dates"):  # a datasets.Series
        values, dates = data.values, data.dates
    try:
        values = np.asarray(values)
        if values.dtype.kind == "c":
            raise TypeError
        values = values.astype("float64")
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"expected a table, or an array of numbers, received {short(values)}"
        ) from error
    if values.ndim != 1:
        raise ValueError(
            "expected an array of the shape (time,), received "
            f"{values.shape}. For several columns pass a pandas DataFrame"
        )
    return _of_array(values, dates, columns, missing, like)


def _check_missing(missing):
    if missing == "skip":
        raise ValueError(
            'missing="skip" is not for series, whose steps must be even. To fill the '
            f"gaps, {FILLS}"
        )
    checks.one_of("missing", missing, MISSING)


def is_frame(data: object) -> bool:
    """Whether the data are a DataFrame or Series of pandas, without importing it."""
    names = {cls.__name__ for cls in type(data).__mro__}
    is_pandas = type(data).__module__.partition(".")[0] == "pandas"
    return is_pandas and not names.isdisjoint({"DataFrame", "Series"})


def _of_array(values, dates, columns, missing, like):
    rows = [f"step {n}" for n in range(len(values))]
    frequency = None
    if dates is not None:
        dates = np.asarray(dates, DATES)
        rows = [shown(date) for date in dates]
        before, gaps = like and like(None), missing != "error"
        frequency = find_frequency(dates, rows.__getitem__, gaps=gaps, like=before)
    one = _one_series(
        None, values[:, None], dates, rows, frequency, ["the value"], 0, missing
    )
    return SeriesTable([one], columns, frequency, "array")


# DataFrames


def _of_frame(frame, columns, missing, like):
    kind = "frame"
    if not hasattr(frame, "columns"):
        kind = "series"
        frame = frame.to_frame("value" if frame.name is None else frame.name)
    if frame.columns.has_duplicates:
        name = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(
            f"the column {name!r} occurs more than once. Rename or drop one"
        )
    if not len(frame):
        raise ValueError("the table has no rows")
    columns = dataclasses.replace(columns, value=_value_column(frame, columns))
    _check_columns(frame, columns)
    if columns.date is None and like is None:
        columns = dataclasses.replace(columns, date=_date_column(frame, columns))
    rows = _places(frame, columns)
    names = [columns.value, *columns.others]
    numbers = np.stack([_numbers(frame, name, rows) for name in names], axis=1)
    groups = split_groups(frame, columns.group, rows)
    dates, frequencies = _read_dates(frame, columns, rows, groups, missing, like)
    titles = [f"the column {name!r}" for name in names]
    parts, known = [], len(columns.known)
    for (name, places), frequency in zip(groups, frequencies, strict=True):
        part = None if dates is None else dates[places]
        labels = [rows[n] for n in places]
        of = "" if name is None else f" of the series {name!r}"
        words = [title + of for title in titles]
        parts.append(
            _one_series(
                name, numbers[places], part, labels, frequency, words, known, missing
            )
        )
    return SeriesTable(parts, columns, frequencies[0], kind)


def _read_dates(frame, columns, rows, groups, missing, like):
    """The dates, and the frequency of each series; None if there are no dates."""
    score = None if like is None else lambda dates: misfits(groups, dates, like)
    dates = read_dates(frame, columns.date, rows, score)
    if dates is None:
        return None, [None] * len(groups)
    try:
        return dates, find_frequencies(groups, dates, rows, missing != "error", like)
    except ValueError as error:
        taken = {columns.value, columns.date, *columns.others}
        if columns.group is None:
            hint = several_series(frame, taken, dates, rows)
            if hint is not None:
                raise ValueError(hint) from error
        raise


def _date_column(frame, columns):
    """The only column of dates, if the index has none."""
    if frame.index.dtype.kind not in "iufb":
        return None
    taken = {columns.value, columns.group, *columns.others}
    found = date_columns(frame, taken)
    if len(found) > 1:
        listed = ", ".join(map(str, found))
        raise ValueError(
            f"expected one column of dates, received {listed}. Name it with date="
        )
    return found[0] if found else None


def _value_column(frame, columns):
    """The column to forecast: that of the user, or the only one of numbers."""
    if columns.value is not None:
        return columns.value
    taken = {columns.date, columns.group, *columns.others}
    fit = [
        name
        for name in frame.columns
        if name not in taken and frame[name].dtype.kind in "iuf"
    ]
    if len(fit) != 1:
        found = ", ".join(map(str, fit)) or "none"
        raise ValueError(
            "expected one column of numbers to forecast, received "
            f"{found}. Name it with value="
        )
    return fit[0]


def _check_columns(frame, columns):
    roles = [("value", columns.value), ("date", columns.date), ("group", columns.group)]
    roles += [("past", name) for name in columns.past]
    roles += [("known", name) for name in columns.known]
    used = {}
    for role, name in roles:
        if name is None:
            continue
        if name not in frame.columns:
            listed = ", ".join(map(str, frame.columns))
            raise ValueError(
                f"{role}: there is no column {name!r}.{nearest(name, frame.columns)} "
                f"The columns are {listed}"
            )
        if name in used:
            raise ValueError(
                f"the column {name!r} is named twice, as {used[name]} and as {role}. "
                "Leave one out"
            )
        used[name] = role


def _places(frame, columns):
    """How messages name the rows: by line, by row, or by the date in the index."""
    index = frame.index
    if columns.date is None and index.dtype.kind == "M":
        return [str(date).removesuffix(" 00:00:00") for date in index]
    return [f"{index.name or 'row'} {label}" for label in index]


def _numbers(frame, name, rows):
    """A column as float64; empty cells are NaN."""
    import pandas

    column = frame[name]
    numbers = pandas.to_numeric(column, errors="coerce").to_numpy(
        "float64", na_value=np.nan
    )
    if column.dtype.kind in "mM":
        wrong = np.ones(len(column), bool)
    else:
        wrong = np.isnan(numbers) & column.notna().to_numpy()
    wrong |= np.isinf(numbers)
    if wrong.any():
        row = int(wrong.argmax())
        cell = column.iloc[row]
        cell = str(cell) if isinstance(cell, np.generic) else repr(cell)
        comma = isinstance(column.iloc[row], str) and "," in column.iloc[row]
        hint = "Write numbers with a point, such as 1234.5" if comma else "Correct it"
        raise ValueError(
            f"the column {name!r} must have numbers, but {rows[row]} has {cell:.60}. "
            f"{hint}, or leave the column out"
        )
    return numbers


# Missing cells and rows


def _one_series(name, numbers, dates, rows, frequency, titles, known, missing):
    """Checks and fills the rows of one series; the value is column 0.

    Args:
        name: Name of the series, or None.
        numbers: `(time, columns)`.
        dates: `(time,)`, or None.
        rows: Places of the rows, for messages.
        frequency: The distance of the dates, or None.
        titles: Names of the columns, for messages.
        known: How many columns, the last ones, are known in advance.
        missing: As for `read_series`.
    """
    past = numbers.shape[1] - known
    if missing != "error" and dates is not None:
        numbers, dates = _with_all_dates(numbers, dates, frequency)
    numbers = numbers.copy()
    last = _last(numbers[:, 0])
    future = numbers[last:, 1:past]
    future[np.isnan(future)] = 0.0
    if missing == "error":
        _check_complete(numbers, last, rows, titles)
    else:
        for n, title in enumerate(titles):
            # Beyond its last cell a column is not known: the future ends there.
            end = max(last, _last(numbers[:, n])) if n >= past else last
            _fill(numbers[:end, n], missing, title)
        numbers = numbers[: _last(numbers[:, past:].sum(axis=1))] if known else numbers
        dates = None if dates is None else dates[: len(numbers)]
    return OneSeries(name, numbers[:last, 0], numbers[:, 1:], dates, frequency)


def _last(values):
    """Number of rows up to the last one that is not NaN."""
    given = np.flatnonzero(~np.isnan(values))
    return int(given[-1]) + 1 if len(given) else 0


def _check_complete(numbers, last, rows, titles):
    empty = np.isnan(numbers)
    empty[last:, 0] = False
    if empty.any():
        column = int(empty.any(axis=0).argmax())
        row = int(empty[:, column].argmax())
        count = int(empty[:, column].sum())
        more = f" ({count} rows in all)" if count > 1 else ""
        raise ValueError(
            f"{titles[column]} is empty at {rows[row]}{more}. Fill it in, or {FILLS}"
        )


def _with_all_dates(numbers, dates, frequency):
    """Inserts rows of NaN where dates are missing."""
    places = frequency.numbers(dates)
    steps = (places - places[0]) // frequency.step
    every = np.full((steps[-1] + 1, numbers.shape[1]), np.nan)
    every[steps] = numbers
    return every, np.append(dates[:1], frequency.after(dates[0], int(steps[-1])))


def _fill(values, missing, title):
    """Fills the NaN of one column in place, from the values around or before them."""
    given = np.flatnonzero(~np.isnan(values))
    if not len(values):
        return
    if not len(given):
        raise ValueError(f"{title} is empty in all rows. Leave it out")
    if given[0] > 0:
        raise ValueError(
            f"{title} is empty in the first {given[0]} rows, which missing="
            f'"{missing}" cannot fill. Delete these rows'
        )
    rest = len(values) - 1 - given[-1]
    if rest and missing == "interpolate":
        raise ValueError(
            f"{title} is empty in the last {rest} rows before the end of the series, "
            'which missing="interpolate" cannot fill. Fill them in, or pass '
            'missing="forward"'
        )
    places = np.arange(len(values))
    if missing == "interpolate":
        values[:] = np.interp(places, given, values[given])
    else:
        values[:] = values[given[np.searchsorted(given, places, side="right") - 1]]


def read_columns(
    frame: Any, columns: Columns, name: Any, expected: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None, list[str]]:
    """Reads the known columns of a table of the future.

    Args:
        frame: A DataFrame.
        columns: The columns; the value is not read.
        name: The series whose rows to read, or None.
        expected: The dates of the future, or None.

    Returns:
        The known columns, float64 `(rows, columns)`, in which empty cells are NaN; the
        dates `(rows,)` or None; and the place of each row, for messages.

    Raises:
        ValueError: If a column is missing, a cell is no number, or a date occurs twice.
    """
    columns = dataclasses.replace(columns, value=None, past=())
    _check_columns(frame, columns)
    if columns.group is not None:
        frame = frame[frame[columns.group].astype(str) == name]
    rows = _places(frame, columns)
    numbers = np.stack([_numbers(frame, title, rows) for title in columns.known], 1)
    if not len(frame) or expected is None:
        return numbers, None, rows

    def missing(dates):  # of the two ways to read 02/01/2024
        return np.isin(expected, dates, invert=True).sum()

    dates = read_dates(frame, columns.date, rows, missing)
    if dates is not None:
        first = np.unique(dates, return_index=True)[1]
        repeated = np.setdiff1d(np.arange(len(dates)), first)
        if len(repeated):
            row = repeated[0]
            raise ValueError(
                f"known: each date must occur once, but at {rows[row]} "
                f"{shown(dates[row])} repeats. Delete one of the rows"
            )
    return numbers, dates, rows

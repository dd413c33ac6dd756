"""Series of a user's table, checked: a pandas DataFrame or Series, or an array.

pandas is imported only if the table is one of its objects.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.core.checks import nearest, short
from kerasseq.tasks import series_dates
from kerasseq.tasks.series_dates import Frequency, find_frequency
from kerasseq.tasks.series_parsing import read_dates

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
        dates: `datetime64[s]` of shape `(time + future,)`, or None.
    """

    name: Any
    values: np.ndarray
    others: np.ndarray
    dates: np.ndarray | None

    def until(self, time: int, future: int = 0) -> "OneSeries":
        """The series up to a time, and `future` further rows of the other columns."""
        dates = None if self.dates is None else self.dates[: time + future]
        return OneSeries(
            self.name, self.values[:time], self.others[: time + future], dates
        )

    def after(self, time: int) -> "OneSeries":
        """The series from a time on."""
        dates = None if self.dates is None else self.dates[time:]
        return OneSeries(self.name, self.values[time:], self.others[time:], dates)

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
        frequency: The distance of their dates, or None.
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


def read_series(data: Any, columns: Columns, missing: str = "error") -> SeriesTable:
    """Reads the series of a table, and checks each row.

    Args:
        data: A DataFrame, a Series, an array `(time,)`, or a `datasets.Series`.
        columns: The columns to read.
        missing: What to do about empty cells and missing dates: `"error"`,
            `"interpolate"` linearly, or `"forward"`, which repeats the value before.

    Raises:
        TypeError: If the data are no table or array of numbers.
        ValueError: If a column does not exist, a cell is empty or no number, or the
            dates repeat, jump or run backwards. The message names column and row.

    Examples:
        >>> table = read_series([3.0, 5.0, 7.0], Columns())
        >>> table.series[0].values, table.kind
        (array([3., 5., 7.]), 'array')
    """
    checks.one_of("missing", missing, MISSING)
    if isinstance(data, SeriesTable):
        return data
    if is_frame(data):
        return _of_frame(data, columns, missing)
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
        values = np.asarray(values, "float64")
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"expected a table, or an array of numbers, received {short(values)}"
        ) from error
    if values.ndim != 1:
        raise ValueError(
            "expected an array of the shape (time,), received "
            f"{values.shape}. For several columns pass a pandas DataFrame"
        )
    return _of_array(values, dates, columns, missing)


def is_frame(data: object) -> bool:
    """Whether the data are a DataFrame or Series of pandas, without importing it."""
    names = {cls.__name__ for cls in type(data).__mro__}
    is_pandas = type(data).__module__.partition(".")[0] == "pandas"
    return is_pandas and not names.isdisjoint({"DataFrame", "Series"})


def _of_array(values, dates, columns, missing):
    rows = [f"step {n}" for n in range(len(values))]
    frequency = None
    if dates is not None:
        dates = np.asarray(dates, "datetime64[s]")
        rows = [series_dates.shown(date) for date in dates]
        gaps = missing != "error"
        frequency = find_frequency(dates, rows.__getitem__, gaps=gaps)
    one = _one_series(
        None, values[:, None], dates, rows, frequency, ["the value"], 0, missing
    )
    return SeriesTable([one], columns, frequency, "array")


# DataFrames


def _of_frame(frame, columns, missing):
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
    rows = _places(frame, columns)
    names = [columns.value, *columns.others]
    numbers = np.stack([_numbers(frame, name, rows) for name in names], axis=1)
    dates = read_dates(frame, columns.date, rows)
    titles = [f"the column {name!r}" for name in names]
    parts, frequency = [], None
    for name, places in _groups(frame, columns.group, rows):
        part = None if dates is None else dates[places]
        labels = [rows[n] for n in places]
        if part is not None:
            frequency = _frequency(part, labels, frequency, name, missing)
        known = len(columns.known)
        parts.append(
            _one_series(
                name, numbers[places], part, labels, frequency, titles, known, missing
            )
        )
    return SeriesTable(parts, columns, frequency, kind)


def _frequency(dates, labels, before, name, missing):
    found = find_frequency(dates, labels.__getitem__, gaps=missing != "error")
    if before is not None and (found.unit, found.step) != (before.unit, before.step):
        raise ValueError(
            f"all series must have the same distance of dates, received {before} and, "
            f"for the series {name!r}, {found}. Forecast them with two models"
        )
    return found


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


def _groups(frame, group, rows):
    """The name of each series and the positions of its rows."""
    if group is None:
        return [(None, np.arange(len(frame)))]
    column = frame[group]
    if column.isna().any():
        row = rows[int(column.isna().to_numpy().argmax())]
        raise ValueError(f"the column {group!r} is empty at {row}. Fill it in")
    import pandas

    codes, names = pandas.factorize(column.astype(str), sort=True)
    ends = np.cumsum(np.bincount(codes))
    by_name = np.split(np.argsort(codes, kind="stable"), ends[:-1])
    return list(zip(map(str, names), by_name, strict=True))


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
    last = _last(numbers) if known else len(numbers)
    numbers = numbers.copy()
    future = numbers[last:, 1:past]
    future[np.isnan(future)] = 0.0
    if missing == "error":
        _check_complete(numbers, last, rows, titles)
    else:
        if dates is not None:
            numbers, dates = _with_all_dates(numbers, dates, frequency)
        last = _last(numbers) if known else len(numbers)
        for n, title in enumerate(titles):
            _fill(numbers[: None if n else last, n], missing, title)
    return OneSeries(name, numbers[:last, 0], numbers[:, 1:], dates)


def _last(numbers):
    """Number of rows up to the last value: those after it are the future."""
    given = np.flatnonzero(~np.isnan(numbers[:, 0]))
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
    numbers = places[0] + frequency.step * np.arange(steps[-1] + 1)
    return every, frequency.dates(numbers)


def _fill(values, missing, title):
    """Fills the NaN of one column in place."""
    given = np.flatnonzero(~np.isnan(values))
    if not len(given):
        raise ValueError(f"{title} is empty in all rows. Leave it out")
    if missing == "forward" and given[0] > 0:
        raise ValueError(
            f"{title} is empty in the first {given[0]} rows, which missing="
            '"forward" cannot fill. Delete these rows, or pass missing="interpolate"'
        )
    places = np.arange(len(values))
    if missing == "interpolate":
        values[:] = np.interp(places, given, values[given])
    else:
        values[:] = values[given[np.searchsorted(given, places, side="right") - 1]]


def read_columns(
    frame: Any, columns: Columns, name: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """Reads the known columns of a table of the future.

    Args:
        frame: A DataFrame.
        columns: The columns; the value is not read.
        name: The series whose rows to read, or None.

    Returns:
        The known columns, float64 `(rows, columns)`, and the dates `(rows,)` or None.

    Raises:
        ValueError: If a column is missing, or a cell is empty or no number.
    """
    columns = dataclasses.replace(columns, value=None, past=())
    _check_columns(frame, columns)
    if columns.group is not None:
        frame = frame[frame[columns.group].astype(str) == name]
    rows = _places(frame, columns)
    titles = [f"known: the column {title!r}" for title in columns.known]
    numbers = np.stack([_numbers(frame, title, rows) for title in columns.known], 1)
    if np.isnan(numbers).any():
        row, column = np.argwhere(np.isnan(numbers))[0]
        raise ValueError(f"{titles[column]} is empty at {rows[row]}. Fill it in")
    return numbers, read_dates(frame, columns.date, rows) if len(frame) else None

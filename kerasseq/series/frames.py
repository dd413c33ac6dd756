"""Series of a user's table, checked: a pandas DataFrame or Series, or an array.

pandas is imported only if the table is one of its objects.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.core.checks import short
from kerasseq.series.columns import (
    Columns,
    check_columns,
    check_range,
    features_of,
    read_features,
)
from kerasseq.series.dates import DATES, Frequency, find_frequency, shown
from kerasseq.series.groups import (
    Like,
    find_frequencies,
    misfits,
    several_series,
    split_groups,
)
from kerasseq.series.one_series import FILLS, OneSeries, make_series
from kerasseq.series.parsing import date_columns, read_dates

MISSING = ("error", "interpolate", "forward")


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
        """Returns the table up to a time of each series, as `OneSeries.until`."""
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
        ValueError: If a column does not exist, a cell is empty, no number or too large
            for float32, or the dates repeat, jump or run backwards. The message names
            column and row.

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
    """Returns whether data are a DataFrame or Series, without importing pandas."""
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
    check_range(values, "the series", rows)
    numbers = values[:, None]
    one = make_series(None, numbers, dates, rows, frequency, [None], 0, missing)
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
    check_columns(frame, columns)
    if columns.date is None and like is None:
        columns = dataclasses.replace(columns, date=_date_column(frame, columns))
    rows = _places(frame, columns)
    numbers = read_features(frame, [columns.value, *columns.others], columns, rows)
    groups = split_groups(frame, columns.group, rows)
    dates, frequencies = _read_dates(frame, columns, rows, groups, missing, like)
    others = features_of(columns.others, columns.categories)
    parts = [
        make_series(
            name,
            numbers[places],
            None if dates is None else dates[places],
            [rows[n] for n in places],
            frequency,
            [columns.value, *others],
            len(columns.features_of_known),
            missing,
            columns.categories,
        )
        for (name, places), frequency in zip(groups, frequencies, strict=True)
    ]
    return SeriesTable(parts, columns, frequencies[0], kind)


def _read_dates(frame, columns, rows, groups, missing, like):
    """Reads the dates, and the frequency of each series; None if there are no dates."""
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
    """Returns the only column of dates, if the index has none."""
    if frame.index.dtype.kind not in "iufb":
        return None
    taken = {columns.value, columns.group, *columns.others}
    names = date_columns(frame, taken)
    if len(names) > 1:
        listed = ", ".join(map(str, names))
        raise ValueError(
            f"expected one column of dates, received {listed}. Name it with date="
        )
    return names[0] if names else None


def _value_column(frame, columns):
    """Returns the column to forecast: that of the user, or the only one of numbers."""
    if columns.value is not None:
        return columns.value
    taken = {columns.date, columns.group, *columns.others}
    fit = [
        name
        for name in frame.columns
        if name not in taken and frame[name].dtype.kind in "iuf"
    ]
    if len(fit) != 1:
        listed = ", ".join(map(str, fit)) or "none"
        several = ""
        if len(fit) > 1:
            several = (
                ". Several series stand below each other in one column, as DataFrame."
                "melt puts them, with another column that tells them apart"
            )
        raise ValueError(
            "expected one column of numbers to forecast, received "
            f"{listed}. Name it with value={several}"
        )
    return fit[0]


def _places(frame, columns):
    """Chooses how messages name rows: by line, by row, or by the date of the index."""
    index = frame.index
    if columns.date is None and index.dtype.kind == "M":
        return [str(date).removesuffix(" 00:00:00") for date in index]
    return [f"{index.name or 'row'} {label}" for label in index]


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
        The known columns, float64 `(rows, features)`, in which empty cells are NaN; the
        dates `(rows,)` or None; and the place of each row, for messages.

    Raises:
        ValueError: If a column is missing, a cell is no number or none of the
            categories, or a date occurs twice.
    """
    columns = dataclasses.replace(columns, value=None, past=())
    check_columns(frame, columns)
    if columns.group is not None:
        frame = frame[frame[columns.group].astype(str) == name]
    rows = _places(frame, columns)
    numbers = read_features(frame, columns.known, columns, rows)
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

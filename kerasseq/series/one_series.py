"""One series of a table, whose empty cells and missing dates are filled."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from kerasseq.series.dates import Frequency

FILLS = 'pass missing="interpolate" or missing="forward"'


@dataclasses.dataclass
class OneSeries:
    """One series of a table.

    Attributes:
        name: What its rows have in the column of the group, or None.
        values: float64 `(time,)`.
        others: The columns past and known, float64 `(time + future, features)`: rows
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
        """Returns the series up to a time, with `future` more rows of other columns."""
        dates = None if self.dates is None else self.dates[: time + future]
        return dataclasses.replace(
            self,
            values=self.values[:time],
            others=self.others[: time + future],
            dates=dates,
        )

    def after(self, time: int) -> "OneSeries":
        """Returns the series from a time on."""
        dates = None if self.dates is None else self.dates[time:]
        return dataclasses.replace(
            self, values=self.values[time:], others=self.others[time:], dates=dates
        )

    def dates_after(self, steps: int) -> np.ndarray | None:
        """Returns the dates `(steps,)` after the last value; None without dates.

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


def make_series(
    name: Any,
    numbers: np.ndarray,
    dates: np.ndarray | None,
    rows: Sequence[str],
    frequency: Frequency | None,
    columns: Sequence[Any],
    known: int,
    missing: str,
    categories: Collection[Any] = (),
) -> OneSeries:
    """Checks and fills the rows of one series; the value is column 0.

    Args:
        name: Name of the series, or None.
        numbers: `(time, features)`.
        dates: `(time,)`, or None.
        rows: Places of the rows, for messages.
        frequency: The distance of the dates, or None.
        columns: The column of each feature, the value first; None if it has no name.
        known: How many features, the last ones, are known in advance.
        missing: As for `read_series`.
        categories: Columns of categories, whose empty cells are filled forward.
    """
    past = numbers.shape[1] - known
    of = "" if name is None else f" of the series {name!r}"
    titles = [
        "the value" if column is None else f"the column {column!r}{of}"
        for column in columns
    ]
    if missing != "error" and dates is not None:
        numbers, dates = _with_all_dates(numbers, dates, frequency)
    numbers = numbers.copy()
    last = _last(numbers[:, 0])
    future = numbers[last:, 1:past]
    future[np.isnan(future)] = 0.0
    if missing == "error":
        _check_complete(numbers, last, rows, titles)
    else:
        for n, (column, title) in enumerate(zip(columns, titles, strict=True)):
            # Beyond its last cell a column is not known: the future ends there.
            end = max(last, _last(numbers[:, n])) if n >= past else last
            how = "forward" if column in categories else missing
            _fill(numbers[:end, n], how, title)
        numbers = numbers[: _last(numbers[:, past:].sum(axis=1))] if known else numbers
        dates = None if dates is None else dates[: len(numbers)]
    return OneSeries(name, numbers[:last, 0], numbers[:, 1:], dates, frequency)


def _last(values):
    """Returns the number of rows up to the last one that is not NaN."""
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

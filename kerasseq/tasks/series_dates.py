"""Dates of a series: how far apart they are, and which follow. NumPy alone.

A date becomes a number that grows by the same step from row to row: of its month, its
business day or its second. Months have different lengths, so that seconds do not do for
them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

DAY = 86_400  # seconds
# Steps of a season: 12 months, 4 quarters, 5 business days, 7 days, 24 hours, 52 weeks.
SEASONS = {("month", 1): 12, ("month", 3): 4, ("business day", 1): 5}
SECONDS = {3600: "hours", DAY: "days", 7 * DAY: "weeks"}
UNITS = ("month", "month end", "business day", "second")


class Frequency(NamedTuple):
    """The distance of the dates of a series.

    Attributes:
        unit: `"month"`, `"month end"`, `"business day"` or `"second"`.
        step: Units between two dates.
        offset: Seconds from the start of the unit to the date, such as 14 days for the
            15th of each month.

    Examples:
        >>> monthly = Frequency("month", 1, 0)
        >>> monthly.after(np.datetime64("2020-11-01", "s"), 3).astype("datetime64[D]")
        array(['2020-12-01', '2021-01-01', '2021-02-01'], dtype='datetime64[D]')
        >>> monthly.season, str(monthly)
        (12, 'every month')
    """

    unit: str
    step: int
    offset: int

    def numbers(self, dates: np.ndarray) -> np.ndarray:
        """Converts dates to the numbers that grow by `step`, int64 `(time,)`."""
        return _numbers(dates, self.unit)

    def dates(self, numbers: np.ndarray) -> np.ndarray:
        """Converts numbers to dates, `datetime64[s]` of shape `(time,)`."""
        if self.unit == "second":
            return np.asarray(numbers).astype("datetime64[s]")
        if self.unit == "business day":
            days = np.busday_offset("1970-01-01", numbers)
        elif self.unit == "month end":
            months = (np.asarray(numbers) + 1).astype("datetime64[M]")
            days = months.astype("datetime64[D]") - 1
        else:
            days = np.asarray(numbers).astype("datetime64[M]")
        return days.astype("datetime64[s]") + self.offset

    def after(self, last: np.datetime64, steps: int) -> np.ndarray:
        """Returns the dates that follow `last`, `datetime64[s]` of shape `(steps,)`."""
        first = self.numbers(np.array([last]))[0]
        return self.dates(first + self.step * np.arange(1, steps + 1))

    @property
    def season(self) -> int:
        """Steps of a season: of a year, a week or a day; 1 if there is none."""
        unit = "month" if self.unit == "month end" else self.unit
        if unit != "second":
            return SEASONS.get((unit, self.step), 1)
        if self.step == 7 * DAY:
            return 52
        if self.step == DAY:
            return 7
        return DAY // self.step if self.step < DAY and DAY % self.step == 0 else 1

    def __str__(self) -> str:
        unit, step = self.unit, self.step
        if unit == "second":
            size = max((s for s in SECONDS if step % s == 0), default=1)
            unit, step = SECONDS.get(size, "seconds")[:-1], step // size
        unit = "month" if unit == "month end" else unit
        return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _numbers(dates: np.ndarray, unit: str) -> np.ndarray:
    if unit in ("month", "month end"):
        return dates.astype("datetime64[M]").astype("int64")
    if unit == "business day":
        return np.busday_count("1970-01-01", dates.astype("datetime64[D]"))
    return dates.astype("datetime64[s]").astype("int64")


def find_frequency(
    dates: np.ndarray, where: Callable[[int], str], *, gaps: bool = False
) -> Frequency:
    """Finds the distance of dates.

    Args:
        dates: `datetime64[s]` of shape `(time,)`, at least two.
        where: Returns the place of a row for messages, such as "line 7".
        gaps: Whether dates may be missing.

    Returns:
        The `Frequency`.

    Raises:
        ValueError: If a date is missing or repeats, or if the dates run backwards, jump
            or are uneven.

    Examples:
        >>> weeks = np.array(["2024-01-01", "2024-01-08", "2024-01-22"], "M8[s]")
        >>> find_frequency(weeks, "row {}".format)
        Traceback (most recent call last):
        ...
        ValueError: the dates must be evenly spaced, received a jump at row 2: \
2024-01-22 is 14 days after 2024-01-08, and the others are 7 days apart. Add the \
missing rows, or pass missing="interpolate" or missing="forward"
    """
    check_order(dates, where)
    unit = _unit(dates)
    steps = np.diff(_numbers(dates, unit))
    sizes, counts = np.unique(steps, return_counts=True)
    step = int(sizes[counts.argmax()])
    days = dates.astype("datetime64[M]") if unit == "month" else dates
    if unit == "second":
        offset = 0
    elif unit == "month":
        offset = int((dates[0] - days[0].astype("datetime64[s]")).astype("int64"))
    else:
        offset = int(dates[0].astype("int64") % DAY)
    frequency = Frequency(unit, step, offset)
    uneven = steps % step != 0 if gaps else steps != step
    if uneven.any():
        raise _jump(dates, int(uneven.argmax()) + 1, step, unit, where)
    return frequency


def check_order(dates: np.ndarray, where: Callable[[int], str]) -> None:
    """Raises a `ValueError` unless each date is later than the one before."""
    if np.isnat(dates).any():
        raise ValueError(
            f"expected a date in each row, but {where(int(np.isnat(dates).argmax()))} "
            "has none. Fill it in, or delete the row"
        )
    steps = np.diff(dates).astype("int64")
    if (steps < 0).any():
        row = int((steps < 0).argmax()) + 1
        raise ValueError(
            f"the dates must run forwards, but at {where(row)} {shown(dates[row])} "
            f"follows {shown(dates[row - 1])}. Sort the rows by date"
        )
    if (steps == 0).any():
        row = int((steps == 0).argmax()) + 1
        raise ValueError(
            f"each date must occur once, but at {where(row)} {shown(dates[row])} "
            "repeats. Add up or delete the rows of a date; if the table has several "
            "series, name the column that tells them apart: group="
        )


def _jump(dates, row, step, unit, where):
    size = int((dates[row] - dates[row - 1]).astype("int64"))
    apart = str(Frequency(unit, step, 0)).removeprefix("every ")
    if unit == "second":
        apart = _duration(step)
    elif " " not in apart:
        apart = f"1 {apart}"
    return ValueError(
        f"the dates must be evenly spaced, received a jump at {where(row)}: "
        f"{shown(dates[row])} is {_duration(size)} after {shown(dates[row - 1])}, and "
        f"the others are {apart} apart. Add the missing rows, or pass "
        'missing="interpolate" or missing="forward"'
    )


def _duration(seconds: int) -> str:
    sizes = {DAY: "day", 3600: "hour", 60: "minute", 1: "second"}
    size = next(size for size in sizes if seconds % size == 0)
    count = seconds // size
    return f"{count} {sizes[size]}{'s' if count != 1 else ''}"


def _unit(dates):
    """The unit in which the dates are evenly spaced, or nearly."""
    midnights = dates.astype("datetime64[D]")
    same_time = len(np.unique(dates - midnights)) == 1
    steps = np.diff(dates).astype("int64")
    if not same_time:
        return "second"
    days = midnights - midnights.astype("datetime64[M]")
    if steps.min() >= 28 * DAY:
        if len(np.unique(days)) == 1:
            return "month"
        if np.all((midnights + 1).astype("datetime64[M]") == midnights + 1):
            return "month end"
    if steps.min() == DAY and np.is_busday(midnights).all():
        mondays = (midnights.astype("int64") + 3) % 7 == 0
        if (steps[mondays[1:]] == 3 * DAY).any():
            return "business day"
    return "second"


def shown(date: np.datetime64) -> str:
    """A date in a message, without a time at midnight.

    Examples:
        >>> shown(np.datetime64("2020-03-01T00:00:00"))
        '2020-03-01'
    """
    text = str(date.astype("datetime64[s]"))
    return text.removesuffix("T00:00:00").replace("T", " ")


def as_frequency(plain: Sequence[Any] | None) -> Frequency | None:
    """Reads a frequency from plain data, such as `["month", 1, 0]`; None from None."""
    if plain is None:
        return None
    unit, step, offset = plain
    return Frequency(str(unit), int(step), int(offset))


CALENDAR = ("day", "month", "year", "weekday", "hour")


def calendar_columns(dates: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Computes features of dates.

    Args:
        dates: `datetime64[s]` of shape `(time,)`.
        names: From `"day"`, `"month"`, `"year"` as in `datasets.calendar_features`,
            `"weekday"` from 0, Monday, to 1, and `"hour"` from 0 to 1.

    Returns:
        A float64 array of shape `(time, names)`.

    Examples:
        >>> calendar_columns(np.array(["2024-01-07T23"], "M8[s]"), ["weekday", "hour"])
        array([[1., 1.]])
    """
    from kerasseq.datasets import calendar_features

    days = dates.astype("datetime64[D]")
    day, month, year = calendar_features(days).astype("float64").T
    columns = {
        "day": day,
        "month": month,
        "year": year,
        "weekday": (days.astype("int64") + 3) % 7 / 6,
        "hour": dates.astype("int64") % DAY // 3600 / 23,
    }
    return np.stack([columns[name] for name in names], axis=-1)

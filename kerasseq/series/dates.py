"""Dates of a series: their frequency, and which follow. NumPy alone.

A date becomes a number that grows by the same step from row to row: of its month, its
business day or its microsecond. Months have different lengths, so that microseconds do
not do for them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

DATES = "datetime64[us]"  # of all dates of a series
SECOND = 10**6  # microseconds
DAY = 86_400 * SECOND
# Steps of a season: 12 months, 4 quarters, 5 business days, 7 days, 24 hours, 52 weeks.
SEASONS = {("month", 1): 12, ("month", 3): 4, ("business day", 1): 5}
SIZES = {
    7 * DAY: "week", DAY: "day", 3600 * SECOND: "hour", 60 * SECOND: "minute",
    SECOND: "second",
}  # fmt: skip
LAST_DAY = 31  # of a series at the end of each month


class Frequency(NamedTuple):
    """The distance of the dates of a series.

    Attributes:
        unit: `"month"`, `"business day"` or `"microsecond"`.
        step: Units between two dates.
        day: Day of the month of a series in months, such as 30; in a shorter month the
            date is its last day. 31 for the end of each month, 0 for other units.

    Examples:
        >>> monthly = Frequency("month", 1, day=30)
        >>> monthly.after(np.datetime64("2021-01-30"), 3).astype("datetime64[D]")
        array(['2021-02-28', '2021-03-30', '2021-04-30'], dtype='datetime64[D]')
        >>> monthly.season, str(monthly)
        (12, 'every month')
    """

    unit: str
    step: int
    day: int = 0

    def numbers(self, dates: np.ndarray) -> np.ndarray:
        """Converts dates to the numbers that grow by `step`, int64 `(time,)`."""
        if self.unit == "month":
            return dates.astype("datetime64[M]").astype("int64")
        if self.unit == "business day":
            return np.busday_count("1970-01-01", dates.astype("datetime64[D]"))
        return dates.astype(DATES).astype("int64")

    def after(self, last: np.datetime64, steps: int) -> np.ndarray:
        """Returns the dates that follow `last`, `datetime64[us]`, `(steps,)`."""
        last = np.datetime64(last, "us")
        moves = self.step * np.arange(1, steps + 1)
        if self.unit == "microsecond":
            return last + moves
        midnight = last.astype("datetime64[D]")
        if self.unit == "business day":
            days = np.busday_offset(midnight, moves)
        else:
            days = _at_day(last.astype("datetime64[M]") + moves, self.day)
        return days.astype(DATES) + (last - midnight)

    def equals(self, other: "Frequency") -> bool:
        """Returns whether unit and step are the same; the day of month may differ."""
        return self[:2] == other[:2]

    def with_day_of(self, dates: np.ndarray) -> "Frequency":
        """Returns the same frequency with the day of the month of other dates."""
        if self.unit != "month":
            return self
        return self._replace(day=_day_of_month(dates.astype("datetime64[D]")))

    @property
    def season(self) -> int:
        """Steps of a season: of a year, a week or a day; 1 if there is none."""
        if self.unit != "microsecond":
            return SEASONS.get((self.unit, self.step), 1)
        if self.step == 7 * DAY:
            return 52
        if self.step == DAY:
            return 7
        return DAY // self.step if self.step < DAY and DAY % self.step == 0 else 1

    def __str__(self) -> str:
        unit, step = self.unit, self.step
        if unit == "microsecond":
            return f"every {_duration(step)}".replace("every 1 ", "every ")
        return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _at_day(months: np.ndarray, day: int) -> np.ndarray:
    """Sets dates to a day of months, or to the last day of a month that is shorter."""
    first = months.astype("datetime64[D]")
    length = ((months + 1).astype("datetime64[D]") - first).astype("int64")
    return first + np.minimum(day, length) - 1


def _day_of_month(midnights: np.ndarray) -> int:
    """Returns the day at which the dates are in each month; 0 if there is none.

    Examples:
        >>> _day_of_month(np.array(["2021-01-30", "2021-02-28"], "M8[D]"))
        30
        >>> _day_of_month(np.array(["2021-02-28", "2021-04-30"], "M8[D]"))
        31
        >>> _day_of_month(np.array(["2021-02-28", "2021-03-27"], "M8[D]"))
        0
    """
    months = midnights.astype("datetime64[M]")
    largest = (midnights - months.astype("datetime64[D]")).astype("int64").max() + 1
    for day in (LAST_DAY, int(largest)):
        if (_at_day(months, day) == midnights).all():
            return day
    return 0


def find_frequency(
    dates: np.ndarray,
    where: Callable[[int], str],
    *,
    gaps: bool = False,
    like: Frequency | None = None,
) -> Frequency:
    """Finds the distance of dates.

    Args:
        dates: `datetime64[us]` of shape `(time,)`.
        where: Returns the place of a row for messages, such as "line 7".
        gaps: Whether dates may be missing.
        like: What is found if the dates are at this distance, though they could be at
            another one: five days from Monday to Friday can be business days.

    Returns:
        The `Frequency`.

    Raises:
        ValueError: If a date is missing or repeats, or if the dates run backwards, jump
            or are uneven, or if there is a single one.

    Examples:
        >>> weeks = np.array(["2024-01-01", "2024-01-08", "2024-01-22"], "M8[us]")
        >>> find_frequency(weeks, "row {}".format)
        Traceback (most recent call last):
        ...
        ValueError: the dates must be evenly spaced, received a jump at row 2: \
2024-01-22 is 14 days after 2024-01-08, and the others are 7 days apart. Add the \
missing rows, or pass missing="interpolate" or missing="forward"
    """
    check_order(dates, where)
    if like is not None and _fits(dates, like, gaps):
        day = like.day
        is_at_day = day and _is_at(dates.astype("datetime64[D]"), day)
        return like if is_at_day else like.with_day_of(dates)
    if len(dates) < 2:
        raise ValueError(
            f"expected at least two dates, received {len(dates)} at {where(0)}, so "
            "that their distance is not known. Add rows"
        )
    frequency = Frequency(_unit(dates), 1).with_day_of(dates)
    steps = np.diff(frequency.numbers(dates))
    sizes, counts = np.unique(steps, return_counts=True)
    frequency = frequency._replace(step=int(sizes[counts.argmax()]))
    uneven = steps % frequency.step != 0 if gaps else steps != frequency.step
    if uneven.any():
        raise _jump(dates, int(uneven.argmax()) + 1, frequency, where)
    return frequency


def check_order(dates: np.ndarray, where: Callable[[int], str]) -> None:
    """Raises a `ValueError` unless each date is later than the one before."""
    if np.isnat(dates).any():
        raise ValueError(
            f"expected a date in each row, but {where(int(np.isnat(dates).argmax()))} "
            "has none. Fill it in, or delete the row"
        )
    steps = np.diff(dates).astype("int64")
    if (steps > 0).all():
        return
    row = int((steps <= 0).argmax()) + 1
    before = np.flatnonzero(dates[:row] == dates[row])
    if len(before):
        raise ValueError(
            f"each date must occur once, but at {where(row)} {shown(dates[row])} "
            f"repeats that of {where(int(before[0]))}. If the table has several "
            "series, name the column that tells them apart: group=; otherwise add up "
            "or delete the rows of a date"
        )
    raise ValueError(
        f"the dates must run forwards, but at {where(row)} {shown(dates[row])} "
        f"follows {shown(dates[row - 1])}. Sort the rows by date"
    )


def _jump(dates, row, frequency, where):
    size = int((dates[row] - dates[row - 1]).astype("int64"))
    apart = str(frequency).removeprefix("every ")
    if frequency.unit == "microsecond":
        apart = _duration(frequency.step, 7 * DAY)
    elif frequency.step == 1:
        apart = f"1 {apart}"
    return ValueError(
        f"the dates must be evenly spaced, received a jump at {where(row)}: "
        f"{shown(dates[row])} is {_duration(size, 7 * DAY)} after "
        f"{shown(dates[row - 1])}, and the others are {apart} apart. Add the missing "
        'rows, or pass missing="interpolate" or missing="forward"'
    )


def _duration(size: int, below: int = 8 * DAY) -> str:
    """Returns a number of microseconds in words, in units below a size.

    Examples:
        >>> _duration(14 * DAY), _duration(90 * SECOND), _duration(SECOND // 4)
        ('2 weeks', '90 seconds', '0.25 seconds')
    """
    whole = [unit for unit in SIZES if unit < below and size % unit == 0]
    unit = max(whole, default=SECOND)
    count = f"{size / unit:f}".rstrip("0").rstrip(".")
    return f"{count} {SIZES[unit]}{'s' if count != '1' else ''}"


def _unit(dates):
    """Returns the unit in which the dates are evenly spaced, or nearly."""
    midnights, steps = dates.astype("datetime64[D]"), np.diff(dates).astype("int64")
    if not _at_one_time(dates):
        return "microsecond"
    if steps.min() >= 28 * DAY and _day_of_month(midnights):
        return "month"
    if steps.min() == DAY and np.is_busday(midnights).all():
        first, last = midnights[0], midnights[-1]
        if np.busday_count(first, last) < (last - first).astype("int64"):
            return "business day"  # a weekend has no dates
    return "microsecond"


def _at_one_time(dates):
    """Returns whether all dates are at the same time of the day."""
    return bool((dates.astype("int64") % DAY == dates[0].astype("int64") % DAY).all())


def _is_at(midnights, day):
    return bool((_at_day(midnights.astype("datetime64[M]"), day) == midnights).all())


def _fits(dates, like, gaps):
    """Returns whether dates have a distance; with gaps a multiple, and once itself."""
    midnights = dates.astype("datetime64[D]")
    if like.unit != "microsecond" and not _at_one_time(dates):
        return False
    if like.unit == "month" and not _day_of_month(midnights):
        return False
    if like.unit == "business day" and not np.is_busday(midnights).all():
        return False
    steps = np.diff(like.numbers(dates))
    if gaps and len(steps):
        return bool((steps % like.step == 0).all() and (steps == like.step).any())
    return bool((steps == like.step).all())


def shown(date: np.datetime64) -> str:
    """Returns a date in a message, without a time at midnight.

    Examples:
        >>> shown(np.datetime64("2020-03-01T00:00:00"))
        '2020-03-01'
        >>> shown(np.datetime64("2020-03-01T12:00:00.250"))
        '2020-03-01 12:00:00.25'
    """
    text, _, fraction = str(date.astype(DATES)).partition(".")
    if fraction.strip("0"):
        return f"{text}.{fraction.rstrip('0')}".replace("T", " ")
    return text.removesuffix("T00:00:00").replace("T", " ")


def as_frequency(plain: Any) -> Frequency | None:
    """Reads a frequency from plain data, `{"unit": "month", "step": 1, "day": 15}`.

    Files of earlier versions have `[unit, step, offset]`, with the seconds from the
    start of the month or the day.
    """
    if plain is None:
        return None
    if isinstance(plain, dict):
        return Frequency(str(plain["unit"]), int(plain["step"]), int(plain["day"]))
    unit, step, offset = str(plain[0]), int(plain[1]), int(plain[2])
    if unit == "second":
        return Frequency("microsecond", step * SECOND)
    if unit == "business day":
        return Frequency(unit, step)
    day = LAST_DAY if unit == "month end" else offset * SECOND // DAY + 1
    return Frequency("month", step, day)


CALENDAR = ("day", "month", "year", "weekday", "hour")


def calendar_columns(dates: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Computes features of dates.

    Args:
        dates: `datetime64[us]` of shape `(time,)`.
        names: From `"day"`, `"month"`, `"year"` as in `datasets.calendar_features`,
            `"weekday"` from 0, Monday, to 1, and `"hour"` from 0 to 1.

    Returns:
        A float64 array of shape `(time, names)`.

    Examples:
        >>> calendar_columns(np.array(["2024-01-07T23"], "M8[us]"), ["weekday", "hour"])
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
        "hour": (dates - days) // np.timedelta64(1, "h") / 23,
    }
    return np.stack([columns[name] for name in names], axis=-1)

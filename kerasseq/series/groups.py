"""Which rows of a table belong to which series, and the frequency of their dates."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from kerasseq.series.dates import Frequency, find_frequency, shown

Group = tuple[Any, np.ndarray]  # the name of a series and the positions of its rows
Like = Callable[[Any], Frequency | None]  # the frequency of a series before, by name


def split_groups(frame: Any, group: Any, rows: Sequence[str]) -> list[Group]:
    """Splits the rows of a DataFrame into series.

    Args:
        frame: The DataFrame.
        group: The column that tells the series apart; None for one series.
        rows: The place of each row, for messages.

    Returns:
        The name of each series and the positions of its rows.

    Raises:
        ValueError: If a cell of the column is empty.
    """
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


def find_frequencies(
    groups: Sequence[Group],
    dates: np.ndarray,
    rows: Sequence[str],
    gaps: bool,
    like: Like | None = None,
) -> list[Frequency]:
    """Finds the distance of the dates of each series.

    Args:
        groups: The series.
        dates: Those of all rows, `datetime64[us]`.
        rows: The place of each row, for messages.
        gaps: Whether dates may be missing.
        like: The frequency of each series before; see `find_frequency`.

    Returns:
        A frequency for each series. Unless there is `like`, unit and step are the same.

    Raises:
        ValueError: If the dates of a series are uneven, or the distances differ.
    """

    def find(name, places, before):
        where = [rows[n] for n in places].__getitem__
        return find_frequency(dates[places], where, gaps=gaps, like=before)

    if like is not None:
        return [find(name, places, like(name)) for name, places in groups]
    # The distance of a single date is that of the other series.
    several = [each for each in groups if len(each[1]) > 1] or groups[:1]
    frequencies = [find(*each, None) for each in several]
    first = frequencies[0]
    for frequency in {each[:2]: each._replace(day=0) for each in frequencies}.values():
        all_like = [find(*each, frequency) for each in groups]
        if all(each.equals(frequency) for each in all_like):
            return all_like
    different = next(n for n, each in enumerate(frequencies) if not each.equals(first))
    raise ValueError(
        f"all series must have the same distance of dates, received {first} for the "
        f"series {several[0][0]!r} and {frequencies[different]} for the series "
        f"{several[different][0]!r}. Forecast them with two models"
    )


def misfits(groups: Sequence[Group], dates: np.ndarray, like: Like) -> int:
    """Counts the steps of time that are not those of the series before.

    Args:
        groups: The series.
        dates: Those of all rows, `datetime64[us]`.
        like: The frequency of each series before.
    """
    if np.isnat(dates).any():
        return len(dates)
    count = 0
    for name, places in groups:
        before = like(name)
        if before is not None:
            count += int((np.diff(before.numbers(dates[places])) != before.step).sum())
    return count


def several_series(
    frame: Any, taken: Collection[Any], dates: np.ndarray, rows: Sequence[str]
) -> str | None:
    """Says what to do if the rows of a series turn out to be several series.

    Args:
        frame: The DataFrame.
        taken: Columns that have another use.
        dates: `datetime64[us]`; as one series they are not evenly spaced.
        rows: The place of each row.

    Returns:
        A message; None if no column tells the series apart.
    """
    wrong = np.diff(dates) <= np.timedelta64(0)
    ordered = not wrong.any()  # then they are several if each is evenly spaced
    for name in frame.columns:
        if name in taken or not frame[name].notna().all():
            continue
        parts = split_groups(frame, name, rows)
        if len(parts) < 2 or min(len(places) for _, places in parts) < 2:
            continue
        try:
            find_frequencies(parts, dates, rows, not ordered, None)
        except ValueError:
            continue
        row = 1 if ordered else int(wrong.argmax()) + 1
        return (
            f"expected one series, but at {rows[row]} {shown(dates[row])} follows "
            f"{shown(dates[row - 1])}, and the column {str(name)!r} tells "
            f'{len(parts)} series apart. Name it: group="{name}"'
        )
    return None

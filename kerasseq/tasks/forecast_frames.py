"""Forecasts as a table, and the known columns of the future read from one."""

from typing import Any

import numpy as np

from kerasseq.core import packages
from kerasseq.tasks.series_dates import shown
from kerasseq.tasks.series_frames import OneSeries, is_frame, read_columns
from kerasseq.tasks.series_windows import Fitted


def require_pandas() -> Any:
    """Returns pandas.

    Raises:
        ImportError: If it is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise packages.missing("a table needs", "pandas") from error
    return pandas


def forecast_frame(
    fitted: Fitted,
    parts: list[OneSeries],
    rows: list[int],
    forecasts: np.ndarray,
    quantiles: tuple[float, ...] | None,
) -> Any:
    """Makes the table of a forecast, with the columns of the user's table.

    Args:
        fitted: What the model keeps of the table.
        parts: The end of each series.
        rows: Number of rows of each series before the forecast.
        forecasts: Array `(series, steps, quantiles)`, one if there are none.
        quantiles: The quantiles, or None.

    Returns:
        A DataFrame with columns or an index of dates, the group, the value and each
        quantile, such as `sales_0.1`.
    """
    pandas = require_pandas()
    names, columns = fitted.columns, []
    steps = forecasts.shape[1]
    for one, count, found in zip(parts, rows, forecasts, strict=True):
        date = "date" if names.date is None else names.date
        frame = {}
        if names.group is not None:
            frame[names.group] = [one.name] * steps
        if fitted.frequency is not None:
            last = one.dates[len(one.values) - 1]
            frame[date] = fitted.frequency.after(last, steps)
            index = None
        else:
            index = np.arange(count, count + steps)
        frame |= _values(names.value, found, quantiles)
        columns.append(pandas.DataFrame(frame, index=index))
    table = pandas.concat(columns, ignore_index=fitted.frequency is not None)
    if fitted.frequency is not None and names.date is None:
        table = table.set_index("date").rename_axis(fitted.index)
    return table


def _values(name, found, quantiles):
    """The forecast, and the other quantiles under names of their own."""
    if quantiles is None:
        return {name: found[:, 0]}
    middle = quantiles.index(0.5)
    others = {
        f"{name}_{q:g}": found[:, n] for n, q in enumerate(quantiles) if n != middle
    }
    return {name: found[:, middle], **others}


def with_future(one: OneSeries, fitted: Fitted, steps: int, known: Any) -> OneSeries:
    """Returns a series with `steps` rows of the future, and its known columns.

    Args:
        one: The series.
        fitted: What the model keeps of the table.
        steps: Number of rows of the future.
        known: The table of known columns that the user gave, or None.

    Raises:
        ValueError: If known columns are needed and missing for a step.
    """
    time, columns = len(one.values), fitted.columns
    dates = one.dates
    if dates is not None:
        after = fitted.frequency.after(dates[time - 1], steps)
        dates = np.concatenate([dates[:time], after])
    others = np.zeros((time + steps, one.others.shape[1]))
    others[:time] = one.others[:time]
    if columns.known:
        width = len(columns.known)
        if known is not None:
            rows = _known_rows(known, one, fitted, dates, steps)
        else:
            rows = one.others[time : time + steps, -width:]
            if len(rows) < steps:
                raise _unknown(one, columns, dates, steps, len(rows))
        others[time:, -width:] = rows
    return OneSeries(one.name, one.values, others, dates)


def _unknown(one, columns, dates, steps, found):
    first = f"step {found + 1}" if dates is None else shown(dates[-steps + found])
    listed = ", ".join(map(str, columns.known))
    return ValueError(
        f"the forecast of {one.title} needs the known columns {listed} for {steps} "
        f"steps, from {first} on. Add these rows to the table, without a value; in "
        "Python, they can be passed as `known`"
    )


def _known_rows(known, one, fitted, dates, steps):
    """The rows of the known columns for the dates of the future."""
    if not is_frame(known) or not hasattr(known, "columns"):
        raise TypeError(
            "known must be a pandas DataFrame with the known columns, received "
            f"{type(known).__name__}"
        )
    columns = fitted.columns
    numbers, found = read_columns(known, columns, one.name)
    if dates is None:
        if len(numbers) < steps:
            raise _unknown(one, columns, None, steps, len(numbers))
        return numbers[:steps]
    if found is None:
        raise ValueError(
            "known must have the dates of the future, as the table that the model was "
            "fitted to. Set them as the index, or name them as there"
        )
    places = {date: n for n, date in enumerate(found)}
    for number, date in enumerate(dates[-steps:]):
        if date not in places:
            raise _unknown(one, columns, dates, steps, number)
    return numbers[[places[date] for date in dates[-steps:]]]

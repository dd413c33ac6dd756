"""Forecasts as a table, and the known columns of the future read from one."""

import dataclasses
import itertools
from typing import Any

import numpy as np

from kerasseq.series.dates import shown
from kerasseq.series.frames import is_frame, read_columns
from kerasseq.series.one_series import OneSeries
from kerasseq.series.sources import as_table, require_pandas
from kerasseq.series.windows import Fitted


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
    dated = all(one.dates is not None for one in parts)
    for one, count, forecast in zip(parts, rows, forecasts, strict=True):
        date = "date" if names.date is None else names.date
        frame, index = {}, None
        if names.group is not None:
            frame[names.group] = [one.name] * steps
        if dated:
            frame[date] = one.dates_after(steps)
        else:
            index = np.arange(count, count + steps)
        frame |= _values(names.value, forecast, quantiles)
        columns.append(pandas.DataFrame(frame, index=index))
    table = pandas.concat(columns, ignore_index=dated)
    if dated and names.date is None:
        table = table.set_index("date").rename_axis(fitted.index)
    return table


def _values(name, forecast, quantiles):
    """Returns the forecast, and the other quantiles under names of their own."""
    if quantiles is None:
        return {name: forecast[:, 0]}
    middle = quantiles.index(0.5)
    others = {
        f"{name}_{q:g}": forecast[:, n] for n, q in enumerate(quantiles) if n != middle
    }
    return {name: forecast[:, middle], **others}


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
    dates, after = one.dates, one.dates_after(steps)
    if dates is not None:
        dates = np.concatenate([dates[:time], after])
    others = np.zeros((time + steps, one.others.shape[1]))
    others[:time] = one.others[:time]
    if columns.known:
        width = len(columns.features_of_known)
        if known is not None:
            rows = _known_rows(known, one, fitted, after, steps)
        else:
            rows = one.others[time : time + steps, -width:]
            if len(rows) < steps:
                raise _unknown(one, columns, after, steps, len(rows))
        others[time:, -width:] = rows
    return dataclasses.replace(one, others=others, dates=dates)


def _unknown(one, columns, dates, steps, count):
    first = f"step {count + 1}" if dates is None else shown(dates[count])
    listed = ", ".join(map(str, columns.known))
    return ValueError(
        f"the forecast of {one.title} needs the known columns {listed} for {steps} "
        f"steps, from {first} on. Add these rows to the table, without a value; in "
        "Python, they can be passed as `known`"
    )


def _known_rows(known, one, fitted, dates, steps):
    """Returns the rows of the known columns for the dates of the future."""
    known = as_table(known)
    if not is_frame(known) or not hasattr(known, "columns"):
        raise TypeError(
            "known must be a pandas DataFrame with the known columns, received "
            f"{type(known).__name__}"
        )
    columns = fitted.columns
    numbers, own_dates, rows = read_columns(known, columns, one.name, dates)
    if dates is None or not len(numbers):
        places = list(range(len(numbers)))[:steps]
    elif own_dates is None:
        raise ValueError(
            "known must have the dates of the future, as the table that the model was "
            "fitted to. Set them as the index, or name them as there"
        )
    else:
        at = {date: n for n, date in enumerate(own_dates)}
        places = list(itertools.takewhile(lambda n: n is not None, map(at.get, dates)))
    if len(places) < steps:
        raise _unknown(one, columns, dates, steps, len(places))
    empty = np.argwhere(np.isnan(numbers[places]))
    if len(empty):
        row, column = empty[0]
        raise ValueError(
            f"known: the column {columns.features_of_known[column]!r} is empty at "
            f"{rows[places[row]]}. Fill it in"
        )
    return numbers[places]

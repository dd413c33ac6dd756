"""Time series, real and generated, and windows for forecasting.

Real series are included in statsmodels. The rows of course B are
[day, month, year, value]; `calendar_features` returns the first three. Values are not
scaled.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core import packages
from kerasseq.core.checks import (
    fits_memory,
    number,
    one_of,
    random_generator,
    short,
    whole_number,
)
from kerasseq.datasets.autoregressive import AutoregressiveProcess

GENERATED = ("ar", "market", "weather")


class Series(NamedTuple):
    """One value per time step.

    Attributes:
        values: float32 of shape `(time,)`.
        dates: `datetime64[D]` of shape `(time,)`, or None for generated series.
        name: Name of the series.
        source: Source of the data.
        process: What generated it, where that is known.
    """

    values: np.ndarray
    dates: np.ndarray | None
    name: str
    source: str
    process: AutoregressiveProcess | None = None

    @property
    def optimum(self) -> float | None:
        """The least mean squared error of a forecast of the next value, where known."""
        return None if self.process is None else self.process.optimum


def series(
    name: str = "ar",
    *,
    length: int | None = None,
    coefficients: Sequence[float] | np.ndarray = (0.6, -0.3),
    noise: float = 1.0,
    seed: int | None = None,
) -> Series:
    r"""Returns a time series by name.

    - `"ar"`: generated, autoregressive: $x_t = \sum_i a_i x_{t-i} + e_t$, with normal
      noise $e_t$, in its stationary state.
    - `"market"`: generated, the price of a share by day: its logarithm is a random
      walk, $\ln x_t = \ln x_{t-1} + e_t / 100$, from a price of 100. No forecast has a
      smaller expected square error of $\ln x$ than the last value.
    - `"weather"`: generated, the mean temperature by week, in °C, with a year of 52
      weeks: $x_t = 11 - 9 \cos(2 \pi t / 52) + a_t$, where $a_t = 0.7 a_{t-1} + e_t$.
    - `"sunspots"`: yearly number of sunspots, 1700–2008, dated 1 January.
    - `"co2"`: weekly CO2 in the air of Mauna Loa, 1958–2001, in parts per million. Its
      59 missing weeks are interpolated linearly.

    Args:
        name: `"ar"`, `"market"`, `"weather"`, `"sunspots"` or `"co2"`.
        length: Number of values, from the first. Defaults to all values of a real
            series, and to 1000 generated ones.
        coefficients: For `"ar"`: $a_1, a_2, \ldots$
        noise: Of generated series: standard deviation of $e_t$.
        seed: Of generated series: seed of the noise.

    Returns:
        The series, as a `Series`.

    Raises:
        ImportError: If statsmodels is needed and not installed.
        ValueError: If the name is unknown, `length` is longer than the series, or the
            coefficients are not stationary.

    Examples:
        >>> generated = series("ar", length=5, coefficients=[0.9], seed=0)
        >>> generated.values.shape, generated.optimum
        ((5,), 1.0)
    """
    one_of("name", name, ["ar", "market", "weather", "sunspots", "co2"])
    if length is not None:
        length = whole_number("length", length, at_least=1)
        fits_memory("length", length, bytes_each=8)
    if name in GENERATED:
        return _generated(name, length or 1000, coefficients, noise, seed)
    values, dates, source = (_sunspots if name == "sunspots" else _co2)()
    if length is not None and length > len(values):
        raise ValueError(
            f"`length` is {length}, but {name!r} has {len(values)} values only."
        )
    return Series(values[:length].astype("float32"), dates[:length], name, source)


def _generated(name: str, length: int, coefficients, noise: float, seed) -> Series:
    if name == "ar":
        process = AutoregressiveProcess(coefficients, noise)
        values = process.sample(length, seed=seed).astype("float32")
        source = f"generated: AR({len(coefficients)}), coefficients {coefficients}"
        return Series(values, None, name, source, process)
    if name == "market":
        values = _market(length, noise, seed)
        source = "generated: random walk of the logarithm of a price"
    else:
        year = 2 * np.pi * np.arange(length) / 52
        deviation = AutoregressiveProcess((0.7,), noise).sample(length, seed=seed)
        values = 11 - 9 * np.cos(year) + deviation
        source = "generated: a year of 52 weeks and AR(1)"
    return Series(values.astype("float32"), None, name, source)


def _market(length: int, noise: float, seed) -> np.ndarray:
    number("noise", noise)
    if not (noise >= 0 and math.isfinite(noise)):
        raise ValueError(
            f"`noise` must be zero or a positive number, received {noise}."
        )
    steps = random_generator(seed).normal(0.0, noise / 100, length)
    with np.errstate(over="ignore"):
        values = 100 * np.exp(np.cumsum(steps))
    if not values.max() <= np.finfo("float32").max:
        raise ValueError(
            f"`noise` of a market is in percent by day, received {noise}: the price "
            "exceeds every number. Choose a smaller one, such as 1."
        )
    return values


def _sunspots():
    data = _statsmodels("sunspots")
    years = data["YEAR"].to_numpy().astype(int)
    dates = (years - 1970).astype("datetime64[Y]").astype("datetime64[D]")
    source = "NOAA National Geophysical Data Center, by statsmodels; public domain"
    return data["SUNACTIVITY"].to_numpy(), dates, source


def _co2():
    data = _statsmodels("co2")
    values = data["co2"].to_numpy().copy()
    dates = data.index.to_numpy().astype("datetime64[D]")
    missing, days = np.isnan(values), dates.astype(int)
    values[missing] = np.interp(days[missing], days[~missing], values[~missing])
    source = "Keeling and Whorf, 2004, CDIAC, by statsmodels; public domain"
    return values, dates, source


def _statsmodels(name: str):
    need = f'the series "{name}" comes with'
    sets = packages.load("statsmodels.datasets", "statsmodels", need)
    return getattr(sets, name).load_pandas().data


def windows(
    values: ArrayLike,
    length: int,
    horizon: int = 1,
    *,
    stride: int = 1,
    target: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Splits a series into windows of inputs and targets for forecasting.

    Window i has the steps from `i * stride`; its target is the next `horizon` values
    of the target feature.

    Args:
        values: The series, `(time,)` or `(time, features)`.
        length: Number of steps in a window.
        horizon: Number of steps to forecast.
        stride: Number of steps between windows.
        target: Index of the feature to forecast. For the rows of course B,
            [day, month, year, value], pass -1.

    Returns:
        `x` of shape `(windows, length, features)` and `y` of shape
        `(windows, horizon)`, both float32.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If the series is too short, has missing values or a wrong shape.

    Examples:
        >>> x, y = windows([1, 2, 3, 4, 5], length=3)
        >>> x[..., 0]
        array([[1., 2., 3.],
               [2., 3., 4.]], dtype=float32)
        >>> y
        array([[4.],
               [5.]], dtype=float32)
    """
    length = whole_number("length", length, at_least=1)
    horizon = whole_number("horizon", horizon, at_least=1)
    stride = whole_number("stride", stride, at_least=1)
    index = whole_number("target", target, at_least=-(10**9))
    table = _table(values)
    time, features = table.shape
    if not -features <= index < features:
        raise ValueError(f"`target` is {target}, but there are {features} features.")
    if time < length + horizon:
        raise ValueError(
            f"`values` has {time} steps, fewer than length {length} + horizon "
            f"{horizon} = {length + horizon}. Use shorter windows or a longer series."
        )
    starts = np.arange(0, time - length - horizon + 1, stride)[:, None]
    x = table[starts + np.arange(length)]  # (windows, length, features)
    y = table[starts + length + np.arange(horizon), target]  # (windows, horizon)
    return x, y


def _table(values) -> np.ndarray:
    """Returns the series as finite float32 `(time, features)`."""
    try:
        table = np.asarray(values, "float32")
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`values` must be numbers, received {short(values)}"
        ) from error
    if table.ndim not in (1, 2) or 0 in table.shape[1:]:
        raise ValueError(
            "`values` must have the shape (time,) or (time, features), received "
            f"{table.shape}."
        )
    table = table.reshape(len(table), -1) if len(table) else table.reshape(0, 1)
    if not np.isfinite(table).all():
        step = int((~np.isfinite(table)).any(axis=1).argmax())
        raise ValueError(
            f"`values` is missing or infinite at step {step}: fill it in first, for "
            "example with np.interp."
        )
    return table


def calendar_features(dates: ArrayLike) -> np.ndarray:
    """Converts dates to the columns [day, month, year], scaled to about 0 … 1.

    Day 1 … 31 and month 1 … 12 become 0 … 1; the year becomes centuries since 2000. The
    scale does not depend on the data, so that it is the same for new dates.

    Args:
        dates: An array of `datetime64`, or ISO dates such as `"2015-10-02"`.

    Returns:
        A float32 array of shape `(time, 3)`.

    Raises:
        ValueError: If the dates cannot be read, or one is missing.

    Examples:
        >>> calendar_features(["2015-10-02"]).round(2)
        array([[0.03, 0.82, 0.15]], dtype=float32)
    """
    days = _days(dates)
    months = days.astype("datetime64[M]")
    day = (days - months).astype(int)  # 0 … 30
    month = months.astype(int) % 12  # 0 … 11
    year = days.astype("datetime64[Y]").astype(int) + 1970
    columns = [day / 30, month / 11, (year - 2000) / 100]
    return np.stack(columns, axis=-1).astype("float32")


def season_features(dates: ArrayLike) -> np.ndarray:
    """Converts dates to the sine and cosine of the time of the year.

    31 December and 1 January are neighbors, unlike in `calendar_features`: with windows
    of a few weeks of CO2, a linear model learns the season from these columns only.
    Windows of a year or more contain the season already.

    Args:
        dates: An array of `datetime64`, or ISO dates such as `"2015-10-02"`.

    Returns:
        A float32 array of shape `(time, 2)`. Angles begin with 0 on 1 January.

    Raises:
        ValueError: If the dates cannot be read, or one is missing.

    Examples:
        >>> season_features(["2015-01-01", "2015-07-02"]).round(2)
        array([[ 0.  ,  1.  ],
               [ 0.01, -1.  ]], dtype=float32)
    """
    days = _days(dates)
    years = days.astype("datetime64[Y]")
    starts = years.astype("datetime64[D]")
    lengths = (years + 1).astype("datetime64[D]") - starts  # 365 or 366 days
    angles = 2 * np.pi * ((days - starts) / lengths)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).astype("float32")


def _days(dates) -> np.ndarray:
    """Returns dates as a row of days."""
    try:
        days = np.asarray(dates, "datetime64[D]")
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"`dates` must be dates, received {short(dates)}") from error
    if days.ndim != 1 or np.isnat(days).any():
        raise ValueError(
            f"`dates` must be one row of dates, with none missing, "
            f"received {short(dates)}"
        )
    return days

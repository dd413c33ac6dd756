"""Windows of the series of a table, as the arrays that a model is trained with."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from kerasseq.series.autoregression import MAX_ORDER
from kerasseq.series.columns import Columns
from kerasseq.series.dates import (
    DATES,
    Frequency,
    as_frequency,
    calendar_columns,
    shown,
)
from kerasseq.series.frames import SeriesTable
from kerasseq.series.one_series import OneSeries
from kerasseq.series.selection import Selection

LEAST_LENGTH = MAX_ORDER  # of a window, if the series has as many values
PART = 8192  # windows that are read at a time


@dataclasses.dataclass
class Scale:
    """Mean and standard deviation of a series, which its windows are scaled by.

    The deviation of a constant series is 0; its forecast is the constant.

    Examples:
        >>> scale = Scale(mean=5.0, deviation=0.0)
        >>> scale(np.array([5.0])), scale.invert(np.array([0.3]))
        (array([0.]), array([5.]))
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, one: OneSeries) -> "Scale":
        """Returns the scale of the values of a series."""
        constant = not np.ptp(one.values)
        mean = one.values[0] if constant else one.values.mean()
        return cls(float(mean), 0.0 if constant else float(one.values.std()))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return (values - self.mean) / (self.deviation or 1.0)

    def invert(self, scaled: np.ndarray) -> np.ndarray:
        return self.mean + self.deviation * scaled


class TableWindows(NamedTuple):
    """The windows of the series that are not constant.

    Attributes:
        x: Windows of all series, one after the other.
        y: Targets, `(windows, horizon)`.
        counts: Windows of each series.
        values: Scaled values of each series, `(time,)`.
    """

    x: np.ndarray
    y: np.ndarray
    counts: list[int]
    values: list[np.ndarray]


@dataclasses.dataclass
class Fitted:
    """What a model has to keep of the table that it was fitted to.

    Attributes:
        columns: The columns of the table.
        kind: `"frame"`, `"series"` or `"array"`.
        index: Name of the index of dates, or None.
        frequency: The distance of the dates, or None.
        length: Steps of a window.
        season: Steps of a season.
        missing: How empty cells are treated.
        scales: The scale of each series, by name.
        trained: Rows of each series that the model was trained on, by name.
        history: The end of each series, a window with its target, and the future that
            is known.
        rows: Rows of each series up to its last value.
        order: Order of the autoregression that is the baseline; 0 for another one.
        selection: How many training steps help, or None.
        shifts: What calibrates forecasts of scaled values, `(horizon, quantiles)`, or
            None.
    """

    columns: Columns
    kind: str
    index: Any
    frequency: Frequency | None
    length: int
    season: int
    missing: str
    scales: dict[Any, Scale] = dataclasses.field(default_factory=dict)
    trained: dict[Any, int] = dataclasses.field(default_factory=dict)
    history: list[OneSeries] = dataclasses.field(default_factory=list)
    rows: list[int] = dataclasses.field(default_factory=list)
    order: int = 0
    selection: Selection | None = None
    shifts: np.ndarray | None = None

    def keep(self, table: SeriesTable, horizon: int) -> None:
        """Keeps the end of each series: a window, and a window with its target."""
        self.rows = [len(one.values) for one in table.series]
        kept = self.length + horizon
        ends = [max(0, rows - kept) for rows in self.rows]
        self.history = [
            one.after(end) for one, end in zip(table.series, ends, strict=True)
        ]

    def frequency_of(self, name: Any) -> Frequency | None:
        """Returns the distance of the dates of a series, with its day of the month."""
        own = {one.name: one.frequency for one in self.history}.get(name)
        return own or (self.frequency and self.frequency._replace(day=0))

    def plain(self) -> dict[str, Any]:
        """Returns all of it as plain data."""
        columns = dataclasses.asdict(self.columns)
        return {
            "columns": {k: list(v) if type(v) is tuple else v
                        for k, v in columns.items()},
            "kind": self.kind,
            "index": self.index,
            "frequency": self.frequency and self.frequency._asdict(),
            "length": self.length,
            "season": self.season,
            "missing": self.missing,
            "scales": [[k, s.mean, s.deviation] for k, s in self.scales.items()],
            "trained": [[k, rows] for k, rows in self.trained.items()],
            "history": [_plain_series(one) for one in self.history],
            "rows": self.rows,
            "order": self.order,
            "selection": self.selection and dataclasses.asdict(self.selection),
            "shifts": None if self.shifts is None else self.shifts.tolist(),
        }  # fmt: skip

    @classmethod
    def of_plain(cls, plain: dict[str, Any]) -> "Fitted":
        """Reads the result of `plain`, also of earlier versions."""
        selection, shifts = plain.get("selection"), plain.get("shifts")
        columns = {
            k: tuple(v) if isinstance(v, list | tuple) else v
            for k, v in plain["columns"].items()
        }
        fields = {
            **plain,
            "columns": Columns(**columns),
            "frequency": as_frequency(plain["frequency"]),
            "scales": {k: Scale(mean, deviation)
                       for k, mean, deviation in plain["scales"]},
            "trained": dict(plain["trained"]),
            "history": [_series_of_plain(one, plain["frequency"])
                        for one in plain["history"]],
            "selection": selection and Selection(**selection),
            "shifts": None if shifts is None else np.array(shifts),
        }  # fmt: skip
        return cls(**fields)


def _plain_series(one: OneSeries) -> dict[str, Any]:
    dates = None if one.dates is None else [shown(date) for date in one.dates]
    return {
        "name": one.name,
        "values": one.values.tolist(),
        "others": one.others.tolist(),
        "dates": dates,
        "frequency": one.frequency and one.frequency._asdict(),
    }


def _series_of_plain(plain: dict[str, Any], common: Any) -> OneSeries:
    dates, values = plain["dates"], np.array(plain["values"], "float64")
    others = np.array(plain["others"], "float64").reshape(len(plain["others"]), -1)
    if dates is not None:
        dates = np.array([date.replace(" ", "T") for date in dates], DATES)
    frequency = as_frequency(plain.get("frequency", common))
    if dates is not None and "frequency" not in plain:  # of an earlier version
        frequency = frequency.with_day_of(dates)
    return OneSeries(plain["name"], values, others, dates, frequency)


def window_length(table: SeriesTable, season: int, horizon: int) -> int:
    """Returns the number of steps of a window, if the user names none.

    It is two seasons, at least 25 steps, and at most half of what the shortest series
    has beside the horizon.

    Raises:
        ValueError: If a series is too short for the horizon.
    """
    shortest = min(table.series, key=lambda one: len(one.values))
    rest = len(shortest.values) - horizon
    if rest < 2:
        raise ValueError(
            f"a horizon of {horizon} needs at least {horizon + 2} values, received "
            f"{len(shortest.values)} of {shortest.title}. Choose a smaller horizon, or "
            "add values"
        )
    return max(1, min(max(2 * season, LEAST_LENGTH), rest // 2))


def check_length(table: SeriesTable, length: int, horizon: int) -> None:
    """Raises a `ValueError` if a series has no window with its target."""
    for one in table.series:
        if len(one.values) < length + horizon:
            raise ValueError(
                f"{one.title} has {len(one.values)} values, too few for windows of "
                f"length {length} and a horizon of {horizon}: expected at least "
                f"{length + horizon}, received {len(one.values)}. Choose smaller ones"
            )


def features(one: OneSeries, scale: Scale, calendar: tuple[str, ...]) -> np.ndarray:
    """Computes the features of each row: value, past, known, calendar.

    Args:
        one: The series.
        scale: Its scale.
        calendar: Names of the features of dates.

    Returns:
        A float64 array of shape `(time + future, features)`; the value is 0 in the
        future.
    """
    count = len(one.others)
    value = np.zeros((count, 1))
    value[: len(one.values), 0] = scale(one.values)
    parts = [value, one.others]
    if calendar and one.dates is not None:
        parts.append(calendar_columns(one.dates, calendar))
    return np.concatenate(parts, axis=1)


def training_windows(
    table: np.ndarray, time: int, length: int, horizon: int, ahead: int
) -> tuple[np.ndarray, np.ndarray]:
    """Splits features into windows and targets.

    Args:
        table: Features, `(time + future, features)`; the value is the first.
        time: Steps with a value.
        length: Steps of a window.
        horizon: Steps of a target.
        ahead: How many features, the last ones, are known in advance. If there are
            any, a window has `horizon` further steps with those alone.

    Returns:
        `x` of shape `(windows, length, features)`, or `(windows, length + horizon,
        features)`, and `y` of shape `(windows, horizon)`, float32: views if possible.

    Examples:
        >>> x, y = training_windows(np.eye(5), 5, length=2, horizon=2, ahead=0)
        >>> x.shape, y.shape
        ((2, 2, 5), (2, 2))
    """
    count, rows = time - length - horizon + 1, table.astype("float32")
    y = sliding_window_view(rows[length:time, 0], horizon)
    size = length + (horizon if ahead else 0)
    x = sliding_window_view(rows, size, axis=0)[:count].swapaxes(1, 2)
    if ahead:
        x = x.copy()
        x[:, length:, :-ahead] = 0.0
    return x, y


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes mean and standard deviation of each feature, in float64.

    Args:
        x: Windows `(windows, time, features)`, which are read in parts, to save memory.

    Examples:
        >>> moments(np.array([[[1.0], [3.0]]], "float32"))
        (array([2.]), array([1.]))
    """
    mean = x.mean(axis=(0, 1), dtype="float64")
    squares = sum(
        ((x[start : start + PART] - mean) ** 2).sum(axis=(0, 1))
        for start in range(0, len(x), PART)
    )
    return mean, np.sqrt(squares / (x.shape[0] * x.shape[1]))


def best_baseline(
    targets: list[np.ndarray], length: int, horizon: int, season: int
) -> int:
    """Chooses what a model adds to, if not an autoregression.

    Args:
        targets: Scaled values of each series, `(time,)`.
        length: Steps of a window: a season must fit in.
        horizon: Steps of a forecast.
        season: Steps of a season.

    Returns:
        0 for the mean, 1 for the last value, or `season`: the one with the least mean
        absolute error over the horizon.

    Examples:
        >>> best_baseline([np.arange(9.0)], length=2, horizon=2, season=4)
        1
    """

    def error(m):
        rows = []
        for step in range(1, horizon + 1):
            lag = m * -(-step // m) if m else 0  # of the value that is repeated
            rows += [np.abs(y[lag:] - (y[: len(y) - lag] if m else 0)) for y in targets]
        return np.concatenate(rows).mean() if sum(map(len, rows)) else np.inf

    return min([m for m in sorted({0, 1, season}) if m <= length], key=error)

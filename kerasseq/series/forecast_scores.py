r"""Scores of forecasts, and the simple forecasts that they are compared with.

The mean absolute scaled error divides by the error of the seasonal naive forecast on
the training part, with the season $m$ and the training values $y_1, \dots, y_T$:

$$
\mathrm{MASE} = \frac{\frac{1}{k} \sum_i |y_{T+i} - \hat y_{T+i}|}
{\frac{1}{T - m} \sum_{t=m+1}^{T} |y_t - y_{t-m}|}
$$

From: Hyndman and Koehler, "Another look at measures of forecast accuracy", 2006. The
origins roll as in: Tashman, "Out-of-sample tests of forecasting accuracy", 2000.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core import checks
from kerasseq.series.autoregression import ROUNDING, fit_autoregression
from kerasseq.series.intervals import coverage

TIE = 1e-5  # of an error: forecasts that are the same but for their precision

Forecasts = Callable[[ArrayLike, int], np.ndarray]  # of a history and steps


def scale_of_errors(training: ArrayLike, season: int = 1) -> float:
    """Computes the denominator of MASE.

    Args:
        training: The training part, `(time,)`, longer than a season.
        season: Steps of a season, $m$.

    Returns:
        The mean absolute error of the seasonal naive forecast; NaN where MASE is
        undefined, as this forecast makes no error, or the part is no longer than a
        season.

    Examples:
        >>> scale_of_errors([1.0, 2.0, 4.0])
        1.5
        >>> scale_of_errors([3.0, 3.0, 3.0])
        nan
    """
    season = checks.whole_number("season", season)
    y = np.asarray(training, "float64")
    errors = np.abs(y[season:] - y[:-season])
    if not len(errors) or errors.mean() <= ROUNDING * np.abs(y).max():
        return math.nan
    return float(errors.mean())


def mase(
    actual: ArrayLike, forecast: ArrayLike, training: ArrayLike, season: int = 1
) -> float:
    """Computes the mean absolute scaled error.

    Args:
        actual: Values, of any shape.
        forecast: Their forecasts, of the same shape.
        training: The values before, `(time,)`.
        season: Steps of a season; 1 compares with the last value.

    Raises:
        ValueError: If MASE is undefined: the training part is constant, repeats
            itself exactly or is no longer than a season.

    Examples:
        >>> mase([5.0, 6.0], [5.0, 3.0], training=[1.0, 2.0, 4.0])
        1.0
    """
    scale = scale_of_errors(training, season)
    if math.isnan(scale):
        raise ValueError(
            "MASE is undefined: the training part must be longer than a season and "
            "must not repeat itself, received "
            f"{np.size(training)} values with season={season}. Use MAE or RMSE"
        )
    return scores(actual, forecast, scale)["MAE"] / scale


def scores(actual: ArrayLike, forecast: ArrayLike, scale: float) -> dict[str, float]:
    """Computes MAE, RMSE and MASE.

    Args:
        actual: Values, of any shape.
        forecast: Their forecasts, of the same shape.
        scale: The denominator of MASE; NaN if it is undefined.

    Examples:
        >>> scores([5.0, 7.0], [5.0, 3.0], scale=4.0)
        {'MAE': 2.0, 'RMSE': 2.8284271247461903, 'MASE': 0.5}
    """
    errors = np.asarray(actual, "float64") - np.asarray(forecast, "float64")
    mae = float(np.mean(np.abs(errors)))
    return {
        "MAE": mae,
        "RMSE": float(np.sqrt(np.mean(errors**2))),
        "MASE": mae / scale,
    }


def seasonal_naive(history: ArrayLike, steps: int, season: int = 1) -> np.ndarray:
    """Repeats the last season; with `season=1` the last value, the naive forecast.

    Examples:
        >>> seasonal_naive([1.0, 2.0, 3.0, 4.0], steps=3, season=2)
        array([3., 4., 3.])
    """
    history = np.asarray(history, "float64")
    return history[len(history) - season + np.arange(steps) % season]


def peers(training: ArrayLike, season: int = 1) -> dict[str, Forecasts]:
    """Returns the forecasts that a model is compared with, by name.

    Args:
        training: The training part, `(time,)`.
        season: Steps of a season; 1 for none.

    Returns:
        Functions of a history `(time,)` and a number of steps: naive, seasonal naive
        if there is a season, and autoregressive if the values are enough for it; of a
        constant series of order 0.

    Examples:
        >>> forecasts = peers([1.0, 2.0, 4.0, 3.0] * 3, season=4)
        >>> forecasts["naive"]([1.0, 2.0], 3)
        array([2., 2., 2.])
        >>> list(forecasts)
        ['naive', 'seasonal naive', 'AR(2)']
    """
    y = np.asarray(training, "float64")
    forecasts: dict[str, Forecasts] = {"naive": seasonal_naive}
    if 1 < season < len(y):
        forecasts["seasonal naive"] = functools.partial(seasonal_naive, season=season)
    regression = fit_autoregression(y, season)
    if regression is not None:
        forecasts[f"AR({regression.order})"] = lambda history, steps: (
            regression.forecast(steps, history=history[-regression.order :]).mean
        )
    elif not np.ptp(y):
        forecasts["AR(0)"] = lambda history, steps: np.full(steps, y[0])
    return forecasts


@dataclasses.dataclass
class Comparison:
    """Forecasts of several models, and what came.

    Attributes:
        actual: The values, `(series, origins, steps)`.
        forecasts: Those of each model, by name, of the same shape.
        scales: The denominator of MASE of each series, NaN where it is undefined.
        intervals: The lowest and highest quantile of the model, `(series, origins,
            steps, 2)`, or None.
        nominal: The part of the values that they should hold, or None.

    Examples:
        >>> y = np.array([[[1.0, 2.0]], [[5.0, 5.0]]])
        >>> comparison = Comparison(y, {"zero": 0 * y}, np.array([1.0, 2.0]))
        >>> comparison.scores()["zero"]["MAE"], comparison.scores()["zero"]["MASE"]
        (3.25, 2.0)
        >>> comparison.errors_by_step()["zero"].round(3)
        array([3.606, 3.808])
    """

    actual: np.ndarray
    forecasts: dict[str, np.ndarray]
    scales: np.ndarray
    intervals: np.ndarray | None = None
    nominal: float | None = None

    @classmethod
    def joined(cls, parts: "Sequence[Comparison]") -> "Comparison":
        """Joins comparisons of the same series at several origins."""
        first = parts[0]
        return cls(
            np.concatenate([part.actual for part in parts], axis=1),
            {
                name: np.concatenate([part.forecasts[name] for part in parts], axis=1)
                for name in first.forecasts
            },
            first.scales,
            None
            if first.intervals is None
            else np.concatenate([part.intervals for part in parts], axis=1),
            first.nominal,
        )

    def scores(self) -> dict[str, dict[str, float]]:
        """Returns MAE, RMSE and MASE by model, averaged over series.

        Series whose MASE is undefined are left out of its average.
        """
        return {
            name: _average(
                [scores(*row) for row in zip(self.actual, y, self.scales, strict=True)]
            )
            for name, y in self.forecasts.items()
        }

    def coverage(self) -> float | None:
        """Returns the part of the values that the intervals hold; None without any."""
        if self.intervals is None:
            return None
        return coverage(self.actual, self.intervals)

    def not_beaten(self, title: str) -> list[str]:
        """Returns the simple forecasts that are at least as good as a model.

        Args:
            title: Name of the model.

        Returns:
            Their names, the best first: by MASE, or by MAE where it is undefined.

        Examples:
            >>> y = np.ones((1, 1, 2))
            >>> comparison = Comparison(y, {"gru": y - 3, "naive": y - 2}, np.ones(1))
            >>> comparison.not_beaten("gru")
            ['naive']
        """
        scores = self.scores()
        score = "MAE" if np.isnan(self.scales).all() else "MASE"
        simple = sorted((row[score], name) for name, row in scores.items())
        own = scores[title][score]
        limit = own * (1 + TIE)
        return [name for value, name in simple if value <= limit and name != title]

    def verdict(self, title: str) -> str:
        """Returns a sentence if simple forecasts are at least as good; else "".

        Args:
            title: Name of the model.

        Examples:
            >>> y = np.ones((1, 1, 2))
            >>> comparison = Comparison(y, {"gru": y - 3, "naive": y - 2}, np.ones(1))
            >>> comparison.verdict("gru")  # doctest: +NORMALIZE_WHITESPACE
            'gru does not beat its baseline: naive has a MASE of 2, gru of 3.
            Forecast with naive, or train longer or on more values.'
        """
        names = self.not_beaten(title)
        if not names:
            return ""
        scores = self.scores()
        score = "MAE" if np.isnan(self.scales).all() else "MASE"
        return (
            f"{title} does not beat its baseline: {names[0]} has "
            f"{'an' if score == 'MAE' else 'a'} {score} of "
            f"{scores[names[0]][score]:.4g}, {title} of {scores[title][score]:.4g}. "
            f"Forecast with {names[0]}, or train longer or on more values."
        )

    def errors_by_step(self) -> dict[str, np.ndarray]:
        """Returns the root mean square error by model and step, `(steps,)`."""
        return {
            name: np.sqrt(np.mean((y - self.actual) ** 2, axis=(0, 1)))
            for name, y in self.forecasts.items()
        }


def compare(
    title: str,
    forecasts: np.ndarray,
    values: Sequence[np.ndarray],
    ends: Sequence[Sequence[int]],
    training: Sequence[int],
    season: int = 1,
) -> Comparison:
    """Compares forecasts from several origins with those of simple models.

    Args:
        title: Name of the model.
        forecasts: Its forecasts, `(series, origins, steps)`.
        values: The values of each series, `(time,)`.
        ends: For each origin the number of values of each series before it.
        training: Number of values of each series that simple models are fitted to.
        season: Steps of a season.

    Examples:
        >>> y = np.array([1.0, 2.0, 4.0, 3.0, 6.0, 5.0])
        >>> comparison = compare("zero", np.zeros((1, 1, 2)), [y], [[4]], [4])
        >>> comparison.forecasts["naive"], comparison.scales.round(3)
        (array([[[3., 3.]]]), array([1.333]))
    """
    steps = forecasts.shape[-1]
    simple = [peers(y[:end], season) for y, end in zip(values, training, strict=True)]
    if len(values) > 1:  # each with an order of its own
        simple = [{k.partition("(")[0]: f for k, f in one.items()} for one in simple]
    actual, by_name = [], {}
    for number, y in enumerate(values):
        origins = [times[number] for times in ends]
        actual.append([y[end : end + steps] for end in origins])
        for name, forecast in simple[number].items():
            rows = [forecast(y[:end], steps) for end in origins]
            by_name.setdefault(name, []).append(rows)
    complete = {k: np.array(v) for k, v in by_name.items() if len(v) == len(values)}
    pairs = zip(values, training, strict=True)
    scales = np.array([scale_of_errors(y[:end], season) for y, end in pairs])
    return Comparison(np.array(actual), {title: forecasts, **complete}, scales)


def _average(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Averages scores over series; the squares of RMSE are averaged.

    Examples:
        >>> _average([{"RMSE": 3.0, "MAE": 1.0}, {"RMSE": 4.0, "MAE": 2.0}])
        {'RMSE': 3.5355339059327378, 'MAE': 1.5}
    """
    averages = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        if name == "RMSE":
            averages[name] = float(np.sqrt(np.mean(values**2)))
        else:
            defined = values[~np.isnan(values)]
            averages[name] = float(np.mean(defined)) if len(defined) else math.nan
    return averages

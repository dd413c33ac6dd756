r"""Autoregressions of the series of a table, as peers and baselines of a `Forecaster`.

The order $p$ has the least corrected information criterion, with $n$ residuals of
variance $\hat\sigma^2$, the same for all orders, and $k = p + 2$ parameters:

$$\mathrm{AICc} = n \ln \hat\sigma^2 + 2k + \frac{2k(k + 1)}{n - k - 1}$$

From: Hurvich and Tsai, "Regression and Time Series Model Selection in Small Samples",
1989. With many values it is Akaike's criterion; with few it prefers lower orders.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.text.classical.autoregression import AutoRegression, lags

ROUNDING = 1e-10  # of the size of the values: an error below it is none
MAX_ORDER = 25  # besides a season
PART = 5  # of the values: an order is at most a fifth of them, besides a season
MAX_VALUES = 20_000  # that an autoregression is fitted to
LEAST_VALUES = 200  # of each of many series


def fit_autoregression(training: ArrayLike, season: int = 1) -> AutoRegression | None:
    """Fits an autoregressive model, of the order with the least corrected AIC.

    Args:
        training: The values, `(time,)`.
        season: Steps of a season.

    Returns:
        The model, of order 1 to 25, at most a fifth of the values, or a season or one
        more, fitted to the last 20,000 values at most; None if they are constant or too
        few.
    """
    return fit_shared([np.asarray(training, "float64")], season)


def fit_shared(
    series: Sequence[np.ndarray], season: int = 1, longest: int | None = None
) -> AutoRegression | None:
    """Fits one autoregressive model to all series, by least squares.

    Args:
        series: Values of each series, `(time,)`, on the same scale.
        season: Steps of a season.
        longest: The highest order; None if there is no limit.

    Returns:
        The model; None if all series are constant, or too short.

    Examples:
        >>> halves = [8.0 * 0.5 ** np.arange(9), 3 - 0.5 ** np.arange(7)]
        >>> fit_shared(halves).order
        2
    """
    series = _some(series)
    largest = max(float(np.abs(y).max()) for y in series)
    if not any(map(np.ptp, series)):
        return None
    orders = _orders(series, season, longest)
    if not orders:
        return None
    mean, best = float(np.concatenate(series).mean()), (math.inf, 0)
    series = [y - mean for y in series]
    for order in orders:
        x, y = _equations(series, order, orders[-1])
        variance = float(np.mean((y - x @ _solve(x, y)) ** 2))
        if variance <= (ROUNDING * largest) ** 2:  # higher orders add nothing
            best = (-math.inf, order)
            break
        count, parameters = len(y), order + 2
        correction = parameters * (parameters + 1) / max(count - parameters - 1, 1)
        criterion = count * math.log(variance) + 2 * (parameters + correction)
        best = min(best, (criterion, order))
    order = best[1]
    return _model(series, order, mean) if order else None


def forecast_map(model: AutoRegression, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the forecasts of an autoregression as a linear map of the last values.

    Args:
        model: The autoregression, of order p.
        horizon: Number of steps, k.

    Returns:
        The coefficients `(p, k)` of the last p values, the oldest first, and the
        constants `(k,)`.

    Examples:
        >>> model = AutoRegression(1).fit([8.0, 4.0, 3.0, 1.0, 1.0])
        >>> coefficients, constants = forecast_map(model, 2)
        >>> (coefficients[0] * 1.0 + constants).round(3)
        array([0.865, 0.803])
    """
    p, phi = model.order, model.coefficients[::-1]
    forms = np.zeros((p + horizon, p + 1))  # of the values, the last is the constant
    forms[:p, :p] = np.eye(p)
    for step in range(p, p + horizon):
        forms[step] = phi @ forms[step - p : step]
        forms[step, p] += model.intercept
    return forms[p:, :p].T, forms[p:, p]


def _some(series):
    """Returns the ends of series, of many at even distances, of 20,000 values or so."""
    length = max(MAX_VALUES // len(series), LEAST_VALUES)
    ends = [np.asarray(y, "float64")[-length:] for y in series]
    return ends[:: max(1, -(-sum(map(len, ends)) // MAX_VALUES))]


def _orders(series, season, longest):
    """Returns the orders with at least twice as many equations as parameters."""
    highest = max(1, min(MAX_ORDER, max(map(len, series)) // PART))
    orders = sorted({*range(1, highest + 1), season, season + 1})

    def fits(order):
        equations = sum(max(len(y) - order, 0) for y in series)
        return order <= (longest or order) and equations >= 2 * order + 2

    return [order for order in orders if fits(order)]


def _equations(series, order, first):
    """Returns values from `first` on, and those before and a 1, `(rows, order + 1)`."""
    long = [y for y in series if len(y) > first]
    rows = np.concatenate([lags(y, order)[first - order :] for y in long])
    return np.hstack([rows, np.ones((len(rows), 1))]), np.concatenate(
        [y[first:] for y in long]
    )


def _solve(x, y):
    return np.linalg.lstsq(x, y, rcond=None)[0]


def _model(series, order, mean):
    """Returns the autoregression of centered series, by all equations of this order."""
    x, y = _equations(series, order, order)
    weights = _solve(x, y)
    phi, errors = weights[:order], y - x @ weights
    longest = max(series, key=len)
    return AutoRegression.from_config({
        **AutoRegression(order).get_config(),
        "coefficients": phi.tolist(),
        "intercept": float(weights[order] + mean * (1 - phi.sum())),
        "noise_variance": float(errors @ errors) / (len(y) - len(weights)),
        "history": (longest[-order:] + mean).tolist(),
    })  # fmt: skip

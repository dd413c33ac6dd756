r"""Intervals of forecasts that hold as many values as they should.

With $n$ windows that the model was not trained on, targets $y$ and forecasts
$\hat y_q$ of a quantile $q$, the forecast of each step ahead is shifted by the quantile
of the errors $y - \hat y_q$ of rank $\lceil (n + 1) q \rceil$, for $q$ below a half
counted from the other end.

From: Romano, Patterson and Candès, "Conformalized Quantile Regression", 2019. Left out:
numbers that adapt from one origin to the next.
"""

import math
from collections.abc import Sequence

import numpy as np


def conformal_shifts(
    actual: np.ndarray, forecasts: np.ndarray, quantiles: Sequence[float]
) -> np.ndarray:
    """Returns what is added to the forecasts of each step and quantile.

    Args:
        actual: Targets, `(windows, horizon)`.
        forecasts: Forecasts of quantiles, `(windows, horizon, quantiles)`.
        quantiles: The quantiles. The median is not shifted.

    Returns:
        Array `(horizon, quantiles)`.

    Examples:
        >>> y = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]])
        >>> conformal_shifts(y, np.zeros((7, 1, 3)), [0.25, 0.5, 0.75])
        array([[2., 0., 6.]])
    """
    errors = actual[..., None] - forecasts
    shifts = [
        np.zeros(actual.shape[1]) if q == 0.5
        else _of_rank(errors[..., n], q) if q > 0.5
        else -_of_rank(-errors[..., n], 1 - q)
        for n, q in enumerate(quantiles)
    ]  # fmt: skip
    return np.stack(shifts, axis=-1)


def outward(shifts: np.ndarray, quantiles: Sequence[float]) -> np.ndarray:
    """Returns the shifts that widen intervals, and 0 for those that narrow them.

    Args:
        shifts: Array `(horizon, quantiles)`.
        quantiles: The quantiles.

    Examples:
        >>> outward(np.array([[2.0, 0.0, 6.0]]), [0.25, 0.5, 0.75])
        array([[0., 0., 6.]])
    """
    is_upper = np.array(quantiles) > 0.5
    return np.where(is_upper, np.maximum(shifts, 0.0), np.minimum(shifts, 0.0))


def _of_rank(errors, q):
    """Returns the error of each step at the rank of a quantile, at most the largest."""
    count = len(errors)
    rank = min(math.ceil((count + 1) * q - 1e-9), count)  # 1 - 0.1 is rounded
    return np.sort(errors, axis=0)[rank - 1]


def shifted(forecasts: np.ndarray, shifts: np.ndarray, median: int) -> np.ndarray:
    """Adds shifts to forecasts of quantiles, which stay in order around the median.

    Args:
        forecasts: Array `(windows, horizon, quantiles)`.
        shifts: Array `(horizon, quantiles)`, 0 for the median.
        median: Index of the median.

    Examples:
        >>> shifted(np.array([[[1.0, 2.0, 5.0]]]), np.array([[3.0, 0.0, 1.0]]), 1)
        array([[[2., 2., 6.]]])
    """
    y = forecasts + shifts
    middle = y[..., median : median + 1]
    below = np.minimum(y[..., :median], middle)
    above = np.maximum(y[..., median + 1 :], middle)
    return np.sort(np.concatenate([below, middle, above], axis=-1), axis=-1)


def coverage(actual: np.ndarray, intervals: np.ndarray) -> float:
    """Returns the part of the values that intervals hold.

    Args:
        actual: Values, of any shape.
        intervals: Their lower and upper ends, on a last axis.

    Examples:
        >>> coverage(np.array([1.0, 5.0]), np.array([[0.0, 3.0], [6.0, 7.0]]))
        0.5
    """
    lower, upper = intervals[..., 0], intervals[..., 1]
    return float(np.mean((lower <= actual) & (actual <= upper)))

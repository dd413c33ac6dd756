r"""The arithmetic of autoregression on plain arrays: fit the weights, unroll them.

Least squares makes the sum of $e_t^2$ on the series as small as can be, where
$e_t = x_t - c - \sum_i \phi_i x_{t-i}$. Yule and Walker solve

$$
r_k = \sum_{i=1}^{p} \phi_i\, r_{|k - i|} \qquad k = 1, \ldots, p \qquad
r_k = \frac{1}{T} \sum_t (x_t - \bar x)(x_{t+k} - \bar x)
$$

The autocovariances are divided by $T$, not by the number of their terms: so the model
they give is always stationary.

From: Yule, "On a Method of Investigating Periodicities in Disturbed Series", 1927;
Walker, "On Periodicity in Series of Related Terms", 1931; the recursion: Durbin, "The
Fitting of Time-Series Models", 1960.
"""

import numpy as np


def least_squares(x, p: int, with_intercept: bool):
    """Return φ, c and σ² that make the squared errors on a series smallest.

    Args:
        x: The series, `(T,)`.
        p: How many values back.
        with_intercept: Whether c is sought; else it is 0.
    """
    ones = np.ones((len(x) - p, int(with_intercept)))
    table = np.hstack([lags(x, p), ones])  # (T - p, p + 1)
    weights = np.linalg.lstsq(table, x[p:], rcond=None)[0]
    errors = x[p:] - table @ weights
    variance = float(errors @ errors) / (len(table) - len(weights))
    return weights[:p], weights[p:].sum(), variance


def yule_walker(x, p: int, with_intercept: bool):
    """Return φ, c and σ² by the autocovariances; c is 0, for the mean is taken off.

    The arguments are those of `least_squares`, the series with its mean taken off.
    Levinson's and Durbin's recursion, from order m to m + 1. Each new coefficient kappa
    lies between -1 and 1, which is why the model is stationary, rounded or not.
    """
    r = np.array([x[k:] @ x[: len(x) - k] for k in range(p + 1)]) / len(x)
    phi, variance = np.zeros(0), r[0]
    for m in range(p):
        kappa = (r[m + 1] - phi @ r[m:0:-1]) / variance
        phi = np.append(phi - kappa * phi[::-1], kappa)
        variance *= 1 - kappa**2
    return phi, 0.0, float(variance)


def lags(x: np.ndarray, p: int) -> np.ndarray:
    """Return the p values before each time from p on, the nearest first.

    Examples:
        >>> lags(np.array([1, 2, 3, 4]), 2)
        array([[2, 1],
               [3, 2]])
    """
    return np.lib.stride_tricks.sliding_window_view(x, p)[:-1, ::-1]


def go_on(phi, c: float, past: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Run the equation over shocks `e` of shape `(steps,)`, from `past` of `(p,)`."""
    p = len(phi)
    x = np.concatenate([past, e])
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(p, len(x)):
            x[t] += c + phi[::-1] @ x[t - p : t]
    check_growth(x[p:])
    return x[p:]


def check_growth(values: np.ndarray) -> None:
    """Raise a `ValueError` where a value is no longer finite."""
    if not np.isfinite(values).all():
        step = int((~np.isfinite(values)).argmax()) + 1
        raise ValueError(
            f"Step {step} is too large for a float: the model is not stationary. Take "
            'fewer steps, or fit with method="yule_walker".'
        )


def numbers(name: str, values, least: int, what: str) -> np.ndarray:
    """Return one row of finite float64, at least so many."""
    try:
        array = np.asarray(values, "float64")
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be one row of numbers: {error}.") from error
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be one row of numbers, got {array.shape}.")
    if len(array) < least:
        raise ValueError(
            f"`{name}` has {len(array)} values, but {what} needs at least {least}."
        )
    if not np.isfinite(array).all():
        step = int((~np.isfinite(array)).argmax())
        raise ValueError(
            f"`{name}` is missing or infinite at step {step}: fill it in first, for "
            "example with np.interp."
        )
    return array

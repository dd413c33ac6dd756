r"""Autoregressive model: the next value is a weighted sum of the previous ones.

$$
x_t = c + \sum_{i=1}^{p} \phi_i x_{t-i} + e_t
$$

with noise $e_t$ of mean 0 and variance $\sigma^2$. Least squares minimizes the sum of
$e_t^2$. Yule and Walker solve

$$
r_k = \sum_{i=1}^{p} \phi_i\, r_{|k - i|} \qquad k = 1, \ldots, p \qquad
r_k = \frac{1}{T} \sum_t (x_t - \bar x)(x_{t+k} - \bar x)
$$

with autocovariances divided by $T$, so that the model is always stationary.

A forecast uses earlier forecasts for unknown values. The variance of its error $h$
steps ahead is

$$
\operatorname{var}_h = \sigma^2 \sum_{j=0}^{h-1} \psi_j^2 \qquad
\psi_0 = 1,\quad \psi_j = \sum_{i=1}^{\min(p, j)} \phi_i\, \psi_{j-i}
$$

From: Yule, "On a Method of Investigating Periodicities in Disturbed Series", 1927;
Walker, "On Periodicity in Series of Related Terms", 1931; course C, "Auto-regressive
models"; Durbin, "The Fitting of Time-Series Models", 1960. Left out: trends, seasons,
multivariate series, the choice of the order, and the uncertainty of $\phi$ itself.
"""

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import fraction, one_of, random_generator, whole_number
from kerasseq.core.schema import Maybe, check
from kerasseq.text.files import Saved
from kerasseq.text.probabilities import Seed, zero_or_more


class Forecast(NamedTuple):
    """A forecast with prediction intervals.

    Attributes:
        mean: float64 of shape `(steps,)`.
        lower: Lower bounds of the intervals, `(steps,)`.
        upper: Upper bounds, `(steps,)`.
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


SCHEMA = {
    "order": int,
    "method": str,
    "fit_intercept": bool,
    "coefficients": Maybe([float]),
    "intercept": float,
    "noise_variance": float | None,
    "history": Maybe([float]),
}


class AutoRegression(Saved):
    r"""Autoregressive model of order $p$.

    Args:
        order: $p$, the number of previous values.
        method: `"least_squares"` or `"yule_walker"`.
        fit_intercept: Whether to estimate $c$. Otherwise it is 0.

    Attributes:
        coefficients: $\phi_1, \ldots, \phi_p$, float64; None before `fit`.
        intercept: $c$.
        noise_variance: $\sigma^2$: for least squares the sum of the squared residuals
            divided by their number less the number of weights.

    Examples:
        >>> model = AutoRegression(1).fit([8.0, 4.0, 3.0, 1.0, 1.0])
        >>> model.coefficients.round(3), round(model.intercept, 3)
        (array([0.462]), 0.404)
        >>> model.forecast(2).mean.round(3)
        array([0.865, 0.803])
        >>> print(model)
        <AutoRegression: order=1, least_squares, coefficients [0.462]>
    """

    def __init__(
        self,
        order: int,
        method: str = "least_squares",
        *,
        fit_intercept: bool = True,
    ):
        self.order: int = whole_number("order", order, at_least=1)
        self.method: str = one_of("method", method, ["least_squares", "yule_walker"])
        if not isinstance(fit_intercept, bool):
            raise TypeError(
                f"`fit_intercept` must be a bool, received {fit_intercept!r}."
            )
        self.fit_intercept = fit_intercept
        self.coefficients: np.ndarray | None = None
        self.intercept: float = 0.0
        self.noise_variance: float = 0.0

    def fit(self, series: ArrayLike) -> "AutoRegression":
        """Estimates the coefficients, and stores the end of the series for forecasts.

        Args:
            series: Numbers in order of time, one row: for least squares at least
                2 `order` + 1 of them, and one more with an intercept; for Yule–Walker
                `order` + 1.

        Returns:
            The model itself. A second call replaces the first.

        Raises:
            ValueError: If the series is too short, not one row, constant, or has a
                value missing.
        """
        find, least = yule_walker, self.order + 1
        if self.method == "least_squares":  # more equations than weights
            find, least = least_squares, 2 * self.order + self.fit_intercept + 1
        x = numbers("series", series, least, f"{self.method} of order {self.order}")
        mean = x.mean() if self.fit_intercept else 0.0
        if not np.ptp(x) and (self.fit_intercept or not x[0]):
            raise ValueError(f"`series` must vary, but it is {x[0]} at every step.")
        phi, c, self.noise_variance = find(x - mean, self.order, self.fit_intercept)
        self.coefficients = phi
        self.intercept = float(c + mean * (1 - phi.sum()))
        self._history = x[-self.order :].copy()
        return self

    @property
    def roots(self) -> np.ndarray:
        r"""The roots of $z^p - \phi_1 z^{p-1} - \ldots - \phi_p$, complex, `(order,)`.

        The effect of a shock decays like the powers of the largest root.
        """
        polynomial = np.concatenate([[1.0], -self._fitted()])
        return np.roots(polynomial).astype(complex)

    @property
    def is_stationary(self) -> bool:
        """Whether all roots are inside the unit circle."""
        return bool((np.abs(self.roots) < 1).all())

    def residuals(self, series: ArrayLike) -> np.ndarray:
        """Computes the one-step-ahead prediction errors.

        Args:
            series: Numbers in order of time, at least `order` + 1.

        Returns:
            A float64 array of shape `(time - order,)`.
        """
        phi = self._fitted()
        x = numbers("series", series, self.order + 1, f"order {self.order}")
        return x[self.order :] - self.intercept - lags(x, self.order) @ phi

    def forecast(
        self, steps: int, *, level: float = 0.95, history: ArrayLike | None = None
    ) -> Forecast:
        """Forecasts the continuation of a series.

        Args:
            steps: Number of values to forecast.
            level: Coverage of the intervals, for normal noise and exact coefficients.
            history: The series to continue, at least `order` numbers. Defaults to the
                series of `fit`.

        Returns:
            The means and the intervals, as a `Forecast`.

        Raises:
            ValueError: If the history is too short, `level` is not between 0 and 1, or
                the forecast grows beyond what a float can hold.
        """
        steps = whole_number("steps", steps, at_least=1)
        phi, past = self._fitted(), self._past(history)
        if fraction("level", level) in (0, 1):
            raise ValueError(
                f"level must lie between 0 and 1, received {level}: try 0.95."
            )
        mean = simulate(phi, self.intercept, past, np.zeros(steps))
        # psi is the response to a unit shock.
        psi = simulate(phi, 0.0, np.zeros(self.order), np.eye(1, steps)[0])
        with np.errstate(over="ignore"):
            deviation = np.sqrt(self.noise_variance * np.cumsum(psi**2))
        half = NormalDist().inv_cdf((1 + level) / 2) * deviation
        check_growth(half)
        return Forecast(mean, mean - half, mean + half)

    def sample(
        self, length: int, *, history: ArrayLike | None = None, seed: Seed = None
    ) -> np.ndarray:
        """Samples a continuation of a series, with normal noise.

        Args:
            length: Number of values.
            history: The series to continue, at least `order` numbers. Defaults to the
                series of `fit`.
            seed: Random seed.

        Returns:
            A float64 array of shape `(length,)`.
        """
        length = whole_number("length", length, at_least=0)
        phi, past = self._fitted(), self._past(history)
        e = random_generator(seed).normal(0, np.sqrt(self.noise_variance), length)
        return simulate(phi, self.intercept, past, e)

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration and the fitted model as plain JSON."""
        fitted = self.coefficients is not None
        return {
            "order": self.order,
            "method": self.method,
            "fit_intercept": self.fit_intercept,
            "coefficients": self.coefficients.tolist() if fitted else None,
            "intercept": self.intercept,
            "noise_variance": self.noise_variance,
            "history": self._history.tolist() if fitted else None,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "AutoRegression":
        """Builds a model from the result of `get_config`.

        Raises:
            TypeError: If a value is not a number.
            ValueError: If a key is missing or unknown, or there are not `order`
                coefficients and values to go on with.
        """
        check(config, SCHEMA)
        model = cls(
            config["order"], config["method"], fit_intercept=config["fit_intercept"]
        )
        if config["coefficients"] is None:
            return model
        rows = [
            numbers(name, config[name], model.order, f"order {model.order}")
            for name in ("coefficients", "history")
        ]
        if any(len(row) != model.order for row in rows):
            raise ValueError(
                f"`coefficients` and `history` must have {model.order} numbers each."
            )
        model.coefficients, model._history = rows
        model.intercept = float(numbers("intercept", [config["intercept"]], 1, "")[0])
        model.noise_variance = zero_or_more("noise_variance", config["noise_variance"])
        return model

    def _past(self, history) -> np.ndarray:
        if history is None:
            return self._history
        what = f"order {self.order}"
        return numbers("history", history, self.order, what)[-self.order :]

    def _fitted(self) -> np.ndarray:
        if self.coefficients is None:
            raise ValueError("The model is not fitted. Call `fit(series)` first.")
        return self.coefficients

    def _check_fitted(self):
        self._fitted()

    def __repr__(self) -> str:
        known = "not fitted"
        if self.coefficients is not None:
            known = f"coefficients {self.coefficients.round(3).tolist()}"
        return f"<AutoRegression: order={self.order}, {self.method}, {known}>"


def least_squares(
    x: np.ndarray, p: int, with_intercept: bool
) -> tuple[np.ndarray, float, float]:
    """Returns φ, c and σ² by least squares.

    Args:
        x: The series, `(T,)`.
        p: The order.
        with_intercept: Whether to estimate c; otherwise it is 0.
    """
    ones = np.ones((len(x) - p, int(with_intercept)))
    table = np.hstack([lags(x, p), ones])  # (T - p, p + 1)
    weights = np.linalg.lstsq(table, x[p:], rcond=None)[0]
    errors = x[p:] - table @ weights
    variance = float(errors @ errors) / (len(table) - len(weights))
    return weights[:p], weights[p:].sum(), variance


def yule_walker(
    x: np.ndarray, p: int, with_intercept: bool
) -> tuple[np.ndarray, float, float]:
    """Returns φ, c = 0 and σ² by the Yule–Walker equations, for a centered series.

    The Levinson–Durbin recursion, from order m to m + 1. Each new coefficient kappa is
    between -1 and 1, so that the model is stationary in spite of rounding.
    """
    r = np.array([x[k:] @ x[: len(x) - k] for k in range(p + 1)]) / len(x)
    phi, variance = np.zeros(0), r[0]
    for m in range(p):
        kappa = (r[m + 1] - phi @ r[m:0:-1]) / variance
        phi = np.append(phi - kappa * phi[::-1], kappa)
        variance *= 1 - kappa**2
    return phi, 0.0, float(variance)


def lags(x: np.ndarray, p: int) -> np.ndarray:
    """Returns the p values before each step from p on, the latest first.

    Examples:
        >>> lags(np.array([1, 2, 3, 4]), 2)
        array([[2, 1],
               [3, 2]])
    """
    return np.lib.stride_tricks.sliding_window_view(x, p)[:-1, ::-1]


def simulate(phi: np.ndarray, c: float, past: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Computes the series for noise `e` of shape `(steps,)` after `past` of `(p,)`."""
    p = len(phi)
    x = np.concatenate([past, e])
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(p, len(x)):
            x[t] += c + phi[::-1] @ x[t - p : t]
    check_growth(x[p:])
    return x[p:]


def check_growth(values: np.ndarray) -> None:
    """Raises a `ValueError` if a value is not finite."""
    if not np.isfinite(values).all():
        step = int((~np.isfinite(values)).argmax()) + 1
        raise ValueError(
            f"Step {step} is too large for a float: the model is not stationary. Use "
            'fewer steps, or fit with method="yule_walker".'
        )


def numbers(name: str, values: ArrayLike, least: int, what: str) -> np.ndarray:
    """Returns values as a float64 array of at least `least` finite numbers."""
    try:
        array = np.asarray(values, "float64")
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be one row of numbers: {error}.") from error
    if array.ndim != 1:
        raise ValueError(
            f"`{name}` must be one row of numbers, received {array.shape}."
        )
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

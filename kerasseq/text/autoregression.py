r"""Autoregression: the next value of a series as a weighted sum of the last ones.

$$
x_t = c + \sum_{i=1}^{p} \phi_i x_{t-i} + e_t
$$

with noise $e_t$ of mean 0 and variance $\sigma^2$. `linear_prediction` finds $\phi$.

A forecast puts forecasts in place of what is not known yet. Its error $h$ steps ahead
is a sum of the noise in between, each weighted by what it has become by then:

$$
\operatorname{var}_h = \sigma^2 \sum_{j=0}^{h-1} \psi_j^2 \qquad
\psi_0 = 1,\quad \psi_j = \sum_{i=1}^{\min(p, j)} \phi_i\, \psi_{j-i}
$$

From: Yule, "On a Method of Investigating Periodicities in Disturbed Series", 1927;
Walker, "On Periodicity in Series of Related Terms", 1931; course C, "Auto-regressive
models". Left out: trends, seasons, several series at a time, the choice of the order,
and the uncertainty of $\phi$ itself, which a short series makes felt.
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import fraction, one_of, random_generator, whole_number
from kerasseq.core.schema import Maybe, check
from kerasseq.text.linear_prediction import (
    check_growth,
    go_on,
    lags,
    least_squares,
    numbers,
    yule_walker,
)
from kerasseq.text.probabilities import zero_or_more
from kerasseq.text.saved import Saved


class Forecast(NamedTuple):
    """What a model expects, and how far off it may be.

    Attributes:
        mean: float64 of shape `(steps,)`.
        lower: The lower ends of the intervals, `(steps,)`.
        upper: The upper ends, `(steps,)`.
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
    r"""Predict the next value of a series from the last $p$.

    Args:
        order: $p$, how many values back.
        method: `"least_squares"` or `"yule_walker"`.
        fit_intercept: Whether there is a $c$. Without it the series is taken to swing
            around zero.

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
        self.order = whole_number("order", order, at_least=1)
        self.method = one_of("method", method, ["least_squares", "yule_walker"])
        if not isinstance(fit_intercept, bool):
            raise TypeError(f"`fit_intercept` must be a bool, got {fit_intercept!r}.")
        self.fit_intercept = fit_intercept
        self.coefficients: np.ndarray | None = None
        self.intercept = 0.0
        self.noise_variance = 0.0

    def fit(self, series) -> "AutoRegression":
        """Learn the coefficients, and remember the end of the series for forecasts.

        Args:
            series: Numbers in order of time, one row: for least squares at least
                2 `order` + 1 of them, and one more with an intercept; for Yule–Walker
                `order` + 1.

        Returns:
            The model itself. A second `fit` replaces the first.

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
            raise ValueError(
                f"`series` is {x[0]} at every time: a constant leaves nothing to learn."
            )
        phi, c, self.noise_variance = find(x - mean, self.order, self.fit_intercept)
        self.coefficients = phi
        self.intercept = float(c + mean * (1 - phi.sum()))
        self._history = x[-self.order :].copy()
        return self

    @property
    def roots(self) -> np.ndarray:
        r"""The roots of $z^p - \phi_1 z^{p-1} - \ldots - \phi_p$, complex, `(order,)`.

        A shock fades as the powers of the largest of them grow smaller.
        """
        polynomial = np.concatenate([[1.0], -self._fitted()])
        return np.roots(polynomial).astype(complex)

    @property
    def is_stationary(self) -> bool:
        """Whether all roots are smaller than 1, so that the series settles."""
        return bool((np.abs(self.roots) < 1).all())

    def residuals(self, series) -> np.ndarray:
        """Return what the model did not foresee, one step ahead at each time.

        Args:
            series: Numbers in order of time, at least `order` + 1.

        Returns:
            A float64 array of shape `(time - order,)`: none for the first `order`.
        """
        phi = self._fitted()
        x = numbers("series", series, self.order + 1, f"order {self.order}")
        return x[self.order :] - self.intercept - lags(x, self.order) @ phi

    def forecast(self, steps: int, *, level: float = 0.95, history=None) -> Forecast:
        """Go on with a series.

        Args:
            steps: How many values to forecast.
            level: How many of the true values the intervals are to hold, if the noise
                is normal and the coefficients are right.
            history: The series to go on with, at least `order` numbers. The default is
                the fitted one.

        Returns:
            The means and the intervals, as a `Forecast`.

        Raises:
            ValueError: If the history is too short, `level` is not between 0 and 1, or
                the forecast grows beyond what a float can hold.
        """
        steps = whole_number("steps", steps, at_least=1)
        phi, past = self._fitted(), self._past(history)
        if fraction("level", level) in (0, 1):
            raise ValueError(f"level must lie between 0 and 1, got {level}: try 0.95.")
        mean = go_on(phi, self.intercept, past, np.zeros(steps))
        # psi is what one shock of size 1 becomes where nothing else happens.
        psi = go_on(phi, 0.0, np.zeros(self.order), np.eye(1, steps)[0])
        with np.errstate(over="ignore"):
            deviation = np.sqrt(self.noise_variance * np.cumsum(psi**2))
        half = NormalDist().inv_cdf((1 + level) / 2) * deviation
        check_growth(half)
        return Forecast(mean, mean - half, mean + half)

    def sample(self, length: int, *, history=None, seed=None) -> np.ndarray:
        """Make up one of the ways a series may go on, with normal noise.

        Args:
            length: How many values.
            history: The series to go on with, at least `order` numbers. The default is
                the fitted one.
            seed: Seed of the noise.

        Returns:
            A float64 array of shape `(length,)`.
        """
        length = whole_number("length", length, at_least=0)
        phi, past = self._fitted(), self._past(history)
        e = random_generator(seed).normal(0, np.sqrt(self.noise_variance), length)
        return go_on(phi, self.intercept, past, e)

    def get_config(self) -> dict:
        """Return what `from_config` needs to build an equal model: plain JSON."""
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
    def from_config(cls, config: dict) -> "AutoRegression":
        """Build a model from what `get_config` gave.

        Raises:
            TypeError: If a number is none.
            ValueError: If a key is missing or strange, or there are not `order`
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
            raise ValueError("The model has learned nothing yet: call `fit(series)`.")
        return self.coefficients

    def _check_fitted(self):
        self._fitted()

    def __repr__(self):
        known = "not fitted"
        if self.coefficients is not None:
            known = f"coefficients {self.coefficients.round(3).tolist()}"
        return f"<AutoRegression: order={self.order}, {self.method}, {known}>"

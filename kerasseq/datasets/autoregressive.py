r"""Autoregressive processes: series whose best forecasts are known.

$$
x_t = \sum_{i=1}^{p} a_i\, x_{t-i} + e_t \qquad e_t \sim \mathcal N(0, \sigma^2)
$$

Written as a sum of the noise so far, $x_t = \sum_j \psi_j e_{t-j}$ with $\psi_0 = 1$
and $\psi_j = \sum_i a_i \psi_{j-i}$. A forecast of $x_{T+h}$ from the values up to
$x_T$ cannot know the last h terms. So no forecast has a smaller mean squared error than

$$\mathrm{MSE}(h) = \sigma^2 \sum_{j=0}^{h-1} \psi_j^2$$

which is the variance of the noise one step ahead, and tends to that of the series.
Box and Jenkins, "Time Series Analysis", 1970, chapter 5.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core import checks

MOST_BURN_IN = 100_000  # steps


class AutoregressiveProcess:
    r"""An autoregressive process with normal noise, in its stationary state.

    Args:
        coefficients: $a_1, a_2, \ldots$
        noise: σ, the standard deviation of the noise.

    Attributes:
        coefficients: $a_1 \ldots a_p$, float64.
        noise: σ.
        optimum: The least mean squared error of a forecast of the next value, σ².

    Raises:
        TypeError: If the noise is not a number.
        ValueError: If the coefficients are not stationary, or the noise is negative.

    Examples:
        >>> process = AutoregressiveProcess([0.9], noise=2.0)
        >>> process.optimum, process.least_errors(3).round(3)
        (4.0, array([4.   , 7.24 , 9.864]))

    References:
        Box and Jenkins 1970.
    """

    def __init__(
        self, coefficients: Sequence[float] | np.ndarray, noise: float = 1.0
    ) -> None:
        self.coefficients: np.ndarray = _row(coefficients)
        checks.number("noise", noise)
        if not (noise >= 0 and math.isfinite(noise)):
            raise ValueError(
                f"`noise` must be zero or a positive number, received {noise}."
            )
        self.noise: float = float(noise)
        self.optimum: float = self.noise**2
        polynomial = np.concatenate([[1.0], -self.coefficients])
        sizes = np.abs(np.roots(polynomial))
        self._slowest = float(sizes.max(initial=0.0))
        if self._slowest >= 1:
            shown = ", ".join(f"{size:.3f}" for size in sizes)
            raise ValueError(
                f"`coefficients` {tuple(self.coefficients.tolist())} make a series "
                f"that does not settle: the roots of its polynomial have sizes "
                f"{shown}, and all must be below 1."
            )

    def least_errors(self, horizon: int) -> np.ndarray:
        """Returns the least mean squared error of a forecast, by steps ahead.

        Args:
            horizon: Number of steps.

        Returns:
            An array `(horizon,)`, in the unit of the values, squared.

        Raises:
            TypeError: If the horizon is not a whole number.
            ValueError: If it is below 1.
        """
        h, a = checks.whole_number("horizon", horizon), self.coefficients
        checks.fits_memory("horizon", h, bytes_each=8)
        psi = np.zeros(h)
        psi[0] = 1.0
        for j in range(1, h):
            before = psi[max(0, j - len(a)) : j][::-1]
            psi[j] = a[: len(before)] @ before
        return self.optimum * np.cumsum(psi**2)

    def sample(self, length: int, *, seed: int | None = 0) -> np.ndarray:
        """Draws a series.

        Args:
            length: Number of values.
            seed: Seed of the noise.

        Returns:
            A float64 array `(length,)`.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If the length is below 1.
        """
        length = checks.whole_number("length", length)
        checks.fits_memory("length", length, bytes_each=8)
        a = self.coefficients
        # Until the effect of the initial zeros is below one part in a million.
        burn_in = 100 + math.ceil(math.log(1e-6) / math.log(max(self._slowest, 0.5)))
        burn_in = min(burn_in, MOST_BURN_IN)
        rng = checks.random_generator(seed)
        shocks = rng.normal(0.0, self.noise, burn_in + length).tolist()
        weights = a[::-1].tolist()
        x = [0.0] * len(a)
        for shock in shocks:
            past = x[-len(a) :]
            x.append(sum(w * p for w, p in zip(weights, past, strict=True)) + shock)
        return np.array(x[-length:])

    def forecast(self, x: ArrayLike, horizon: int) -> np.ndarray:
        """Computes the best forecasts: the expectation given the values so far.

        Args:
            x: Windows `(N, T)`, or `(N, T, 1)` as from `windows`, with at least as many
                steps as there are coefficients.
            horizon: Number of steps.

        Returns:
            A float64 array `(N, horizon)`.

        Raises:
            TypeError: If `x` are not numbers, or the horizon is not a whole number.
            ValueError: If `x` has another shape, or too few steps.

        Examples:
            >>> AutoregressiveProcess([0.5, 0.2]).forecast([[1.0, 2.0]], 2).round(3)
            array([[1.2, 1. ]])
        """
        h, p = checks.whole_number("horizon", horizon), len(self.coefficients)
        try:
            values = np.asarray(x, "float64")
        except (TypeError, ValueError) as error:
            raise TypeError(f"x must be numbers, received {checks.short(x)}") from error
        if values.ndim == 3 and values.shape[-1] == 1:
            values = values[..., 0]
        if values.ndim != 2 or values.shape[1] < p:
            raise ValueError(
                f"x must have the shape (N, T) or (N, T, 1) with at least {p} steps, "
                f"one for each coefficient, received the shape {np.shape(x)}"
            )
        checks.fits_memory("horizon", h, max(1, len(values)), bytes_each=8)
        known = np.concatenate([values, np.zeros((len(values), h))], axis=1)
        for t in range(values.shape[1], known.shape[1]):
            known[:, t] = known[:, t - p : t] @ self.coefficients[::-1]
        return known[:, values.shape[1] :]

    def __repr__(self) -> str:
        a = tuple(self.coefficients.tolist())
        return f"<AutoregressiveProcess {a}, noise {self.noise:g}>"


def _row(coefficients):
    try:
        a = np.asarray(coefficients, "float64")
    except (TypeError, ValueError):
        a = np.empty(0)
    if a.ndim != 1 or not len(a) or not np.isfinite(a).all():
        raise ValueError(
            "`coefficients` must be a row of numbers such as (0.6, -0.3), received "
            f"{coefficients!r}."
        )
    return a

r"""A power law of the loss by the size of models, with an interval of its exponent.

$$
L(N) = A\,N^{-\alpha} + E
$$

$N$ is the number of weights, $E$ what no model can go below: the entropy of the source.
With $E$ given, $\log (L - E)$ is a line in $\log N$, whose slope is $-\alpha$. With $E$
free the fit takes the one whose line is nearest to the losses; from few sizes that are
close to each other, nearly any E fits, as its interval then says.

The interval is a bootstrap over seeds: the losses of each size are drawn again, with
replacement. A law holds for models that are trained until they gain no more; at equal
steps a wide model may be further trained than a narrow one, or less. Kaplan et al. 2020
("Scaling laws for neural language models"); Hoffmann et al. 2022. Course slides D.
"""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core import checks
from kerasseq.core.measured import by_size

FLOORS = 200  # values of E that are tried, from 0 to just below the least loss


@dataclasses.dataclass(frozen=True)
class PowerLaw:
    """A fitted power law.

    Attributes:
        factor: A.
        exponent: α.
        floor: E.
        exponents: The interval of α of 95 %.
        floors: That of E; twice the same if E was given.
        residual: The root of the mean square of the differences in log L.
    """

    factor: float
    exponent: float
    floor: float
    exponents: tuple[float, float]
    floors: tuple[float, float]
    residual: float

    def predict(self, size: ArrayLike) -> np.ndarray:
        """Computes the loss of models of these sizes.

        Args:
            size: N, a number or an array.

        Examples:
            >>> law = power_law([10, 100, 1000], [3.0, 2.0, 1.5], floor=1.0)
            >>> float(law.predict(10_000).round(2))
            1.25
        """
        N = np.asarray(size, "float64")
        return self.factor * N**-self.exponent + self.floor


def power_law(
    sizes: ArrayLike,
    losses: ArrayLike,
    *,
    floor: float | None = 0.0,
    samples: int = 1000,
    seed: int = 0,
) -> PowerLaw:
    """Fits the losses of models of several sizes.

    Args:
        sizes: N of each model, `(M,)`, at least two different ones, three if E is free.
        losses: The loss of each, `(M,)`, or `(M, seeds)`.
        floor: E, below all losses; None to fit it as well.
        samples: How often losses are drawn again for the intervals.
        seed: Seed of these draws.

    Returns:
        A `PowerLaw`. With one seed the intervals are points.

    Raises:
        ValueError: If the shapes do not match, a number is not positive, there are too
            few sizes, or a loss is not above the floor.

    Examples:
        >>> N = np.array([100, 1000, 10_000, 100_000])
        >>> law = power_law(N, 5 * N**-0.1 + 1.5, floor=1.5)
        >>> round(law.factor, 3), round(law.exponent, 3)
        (5.0, 0.1)
        >>> law = power_law(N, 5 * N**-0.1 + 1.5, floor=None)
        >>> round(law.exponent, 2), round(law.floor, 2)
        (0.1, 1.5)

    References:
        Slides D: "there seems to be no limit".
    """
    N, L = _checked(sizes, losses, floor)
    factor, exponent, least, residual = _fit(N, L, floor)
    rng = np.random.default_rng(checks.seed("seed", seed))
    drawn = []
    for _ in range(checks.whole_number("samples", samples)):
        columns = rng.integers(L.shape[1], size=L.shape)
        drawn.append(_fit(N, np.take_along_axis(L, columns, axis=1), floor)[1:3])
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return PowerLaw(
        factor,
        exponent,
        least,
        exponents=(float(low[0]), float(high[0])),
        floors=(float(low[1]), float(high[1])),
        residual=residual,
    )


def _checked(sizes, losses, floor):
    N, L = by_size("losses", sizes, losses)
    if not (np.isfinite(L) & (L > 0)).all():
        raise ValueError(f"losses must be positive numbers, received {L}")
    needed = 2 if floor is not None else 3
    if len(np.unique(N)) < needed:
        raise ValueError(
            f"sizes must have at least {needed} different numbers, received {N}"
        )
    if floor is not None and not 0 <= checks.finite("floor", floor) < L.min():
        raise ValueError(
            f"floor must be in 0..{L.min():.4g}, below all losses, received {floor}"
        )
    return N, L


def _fit(N: np.ndarray, L: np.ndarray, floor: float | None) -> tuple[float, ...]:
    """Returns a, α, E, and the root of the mean square in log L, over all seeds."""
    if floor is not None:
        return _best_line(N, L, np.array([floor]))
    below = np.linspace(0, L.min(), FLOORS, endpoint=False)
    near, width = _best_line(N, L, below)[2], L.min() / FLOORS
    # And once more, between the two beside the best.
    ends = max(0.0, near - width), min(near + width, L.min())
    return _best_line(N, L, np.linspace(*ends, FLOORS, endpoint=False))


def _best_line(N: np.ndarray, L: np.ndarray, E: np.ndarray) -> tuple[float, ...]:
    """Fits lines of log (L - E) in log N for each E; returns the nearest to L."""
    x = np.repeat(np.log(N), L.shape[1])
    y = np.log(L.ravel() - E[:, None])  # a row for each E
    x_mean, y_mean = x.mean(), y.mean(axis=1, keepdims=True)
    slope = (y - y_mean) @ (x - x_mean) / ((x - x_mean) @ (x - x_mean))
    A = np.exp(y_mean[:, 0] - slope * x_mean)
    predicted = A[:, None] * np.exp(slope[:, None] * x) + E[:, None]
    off = np.sqrt(np.mean((np.log(predicted) - np.log(L.ravel())) ** 2, axis=1))
    k = int(np.argmin(off))
    return float(A[k]), float(-slope[k]), float(E[k]), float(off[k])

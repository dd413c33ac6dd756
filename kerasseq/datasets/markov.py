r"""Sequences from a Markov source, for which the loss of the best model is known.

The next symbol depends on the `order` symbols before it alone:

$$
p(x_t = k \mid x_{t-1}, x_{t-2}, \dots) = P_{ck} \qquad c = (x_{t-m}, \dots, x_{t-1})
$$

No model of the next symbol can be better than the source itself, whose mean loss is its
entropy rate, with the stationary probability $\pi_c$ of a context:

$$
H = - \sum_c \pi_c \sum_k P_{ck} \log_2 P_{ck}
$$

Shannon 1948.
"""

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core import checks

SETTLED = 1e-15  # change of the stationary probabilities at which they are taken
STEPS = 10_000  # at most, until the probabilities are stationary
STEEPEST = 5  # of Zipf's law: at it 0.96 of all symbols are one


class MarkovSource:
    """A source of symbols 0 to K - 1 whose probabilities are known.

    Args:
        probabilities: $P$, of shape `(K, ..., K)`: one axis for each symbol of the
            context, the earliest first, and one for the next symbol. All are above 0,
            and those of a context sum to 1.

    Attributes:
        probabilities: $P$, float64.
        stationary: How frequent each context is, `(K, ..., K)` of `order` axes.
        optimum: The entropy rate H in bits a token, the least mean loss.

    Raises:
        ValueError: If the shape is another one, these are no probabilities, or the
            source hardly ever forgets where it started.

    Examples:
        >>> fair = MarkovSource([[0.5, 0.5], [0.5, 0.5]])
        >>> fair.order, fair.optimum
        (1, 1.0)
    """

    def __init__(self, probabilities: ArrayLike) -> None:
        self.probabilities: np.ndarray = _checked(probabilities)
        self.stationary: np.ndarray = _stationary(self.probabilities)
        P = self.probabilities
        of_context = -np.sum(P * np.log2(P), axis=-1)
        self.optimum: float = float(np.sum(self.stationary * of_context))

    @property
    def order(self) -> int:
        """The number of symbols that the next one depends on."""
        return self.probabilities.ndim - 1

    @property
    def symbols(self) -> int:
        """K, the number of symbols."""
        return self.probabilities.shape[-1]

    def sample(self, count: int, length: int, *, seed: int | None = 0) -> np.ndarray:
        """Samples sequences, each from the stationary state on.

        Args:
            count: Number of sequences.
            length: Symbols of each, at least one more than a context.
            seed: Random seed.

        Returns:
            int32 `(count, length)`.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If a number is too small.

        Examples:
            >>> markov_source(3, order=1).sample(2, 5).shape
            (2, 5)
        """
        count = checks.whole_number("count", count, at_least=0)
        length = checks.whole_number("length", length, at_least=self.order + 1)
        checks.fits_memory("count", count, self.symbols, bytes_each=8)
        checks.fits_memory("length", length, count)
        rng, shape = checks.random_generator(seed), self.stationary.shape
        ids = np.zeros((count, length), "int32")
        contexts = _drawn(rng, np.tile(np.cumsum(self.stationary), (count, 1)))
        ids[:, : self.order] = np.stack(np.unravel_index(contexts, shape), axis=1)
        P = np.cumsum(self.probabilities, axis=-1)
        for t in range(self.order, length):
            context = tuple(ids[:, t - self.order : t].T)
            ids[:, t] = _drawn(rng, P[context])
        return ids

    def bits(self, ids: ArrayLike) -> np.ndarray:
        r"""Computes $-\log_2 p$ of each symbol after the first, given those before it.

        Before a whole context is known, p is the mean over the contexts that are
        possible. So these are the losses of the best model, token by token.

        Args:
            ids: Sequences `(count, T)`.

        Returns:
            float64 `(count, T - 1)`.

        Raises:
            TypeError: If the ids are not whole numbers.
            ValueError: If the shape is another one, or an id is out of range.

        Examples:
            >>> MarkovSource([[0.5, 0.5], [0.25, 0.75]]).bits([[0, 1, 0]])
            array([[1., 2.]])
        """
        ids = self._checked_ids(ids)
        of_symbols = np.zeros((len(ids), ids.shape[1] - 1))
        for t in range(1, ids.shape[1]):
            seen = min(t, self.order)
            p = self._after(seen)
            of_symbols[:, t - 1] = -np.log2(p[tuple(ids[:, t - seen : t + 1].T)])
        return of_symbols

    def _after(self, seen):
        """Returns the probabilities of a symbol, given the `seen` symbols before it."""
        if seen == self.order:
            return self.probabilities
        joint = self.stationary.sum(axis=tuple(range(seen + 1, self.order)))
        return joint / joint.sum(axis=-1, keepdims=True)

    def _checked_ids(self, ids):
        try:
            array = np.asarray(ids)
        except ValueError:  # rows of different lengths
            array = np.zeros(0)
        if array.ndim != 2 or not array.shape[1]:
            raise ValueError(
                "ids must have the shape (count, T), received "
                f"{checks.short(ids)} of the shape {np.shape(array)}"
            )
        if array.dtype.kind not in "iu":
            raise TypeError(f"ids must be whole numbers, received {checks.short(ids)}")
        if array.size and not 0 <= array.min() <= array.max() < self.symbols:
            raise ValueError(
                f"ids must be from 0 to {self.symbols - 1}, received {array.min()} to "
                f"{array.max()}"
            )
        return array

    def __repr__(self) -> str:
        return (
            f"<MarkovSource of {self.symbols} symbols and order {self.order}, "
            f"{self.optimum:.4f} bits a token>"
        )


def markov_source(
    symbols: int = 5,
    order: int = 2,
    *,
    concentration: float = 0.4,
    least: float = 0.006,
    zipf: float = 0.0,
    seed: int | None = 0,
) -> MarkovSource:
    """Draws a source whose best loss is known.

    The probabilities after each context are a draw from a Dirichlet distribution, mixed
    with a uniform one. With `zipf` its mean falls with the symbol's number as in Zipf's
    law, so that a few contexts are frequent and most are rare.

    Args:
        symbols: K.
        order: The number of symbols that the next one depends on.
        concentration: That of the Dirichlet distribution. Below 1, few symbols are
            probable after a context; the larger, the more alike all are.
        least: The least probability, above 0 and below 1 / K.
        zipf: s of the mean probability of symbol k, $1 / (k + 1)^s$ of their sum; 0 for
            equal ones.
        seed: Random seed.

    Returns:
        The source, as a `MarkovSource`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a number is out of range, or the table is too large for memory.

    Examples:
        >>> source = markov_source(seed=3)
        >>> source.probabilities.shape, round(source.optimum, 3)
        ((5, 5, 5), 1.48)
        >>> ids = source.sample(1000, 33)
        >>> abs(source.bits(ids)[:, 1:].mean() - source.optimum) < 0.02
        np.True_
    """
    K = checks.whole_number("symbols", symbols, at_least=2)
    order = checks.whole_number("order", order)
    checks.fits_memory("order", K, K**order, bytes_each=64)
    a, least = (
        checks.positive("concentration", concentration),
        checks.positive("least", least),
    )
    if least * K >= 1:
        raise ValueError(
            f"least must be below 1 / symbols = {1 / K:.4g}, received {least}"
        )
    s = checks.finite("zipf", zipf)
    if not 0 <= s <= STEEPEST:
        raise ValueError(f"zipf must be from 0 to {STEEPEST}, received {zipf}")
    rng = checks.random_generator(seed)
    mean = np.arange(1, K + 1) ** -s
    P = rng.dirichlet(a * mean / mean.mean(), size=(K,) * order)
    return MarkovSource(P * (1 - K * least) + least)


def _drawn(rng, cumulative):
    """Draws an index of each row of cumulative probabilities."""
    u = rng.random((len(cumulative), 1))
    index = np.sum(u > cumulative, axis=-1)
    return np.minimum(index, cumulative.shape[-1] - 1)  # a sum may be 1 - 1e-16


def _stationary(P):
    """Follows the probabilities of contexts until they no longer change."""
    order, K = P.ndim - 1, P.shape[-1]
    pi = np.full((K,) * order, 1 / K**order)
    for _ in range(STEPS):
        after = np.sum(pi[..., None] * P, axis=0)
        if np.abs(after - pi).max() <= SETTLED:
            return after / after.sum()
        pi = after
    raise ValueError(
        f"probabilities must forget the first context within {STEPS:,} symbols, "
        "received a table with some that are nearly 0 or 1. Choose less extreme ones"
    )


def _checked(probabilities):
    try:
        P = np.asarray(probabilities, "float64")
    except (TypeError, ValueError):  # rows of different lengths, or no numbers
        raise ValueError(
            "probabilities must be an array of numbers, (K, ..., K), received "
            f"{checks.short(probabilities)}"
        ) from None
    if P.ndim < 2 or len({*P.shape}) > 1 or P.shape[-1] < 2:
        raise ValueError(
            "probabilities must have the shape (K, ..., K) of a context and the next "
            f"symbol, K at least 2, received the shape {P.shape}"
        )
    if not (P > 0).all() or not np.allclose(P.sum(axis=-1), 1, atol=1e-9):
        at = int(np.argmin((P > 0).all(-1) & np.isclose(P.sum(-1), 1, atol=1e-9)))
        context = tuple(map(int, np.unravel_index(at, P.shape[:-1])))
        raise ValueError(
            "probabilities must be above 0 and sum to 1 after each context, received "
            f"{checks.short(P[context].tolist())} after {context}"
        )
    return P / P.sum(axis=-1, keepdims=True)

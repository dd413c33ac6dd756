"""Ratings of players from votes: Bradley and Terry's model, and Elo's online form.

Left out: the rating of Elo with a `k` that depends on the number of games.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np

from kerasseq.core import checks
from kerasseq.core.table import Table
from kerasseq.core.types import FilePath
from kerasseq.training.votes import Row, Vote, read_votes

ELO_SCALE = 400 / math.log(10)  # points of Elo in a unit of the natural logarithm
ELO_MEAN = 1000  # of all players: only differences have a meaning
QUANTILES = (0.025, 0.975)  # of an interval of 95 %
PART = 2**20  # numbers of the matrices that are computed at a time
SMALLEST = 1e-3  # a prior that Newton's method can tell from 0
CONVERGED = 1e-9  # the next step of Newton's method would be its square
STEPS = 100  # more than the largest difference of two ratings


@dataclasses.dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings of players, best first. `print` and notebooks show them as a table.

    Attributes:
        players: The names of the players.
        values: The ratings as natural logarithms, with mean 0, `(players,)`.
        interval: The bounds of the confidence interval of 95 %, `(players, 2)`.
        votes: The number of votes about each player, `(players,)`.
    """

    players: list[str]
    values: np.ndarray
    interval: np.ndarray
    votes: np.ndarray

    @property
    def elo(self) -> np.ndarray:
        """The ratings on Elo's scale, with mean 1000: 400 points are odds of 10."""
        return ELO_MEAN + ELO_SCALE * self.values

    def __str__(self) -> str:
        return str(self._table())

    def _repr_html_(self) -> str:
        return self._table().html()

    def _table(self):
        columns = (self.players, self.values, self.interval, self.elo, self.votes)
        rows = [
            (
                name,
                f"{value:z.2f}",
                f"{low:z.2f} to {high:z.2f}",
                f"{elo:.0f}",
                f"{n:,}",
            )
            for name, value, (low, high), elo, n in zip(*columns, strict=True)
        ]
        return Table(rows, ("", "rating", "95 %", "Elo", "votes"))


def ratings(
    votes: FilePath | Iterable[Row],
    *,
    prior: float = 0.0,
    samples: int = 1000,
    seed: int | None = 0,
) -> Ratings:
    r"""Computes the ratings of Bradley and Terry by maximum likelihood.

    $$P(i \text{ wins against } j) = \sigma(r_i - r_j), \qquad
    r = \arg\max_r \sum_{i,j} w_{ij} \ln \sigma(r_i - r_j), \quad \sum_i r_i = 0$$

    where $w_{ij}$ counts the votes for i against j; a tie counts half for each. It is
    logistic regression, and the order of the votes is of no importance. The intervals
    are those between the quantiles 0.025 and 0.975 of the ratings on bootstrap samples:
    as many votes, drawn with replacement.

    If some players never lost to the others, or were never compared with them, the
    ratings of maximum likelihood are infinite: this is an error, unless `prior` is
    above 0. A bootstrap sample of this kind is computed with a `prior` of 1.

    Args:
        votes: Rows `(winner, loser)`; or `(first, second, score)` with the score of the
            first: 1, 0, or 0.5 for a tie; or dictionaries with the keys
            "chosen_model", "rejected_model" and, if it is one, "tie": True. Or the path
            of a file of such dictionaries as JSON lines, as `kerasseq arena` writes it.
        prior: Number of ties that are added between each two players, 0 or at least
            0.001. They draw the ratings together, and make them finite.
        samples: Number of bootstrap samples.
        seed: Random seed of the samples.

    Returns:
        A `Ratings`.

    Raises:
        FileNotFoundError: If there is no such file.
        TypeError: If an argument or a row of the votes has the wrong type.
        ValueError: If there are no votes, a row is not a vote, an argument is out of
            range, or the ratings are infinite.

    Examples:
        >>> votes = [("gpt", "lstm"), ("gpt", "lstm"), ("lstm", "gpt"), ("gpt", "gru")]
        >>> rated = ratings([*votes, ("lstm", "gru"), ("gru", "lstm", 0.5)], prior=1)
        >>> print(rated)
              rating           95 %   Elo  votes
        gpt     0.55  -0.35 to 1.27  1095      4
        lstm    0.06  -0.74 to 0.78  1010      5
        gru    -0.61  -1.15 to 0.00   895      3

    References:
        Zermelo 1929; Bradley and Terry 1952; Chiang et al. 2024.
    """
    read = read_votes(votes)
    if checks.finite("prior", prior) != 0 and prior < SMALLEST:
        raise ValueError(f"prior must be 0 or at least {SMALLEST}, received {prior}")
    samples = checks.whole_number("samples", samples)
    rng = checks.random_generator(seed)
    players = sorted({name for vote in read for name in vote[:2]})
    checks.fits_memory("samples", samples, len(players), 8)
    counts = _counts(read, players)
    scores = _scores(counts, prior)
    _check_finite(scores, players)
    values = _maximize(scores[None])[0]
    drawn = _bootstrap(counts, values, prior, samples, rng)
    interval = np.quantile(drawn, QUANTILES, axis=0).T
    order = np.argsort(-values, kind="stable")
    number = (counts.sum(axis=0) + counts.sum(axis=0).T).sum(axis=1)
    return Ratings(
        [players[n] for n in order], values[order], interval[order], number[order]
    )


def elo(
    votes: FilePath | Iterable[Row], *, k: float = 32.0, start: float = 1000.0
) -> dict[str, float]:
    r"""Computes ratings vote by vote, as Elo did for chess.

    $$R_i \leftarrow R_i + k \left(s - \frac{1}{1 + 10^{(R_j - R_i) / 400}}\right)$$

    with the score s of player i: 1, 0, or 0.5 for a tie; j loses what i gains. It is a
    step of gradient ascent for the likelihood of `ratings`. So the last votes count
    most, and other orders of the same votes give other ratings.

    Args:
        votes: The votes in their order, as for `ratings`.
        k: The most points that a vote can change.
        start: The rating of each player before its first vote.

    Returns:
        The rating of each player, best first.

    Raises:
        FileNotFoundError: If there is no such file.
        TypeError: If an argument or a row of the votes has the wrong type.
        ValueError: If there are no votes, a row is not a vote, or an argument is out of
            range.

    Examples:
        >>> elo([("gpt", "lstm"), ("lstm", "gpt")])
        {'lstm': 1001.4..., 'gpt': 998.5...}
        >>> elo([("lstm", "gpt"), ("gpt", "lstm")])
        {'gpt': 1001.4..., 'lstm': 998.5...}

    References:
        Elo 1978.
    """
    k, start = checks.positive("k", k), checks.finite("start", start)
    table: dict[str, float] = {}
    for first, second, score in read_votes(votes):
        ahead = table.setdefault(first, start) - table.setdefault(second, start)
        # The logistic function, in a form that does not overflow.
        expected = (1 + math.tanh(ahead / ELO_SCALE / 2)) / 2
        table[first] += k * (score - expected)
        table[second] -= k * (score - expected)
    return dict(sorted(table.items(), key=lambda item: (-item[1], item[0])))


def _counts(votes: Sequence[Vote], players: Sequence[str]) -> np.ndarray:
    """Counts wins of row against column, and ties above the diagonal: `(2, P, P)`."""
    index = {name: n for n, name in enumerate(players)}
    counts = np.zeros((2, len(players), len(players)), int)
    for first, second, score in votes:
        i, j = index[first], index[second]
        if score == 0.5:
            counts[1, min(i, j), max(i, j)] += 1
        elif score:
            counts[0, i, j] += 1
        else:
            counts[0, j, i] += 1
    return counts


def _scores(counts, prior):
    """Returns scores `(…, P, P)` of row against column for counts `(…, 2, P, P)`."""
    wins, ties = counts[..., 0, :, :], counts[..., 1, :, :]
    pairs = 1 - np.eye(counts.shape[-1])
    return wins + (ties + ties.swapaxes(-1, -2) + prior * pairs) / 2


def _maximize(scores: np.ndarray, start: np.ndarray | float = 0.0) -> np.ndarray:
    """Maximizes the likelihood by Newton's method.

    Args:
        scores: Score of row against column, `(B, P, P)`, whose ratings are finite.
        start: Where to start, `(P,)`, with mean 0.

    Returns:
        Ratings `(B, P)`.
    """
    games = scores + scores.swapaxes(1, 2)
    r = np.zeros(scores.shape[:2]) + start
    diagonal = np.arange(r.shape[1])
    for _ in range(STEPS):
        win = np.exp(-np.logaddexp(0, r[:, None, :] - r[:, :, None]))  # (B, P, P)
        gradient = (scores - games * win).sum(axis=2)
        weights = games * win * win.swapaxes(1, 2)
        # Ones, as ratings are determined up to a constant; the gradient has mean 0.
        hessian = 1 - weights
        hessian[:, diagonal, diagonal] += weights.sum(axis=2)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        # The third derivative of ln σ is at most the second. So a step that changes the
        # differences of players who met by at most 1 increases the likelihood.
        change = np.abs(step[:, :, None] - step[:, None, :]) * (games > 0)
        r += step / np.maximum(1, change.max(axis=(1, 2)))[:, None]
        if np.abs(step).max() < CONVERGED:
            break
    return r - r.mean(axis=1, keepdims=True)


def _bootstrap(counts, start, prior, samples, rng):
    """Returns the ratings on samples of the votes, `(samples, P)`."""
    flat = counts.ravel()
    occurring, total = np.flatnonzero(flat), flat.sum()
    part = max(1, PART // flat.size)
    values = []
    for first in range(0, samples, part):
        drawn = np.zeros((min(part, samples - first), flat.size))
        chances = flat[occurring] / total
        drawn[:, occurring] = rng.multinomial(total, chances, len(drawn))
        drawn = drawn.reshape(-1, *counts.shape)
        scores = _scores(drawn, prior)
        infinite = ~_reached(scores).all(axis=(1, 2))
        scores[infinite] = _scores(drawn[infinite], 1)
        values.append(_maximize(scores, start))
    return np.concatenate(values)


def _reached(scores):
    """Returns whether a chain of wins leads from row to column, `(…, P, P)`.

    The ratings are finite if one leads from each player to each other.
    """
    players = scores.shape[-1]
    reached = (scores > 0) | np.eye(players, dtype=bool)
    for _ in range(math.ceil(math.log2(players))):
        reached = reached.astype("float32") @ reached > 0
    return reached


def _check_finite(scores, players):
    """Raises unless each player is reached by a chain of wins from each other."""
    reached = _reached(scores)
    if reached.all():
        return
    # The smallest groups that no chain of wins enters, or leaves.
    group, what = min(reached.T, key=np.count_nonzero), "never lost to"
    below = min(reached, key=np.count_nonzero)
    if below.sum() < group.sum():
        group, what = below, "never won against"
    between = np.logical_xor.outer(group, group)
    if not scores[between].any():
        what = "never met"
    names = [players[n] for n in np.flatnonzero(group)]
    shown = ", ".join(names[:5]) + ", …" * (len(names) > 5)
    raise ValueError(
        "`votes` must connect all players by wins in both directions, received votes "
        f"in which {shown} {what} the others: the ratings would be infinite. Collect "
        "more votes, or pass prior=1, which adds a tie between each two players."
    )

r"""The four recursions of a hidden Markov model, in logarithms, on plain arrays.

With $S$ states, $\pi_i$ the probability to start in state $i$, $A_{ij}$ to go from $i$
to $j$, and $b_j(t)$ to see in state $j$ what was seen at time $t$:

$$
\alpha_1(j) = \pi_j\, b_j(1) \qquad
\alpha_t(j) = b_j(t) \sum_i \alpha_{t-1}(i)\, A_{ij}
$$
$$
\beta_T(i) = 1 \qquad
\beta_t(i) = \sum_j A_{ij}\, b_j(t+1)\, \beta_{t+1}(j)
$$
$$
\delta_1(j) = \pi_j\, b_j(1) \qquad
\delta_t(j) = b_j(t) \max_i \delta_{t-1}(i)\, A_{ij}
$$
$$
\xi_t(i, j) \propto \alpha_t(i)\, A_{ij}\, b_j(t+1)\, \beta_{t+1}(j)
$$

Products of many probabilities are too small for a float, their logarithms are not; a
sum becomes `logaddexp`, which also knows that log 0 + log 0 stays $-\infty$.

From: Rabiner, "A Tutorial on Hidden Markov Models and Selected Applications in Speech
Recognition", 1989. Left out: his scaling, which the logarithms make unnecessary.
"""

from typing import NamedTuple

import numpy as np

BLOCK = 2**20  # elements of xi that are in memory at the same time


class Path(NamedTuple):
    """The best explanation of a sequence.

    Attributes:
        states: int32 of shape `(time,)`.
        log_probability: Natural log of the probability of these states together with
            the sequence.
    """

    states: np.ndarray
    log_probability: float


def log_sum(x: np.ndarray, axis: int) -> np.ndarray:
    """Return log Σ exp(x) along an axis, without overflow; all `-inf` gives `-inf`.

    Examples:
        >>> log_sum(np.log([[0.25, 0.5], [0.25, 0.5]]), axis=0).round(3)
        array([-0.693,  0.   ])
        >>> log_sum(np.array([-np.inf, -np.inf]), axis=0)
        np.float64(-inf)
    """
    return np.logaddexp.reduce(x, axis=axis)


def forward(log_pi, log_A, log_b) -> np.ndarray:
    """Return log α: of seeing all up to time t and being in state j then.

    Args:
        log_pi: `(S,)`.
        log_A: `(S, S)`, from row to column.
        log_b: `(T, S)`: what was seen at time t, seen from state j.

    Returns:
        A float64 array of shape `(T, S)`.
    """
    alpha = np.empty_like(log_b)
    alpha[0] = log_pi + log_b[0]
    for t in range(1, len(log_b)):
        alpha[t] = log_sum(alpha[t - 1][:, None] + log_A, axis=0) + log_b[t]
    return alpha


def backward(log_A, log_b) -> np.ndarray:
    """Return log β: of seeing all after time t from state i.

    Args:
        log_A: `(S, S)`, from row to column.
        log_b: `(T, S)`.

    Returns:
        A float64 array of shape `(T, S)`, zero at the last time.
    """
    beta = np.zeros_like(log_b)
    for t in range(len(log_b) - 2, -1, -1):
        beta[t] = log_sum(log_A + log_b[t + 1] + beta[t + 1], axis=1)
    return beta


def best_path(log_pi, log_A, log_b) -> Path:
    """Return the most probable states, by Viterbi.

    Among equally probable predecessors the state with the lowest number wins.

    Args:
        log_pi: `(S,)`.
        log_A: `(S, S)`, from row to column.
        log_b: `(T, S)`.

    Returns:
        The states and the log of their probability, as a `Path`.
    """
    delta = log_pi + log_b[0]
    came_from = np.zeros(log_b.shape, "int32")  # at t: the best state at t - 1
    for t in range(1, len(log_b)):
        reached = delta[:, None] + log_A
        came_from[t] = reached.argmax(axis=0)
        delta = reached.max(axis=0) + log_b[t]
    path = np.empty(len(log_b), "int32")
    path[-1] = delta.argmax()
    for t in range(len(path) - 1, 0, -1):
        path[t - 1] = came_from[t, path[t]]
    return Path(path, float(delta.max()))


def posterior(alpha, beta) -> np.ndarray:
    """Return γ: the probability of each state at each time, given all that was seen.

    Args:
        alpha: log α, `(T, S)`, not all of it `-inf` at the end.
        beta: log β, `(T, S)`.

    Returns:
        A float64 array of shape `(T, S)`, rows that sum to 1.
    """
    log_gamma = alpha + beta
    # Each row sums to p(seen), but rounded at each time in another way.
    return np.exp(log_gamma - log_sum(log_gamma, axis=1)[:, None])


def expected_transitions(alpha, beta, log_A, log_b) -> np.ndarray:
    """Return Σ ξ: how often each transition is expected, given all that was seen.

    Args:
        alpha: log α, `(T, S)`.
        beta: log β, `(T, S)`.
        log_A: `(S, S)`.
        log_b: `(T, S)`.

    Returns:
        A float64 array of shape `(S, S)` that sums to T − 1.
    """
    steps = max(1, BLOCK // log_A.size)
    total = np.zeros(log_A.shape)
    for start in range(0, len(log_b) - 1, steps):
        now = slice(start, min(start + steps, len(log_b) - 1))
        then = slice(now.start + 1, now.stop + 1)
        log_xi = alpha[now, :, None] + log_A + (log_b[then] + beta[then])[:, None, :]
        whole = log_sum(log_xi.reshape(len(log_xi), -1), axis=1)
        total += np.exp(log_xi - whole[:, None, None]).sum(axis=0)  # (t, S, S) → (S, S)
    return total

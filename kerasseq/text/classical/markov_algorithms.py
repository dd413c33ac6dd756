r"""Recursions and learning of a hidden Markov model, in logarithms, on plain arrays.

With $S$ states, $\pi_i$ the probability of starting in state $i$, $A_{ij}$ of going
from $i$ to $j$, and $b_j(t)$ of the symbol at time $t$ in state $j$:

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

Logarithms prevent the underflow of long products of probabilities; a sum becomes
`logaddexp`.

Learning maximizes the likelihood of sequences. If the states are known, starts,
transitions and symbols are counted. Otherwise Baum and Welch replace each count by its
expectation under the current model: the posterior $\gamma_t(j)$ of the states and
$\xi_t(i, j)$ of the transitions give

$$
\pi_j = \gamma_1(j) \qquad
A_{ij} = \frac{\sum_t \xi_t(i, j)}{\sum_t \sum_j \xi_t(i, j)} \qquad
B_{jk} = \frac{\sum_{t: o_t = k} \gamma_t(j)}{\sum_t \gamma_t(j)}
$$

with all counts summed over the sequences first. No step decreases the likelihood.

From: Rabiner, "A Tutorial on Hidden Markov Models and Selected Applications in Speech
Recognition", 1989. Left out: his scaling, which the logarithms make unnecessary.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kerasseq.text.probabilities import counted_rows, log

BLOCK = 2**20  # elements of xi that are in memory at the same time


class Path(NamedTuple):
    """The most probable states of a sequence.

    Attributes:
        states: int32 of shape `(time,)`.
        log_probability: Natural log of the joint probability of states and sequence.
    """

    states: np.ndarray
    log_probability: float


def log_sum(x: np.ndarray, axis: int) -> np.ndarray:
    """Computes log Σ exp(x) along an axis, without overflow.

    Examples:
        >>> log_sum(np.log([[0.25, 0.5], [0.25, 0.5]]), axis=0).round(3)
        array([-0.693,  0.   ])
        >>> log_sum(np.array([-np.inf, -np.inf]), axis=0)
        np.float64(-inf)
    """
    return np.logaddexp.reduce(x, axis=axis)


def forward(log_pi: np.ndarray, log_A: np.ndarray, log_b: np.ndarray) -> np.ndarray:
    """Computes log α, by the forward recursion.

    Args:
        log_pi: `(S,)`.
        log_A: `(S, S)`, from row to column.
        log_b: `(T, S)`: emission of the symbol at time t in state j.

    Returns:
        A float64 array of shape `(T, S)`.
    """
    alpha = np.empty_like(log_b)
    alpha[0] = log_pi + log_b[0]
    for t in range(1, len(log_b)):
        alpha[t] = log_sum(alpha[t - 1][:, None] + log_A, axis=0) + log_b[t]
    return alpha


def backward(log_A: np.ndarray, log_b: np.ndarray) -> np.ndarray:
    """Computes log β, by the backward recursion.

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


def best_path(log_pi: np.ndarray, log_A: np.ndarray, log_b: np.ndarray) -> Path:
    """Returns the most probable states, by the Viterbi algorithm.

    Ties are resolved to the lowest state.

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


def posterior(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Computes γ: the probability of each state at each time, given the sequence.

    Args:
        alpha: log α, `(T, S)`, not all of it `-inf` at the end.
        beta: log β, `(T, S)`.

    Returns:
        A float64 array of shape `(T, S)`, rows that sum to 1.
    """
    log_gamma = alpha + beta
    # Normalize each row, since rounding differs between times.
    return np.exp(log_gamma - log_sum(log_gamma, axis=1)[:, None])


def expected_transitions(
    alpha: np.ndarray, beta: np.ndarray, log_A: np.ndarray, log_b: np.ndarray
) -> np.ndarray:
    """Computes Σ ξ: the expected count of each transition, given the sequence.

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


class Matrices(NamedTuple):
    r"""One array for each part of the model: probabilities, or counts of them.

    Attributes:
        pi: Of initial states, `(S,)`.
        A: Of transitions, `(S, S)`.
        B: Of emissions, `(S, V)`.
    """

    pi: np.ndarray
    A: np.ndarray
    B: np.ndarray


def baum_welch(
    model: Matrices, sequences: Sequence[np.ndarray], tolerance: float, steps: int
) -> tuple[Matrices, list[float]]:
    """Increases the likelihood of sequences, step by step.

    Args:
        model: Initial probabilities.
        sequences: Rows of ids, none empty.
        tolerance: Stop if the log-likelihood increases by at most this.
        steps: Maximum number of steps.

    Returns:
        The new probabilities, and the log-likelihood before the first step and after
        each, which never decreases.
    """
    counts, log_likelihood = expected_counts(model, sequences)
    history = [log_likelihood]
    for _ in range(steps):
        better = Matrices(*map(counted_rows, counts, model))
        counts, log_likelihood = expected_counts(better, sequences)
        gain = log_likelihood - history[-1]
        if gain < 0:  # rounding at the maximum
            break
        model = better
        history.append(log_likelihood)
        if gain <= tolerance:
            break
    return model, history


def expected_counts(
    model: Matrices, sequences: Iterable[np.ndarray]
) -> tuple[Matrices, float]:
    """Returns the expected counts over all sequences, and their log-likelihood.

    Args:
        model: Probabilities.
        sequences: Rows of ids, none empty.

    Returns:
        The counts, and the log-likelihood of all sequences together.

    Raises:
        ValueError: If a sequence has probability zero.
    """
    total = 0.0
    counts = Matrices(*(np.zeros_like(part) for part in model))
    log_pi, log_A, log_B = (log(part) for part in model)
    for number, ids in enumerate(sequences):
        log_b = log_B.T[ids]  # (T, S)
        alpha = forward(log_pi, log_A, log_b)
        check_possible(log_sum(alpha[-1], axis=0), f"`sequences[{number}]`")
        beta = backward(log_A, log_b)
        gamma = posterior(alpha, beta)
        counts.pi[:] += gamma[0]
        counts.A[:] += expected_transitions(alpha, beta, log_A, log_b)
        np.add.at(counts.B.T, ids, gamma)  # row ids[t] of (V, S) gets gamma[t]
        total += float(log_sum(alpha[-1], axis=0))
    return counts, total


def count_labeled(
    like: Matrices,
    sequences: Iterable[Sequence[int] | np.ndarray],
    states: Iterable[Sequence[int] | np.ndarray],
    k: float,
) -> Matrices:
    """Returns relative frequencies of starts, transitions and symbols.

    Args:
        like: Arrays of the right shapes.
        sequences: Rows of ids, none empty.
        states: Their states, rows of the same lengths.
        k: Added to every count. Rows without counts become uniform.

    Examples:
        >>> like = Matrices(np.ones(2), np.ones((2, 2)), np.ones((2, 3)))
        >>> count_labeled(like, [[2, 0, 0]], [[1, 1, 0]], k=0).A
        array([[0.5, 0.5],
               [0.5, 0.5]])
    """
    counts = Matrices(*(np.full(part.shape, float(k)) for part in like))
    for ids, s in zip(sequences, states, strict=True):
        counts.pi[s[0]] += 1
        np.add.at(counts.A, (s[:-1], s[1:]), 1)
        np.add.at(counts.B, (s, ids), 1)
    uniform = (np.full(part.shape, 1 / part.shape[-1]) for part in like)
    return Matrices(*map(counted_rows, counts, uniform))


def check_possible(log_probability: float, name: str) -> None:
    """Raises a `ValueError` if a sequence has probability zero."""
    if log_probability == -np.inf:
        raise ValueError(
            f"{name} has probability zero under this model: a zero in `initial`, "
            "`transition` or `emission` rules it out. Start from matrices without "
            "zeros, or fit_labeled(..., k=1)."
        )

r"""What a hidden Markov model learns from: counts, or what stands in for them.

Where the states are known, starts, transitions and symbols are counted. Where they are
not, Baum and Welch replace each count by its expectation under the model as it is: the
posterior $\gamma_t(j)$ of the states and $\xi_t(i, j)$ of the transitions give

$$
\pi_j = \gamma_1(j) \qquad
A_{ij} = \frac{\sum_t \xi_t(i, j)}{\sum_t \sum_j \xi_t(i, j)} \qquad
B_{jk} = \frac{\sum_{t: o_t = k} \gamma_t(j)}{\sum_t \gamma_t(j)}
$$

with all counts summed over the sequences first. No step makes the sequences less
probable.

From: Rabiner, "A Tutorial on Hidden Markov Models and Selected Applications in Speech
Recognition", 1989.
"""

from typing import NamedTuple

import numpy as np

from kerasseq.text import markov_recursions as recursions
from kerasseq.text.probabilities import counted_rows, log


class Matrices(NamedTuple):
    r"""One array for each part of the model: probabilities, or counts of them.

    Attributes:
        pi: Of starting in a state, `(S,)`.
        A: Of going from one state to another, `(S, S)`.
        B: Of showing a symbol in a state, `(S, V)`.
    """

    pi: np.ndarray
    A: np.ndarray
    B: np.ndarray


def baum_welch(
    model: Matrices, sequences, tolerance: float, steps: int
) -> tuple[Matrices, list[float]]:
    """Make the sequences more probable, step by step.

    Args:
        model: Probabilities to start from.
        sequences: Rows of ids, none empty.
        tolerance: Stop when the log-likelihood rises by this or less.
        steps: The most steps.

    Returns:
        The new probabilities, and the log-likelihood before the first step and after
        each, which never falls.
    """
    counts, log_likelihood = expected_counts(model, sequences)
    history = [log_likelihood]
    for _ in range(steps):
        better = Matrices(*map(counted_rows, counts, model))
        counts, log_likelihood = expected_counts(better, sequences)
        gain = log_likelihood - history[-1]
        if gain < 0:  # at the summit, where rounding decides: stay
            break
        model = better
        history.append(log_likelihood)
        if gain <= tolerance:
            break
    return model, history


def expected_counts(model: Matrices, sequences) -> tuple[Matrices, float]:
    """Return the expected counts over all sequences, and their log-likelihood.

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
        alpha = recursions.forward(log_pi, log_A, log_b)
        check_possible(recursions.log_sum(alpha[-1], axis=0), f"`sequences[{number}]`")
        beta = recursions.backward(log_A, log_b)
        gamma = recursions.posterior(alpha, beta)
        counts.pi[:] += gamma[0]
        counts.A[:] += recursions.expected_transitions(alpha, beta, log_A, log_b)
        np.add.at(counts.B.T, ids, gamma)  # row ids[t] of (V, S) gets gamma[t]
        total += float(recursions.log_sum(alpha[-1], axis=0))
    return counts, total


def count_labelled(like: Matrices, sequences, states, k: float) -> Matrices:
    """Return relative frequencies of starts, transitions and symbols.

    Args:
        like: Arrays of the right shapes.
        sequences: Rows of ids, none empty.
        states: The states they were shown in, rows of the same lengths.
        k: Added to every count. A row with no count becomes uniform.

    Examples:
        >>> like = Matrices(np.ones(2), np.ones((2, 2)), np.ones((2, 3)))
        >>> count_labelled(like, [[2, 0, 0]], [[1, 1, 0]], k=0).A
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
    """Raise a `ValueError` if a sequence has probability zero."""
    if log_probability == -np.inf:
        raise ValueError(
            f"{name} has probability zero under this model: a zero in `initial`, "
            "`transition` or `emission` rules it out. Start from matrices without "
            "zeros, or fit_labelled(..., k=1)."
        )

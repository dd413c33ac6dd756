"""Exercises of tutorials 13 to 16: linear attention, assistants, speech, pictures."""

import itertools
from typing import Any

import numpy as np

from kerasseq.exercises.registry import exercise, normal, sigmoid, softmax


def _unit(x: Any) -> Any:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@exercise(
    "13.1",
    lambda rng: (normal(rng, 7, 3), normal(rng, 7, 5)),
    transposed=lambda k, v: v.T @ k,
    last=lambda k, v: np.outer(k[-1], v[-1]),
)
def memory_matrix(k: Any, v: Any) -> Any:
    """Returns the sum of the outer products."""
    return np.sum([np.outer(a, b) for a, b in zip(k, v, strict=True)], axis=0)


@exercise(
    "13.2",
    lambda rng: (normal(rng, 7, 3), normal(rng, 7, 3), normal(rng, 7, 5)),
    right=lambda q, k, v: np.tril(q @ k.T) @ v,
    not_causal=lambda q, k, v: q @ (k.T @ v),
    one_late=lambda q, k, v: np.tril(q @ k.T, -1) @ v,
    softmax=lambda q, k, v: softmax(np.where(np.tri(7) > 0, q @ k.T, -np.inf)) @ v,
)
def linear_attention(q: Any, k: Any, v: Any) -> Any:
    """Writes, then reads, with one matrix for all steps."""
    S, outputs = np.zeros((k.shape[1], v.shape[1])), []
    for t in range(len(q)):
        S = S + np.outer(k[t], v[t])
        outputs.append(q[t] @ S)
    return np.stack(outputs)


def _one_late(q: Any, k: Any, v: Any, beta: Any) -> Any:
    S, outputs = np.zeros((3, 5)), []
    for t in range(7):
        outputs.append(q[t] @ S)
        S = S + beta[t] * np.outer(k[t], v[t] - k[t] @ S)
    return outputs


@exercise(
    "13.3",
    lambda rng: (
        *(normal(rng, 7, 3), _unit(normal(rng, 7, 3)), normal(rng, 7, 5)),
        sigmoid(normal(rng, 7)),
    ),
    added=lambda q, k, v, beta: linear_attention(q, k, beta[:, None] * v),
    beta_twice=lambda q, k, v, beta: delta_rule(q, k, beta[:, None] * v, beta),
    one_late=_one_late,
)
def delta_rule(q: Any, k: Any, v: Any, beta: Any) -> Any:
    """Writes the difference between the value and what the key reads."""
    S, outputs = np.zeros((k.shape[1], v.shape[1])), []
    for t in range(len(q)):
        S = S + beta[t] * np.outer(k[t], v[t] - k[t] @ S)
        outputs.append(q[t] @ S)
    return np.stack(outputs)


@exercise(
    "14.1",
    lambda rng: (np.repeat([0, 1, 0, 1], rng.integers(2, 6, 4)),),
    not_shifted=lambda roles: roles[:-1],
    all_tokens=lambda roles: np.ones(len(roles) - 1),
    questions=lambda roles: 1 - roles[1:],
)
def answer_weights(roles: Any) -> Any:
    """Returns 1 where the next token is of the assistant."""
    return [int(roles[t + 1] == 1) for t in range(len(roles) - 1)]


@exercise(
    "14.2",
    lambda rng: (
        *(normal(rng, 7, 5), normal(rng, 5, 6)),
        *(normal(rng, 5, 2), normal(rng, 2, 6), 16.0),
    ),
    right=lambda x, W, A, B, alpha: x @ (W + alpha / A.shape[1] * A @ B),
    not_scaled=lambda x, W, A, B, alpha: x @ W + x @ A @ B,
    no_rank=lambda x, W, A, B, alpha: x @ W + alpha * (x @ A @ B),
    no_kernel=lambda x, W, A, B, alpha: alpha / 2 * (x @ A @ B),
)
def lora(x: Any, W: Any, A: Any, B: Any, alpha: Any) -> Any:
    """Returns the kernel, and beside it two thin matrices."""
    rank = len(B)
    return x @ W + alpha / rank * (x @ A) @ B


def _log_sigmoid(z: Any) -> Any:
    return -np.logaddexp(0, -z)


@exercise(
    "14.3",
    lambda rng: (*(-5 * rng.random((4, 7)) - 1), 0.3),
    right=lambda c, r, c_0, r_0, beta: np.mean(
        np.log(1 + ((np.exp(r - r_0) / np.exp(c - c_0)) ** beta))
    ),
    no_reference=lambda c, r, c_0, r_0, beta: -_log_sigmoid(beta * (c - r)).mean(),
    exchanged=lambda c, r, c_0, r_0, beta: dpo_loss(r, c, r_0, c_0, beta),
    beta_outside=lambda c, r, c_0, r_0, beta: beta * dpo_loss(c, r, c_0, r_0, 1.0),
)
def dpo_loss(
    chosen: Any, rejected: Any, chosen_0: Any, rejected_0: Any, beta: Any
) -> Any:
    """Computes minus the logarithm of the sigmoid of the margin."""
    margin = (chosen - chosen_0) - (rejected - rejected_0)
    return np.mean(-np.log(1 / (1 + np.exp(-beta * margin))))


def _path(rng: np.random.Generator) -> tuple[Any, ...]:
    return ([1, 1, 0, 1, 2, 2, 0, 0, *rng.integers(0, 4, 5).tolist()], 0)


def _blanks_first(path: Any, blank: Any) -> Any:
    return [k for k, _ in itertools.groupby(k for k in path if k != blank)]


@exercise(
    "15.1",
    _path,
    blanks_first=_blanks_first,
    with_blanks=lambda path, blank: [k for k, _ in itertools.groupby(path)],
    with_repeats=lambda path, blank: [k for k in path if k != blank],
)
def collapse(path: Any, blank: Any) -> Any:
    """Removes repeats, and then the blanks."""
    repeated = [blank, *path[:-1]]
    return [k for k, old in zip(path, repeated, strict=True) if k not in (old, blank)]


@exercise(
    "15.2",
    lambda rng: (int(rng.integers(900, 1300)), 64, 29),
    no_window=lambda samples, window, hop: samples // hop,
    first_lost=lambda samples, window, hop: (samples - window) // hop,
    by_window=lambda samples, window, hop: samples // window,
)
def count_frames(samples: Any, window: Any, hop: Any) -> Any:
    """Counts one frame at the start, and one for each hop that still fits."""
    return (samples - window) // hop + 1


def _all_paths(y: Any, label: Any, blank: Any) -> Any:
    paths = itertools.product(range(y.shape[1]), repeat=len(y))
    return sum(
        np.prod(y[np.arange(len(y)), path])
        for path in paths
        if collapse(list(path), blank) == list(label)
    )


def _best_path(y: Any, label: Any, blank: Any) -> Any:
    paths = itertools.product(range(y.shape[1]), repeat=len(y))
    return max(
        np.prod(y[np.arange(len(y)), path])
        for path in paths
        if collapse(list(path), blank) == list(label)
    )


def _forward(y: Any, label: Any, blank: Any, *, skip: Any) -> Any:
    places = [blank]
    for k in label:
        places += [k, blank]
    alpha = np.eye(len(places))[0]
    for t in range(len(y)):
        new = alpha.copy()
        new[1:] += alpha[:-1]
        for j in range(2, len(places)):
            if skip(places, j):
                new[j] += alpha[j - 2]
        alpha = new * y[t, places]
    return alpha[-2:].sum()


@exercise(
    "15.3",
    lambda rng: (softmax(normal(rng, 5, 3)), [1, 1, 2], 0),
    right=_all_paths,
    best_path=_best_path,
    double_skipped=lambda y, label, blank: _forward(
        y, label, blank, skip=lambda places, j: places[j] != blank
    ),
    never_skipped=lambda y, label, blank: _forward(
        y, label, blank, skip=lambda places, j: False
    ),
)
def text_probability(y: Any, label: Any, blank: Any) -> Any:
    """Returns the sum over all paths, frame by frame."""
    places = [blank]
    for k in label:
        places += [k, blank]
    alpha = np.eye(len(places))[0]
    for t in range(len(y)):
        new = alpha.copy()
        new[1:] += alpha[:-1]
        for j in range(2, len(places)):
            if places[j] != blank and places[j] != places[j - 2]:
                new[j] += alpha[j - 2]
        alpha = new * y[t, places]
    return alpha[-2:].sum()


@exercise(
    "16.1",
    lambda rng: (normal(rng, 5, 7), normal(rng, 3, 7)),
    products=lambda a, b: a @ b.T,
    one_side=lambda a, b: _unit(a) @ b.T,
    one_norm=lambda a, b: a @ b.T / (np.linalg.norm(a) * np.linalg.norm(b)),
)
def cosines(a: Any, b: Any) -> Any:
    """Computes the products of vectors of length 1."""
    a = a / np.linalg.norm(a, axis=1, keepdims=True)
    b = b / np.linalg.norm(b, axis=1, keepdims=True)
    return a @ b.T


def _one_way(scores: Any) -> Any:
    return -np.mean(np.log(np.diag(softmax(scores))))


@exercise(
    "16.2",
    lambda rng: (normal(rng, 7, 7),),
    rows=_one_way,
    columns=lambda scores: _one_way(scores.T),
    total=lambda scores: _one_way(scores) + _one_way(scores.T),
)
def contrastive_loss(scores: Any) -> Any:
    """Returns the mean of two cross-entropies, over the rows and over the columns."""
    rows = np.diag(softmax(scores))
    columns = np.diag(softmax(scores.T))
    return -np.mean(np.log(rows) + np.log(columns)) / 2


def _by_loops(patches: Any, words: Any) -> Any:
    allowed = np.zeros((patches + words, patches + words))
    for query in range(patches + words):
        for key in range(patches + words):
            allowed[query, key] = key < patches or patches <= key <= query
    return allowed


@exercise(
    "16.3",
    lambda rng: (int(rng.integers(3, 6)), int(rng.integers(6, 9))),
    right=_by_loops,
    causal=lambda patches, words: np.tri(patches + words),
    all_open=lambda patches, words: np.ones((patches + words,) * 2),
    reversed_rule=lambda patches, words: 1 - _by_loops(patches, words),
    apart=lambda patches, words: (
        _by_loops(patches, words) * (np.arange(patches + words)[:, None] < patches)
        + np.tri(patches + words)
        * (np.add.outer(*[np.arange(patches + words) >= patches] * 2) == 2)
    ),
)
def mixed_mask(patches: Any, words: Any) -> Any:
    """Makes a mask: each token reads the patches, a word also words up to itself."""
    query, key = np.ogrid[: patches + words, : patches + words]
    return (key < patches) | ((query >= patches) & (key <= query))

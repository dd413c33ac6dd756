"""Exercises of tutorials 01 to 04: counts, a network with memory, gradients, gates."""

from typing import Any

import numpy as np

from kerasseq.exercises.registry import exercise, normal, shares, sigmoid


@exercise(
    "01.1",
    lambda rng: (rng.integers(0, 5, 7), 5),
    transposed=lambda ids, size: np.eye(size)[ids].T,
    counted=lambda ids, size: np.bincount(ids, minlength=size),
)
def one_hot(ids: Any, size: Any) -> Any:
    """Returns a row of the identity matrix for each id."""
    return np.eye(size)[ids]


def _of_model(ids: Any, size: Any, k: Any) -> Any:
    from kerasseq.text import NGramModel

    model = NGramModel(2, k=k).fit(ids, size)
    return np.stack([model.probabilities([c]) for c in range(size)])


@exercise(
    "01.2",
    lambda rng: (rng.integers(0, 5, 31), 5, 0.5),
    right=_of_model,
    columns=lambda ids, size, k: bigram_matrix(ids[::-1], size, k),
    unsmoothed=lambda ids, size, k: bigram_matrix(ids, size, 0),
    small_sum=lambda ids, size, k: (
        bigram_counts(ids, size, k)
        / bigram_counts(ids, size, 0).sum(axis=1, keepdims=True)
    ),
)
def bigram_matrix(ids: Any, size: Any, k: Any) -> Any:
    """Counts the pairs, adds k to each count, and divides each row by its sum."""
    N = np.full((size, size), float(k))
    for first, second in zip(ids[:-1], ids[1:], strict=True):
        N[first, second] += 1
    return N / N.sum(axis=1, keepdims=True)


def bigram_counts(ids: Any, size: Any, k: Any) -> Any:
    """Returns the counts of pairs, with k added to each."""
    N = np.full((size, size), float(k))
    np.add.at(N, (ids[:-1], ids[1:]), 1)
    return N


def _chosen(ids: Any, P: Any) -> Any:
    return P[ids[:-1], ids[1:]]


@exercise(
    "01.3",
    lambda rng: (rng.integers(0, 5, 11), shares(rng, 5, 5)),
    bits=lambda ids, P: -np.mean(np.log2(_chosen(ids, P))),
    base=lambda ids, P: 2 ** -np.mean(np.log(_chosen(ids, P))),
    arithmetic=lambda ids, P: 1 / np.mean(_chosen(ids, P)),
)
def perplexity(ids: Any, P: Any) -> Any:
    """Computes two to the power of the mean number of bits."""
    return 2 ** -np.mean(np.log2(P[ids[:-1], ids[1:]]))


@exercise(
    "02.1",
    lambda rng: (
        *(normal(rng, 3), normal(rng, 5)),
        *(normal(rng, 3, 5), normal(rng, 5, 5), normal(rng, 5)),
    ),
    linear=lambda x, h, W, U, b: x @ W + h @ U + b,
    no_bias=lambda x, h, W, U, b: np.tanh(x @ W + h @ U),
    transposed=lambda x, h, W, U, b: np.tanh(x @ W + U @ h + b),
    no_memory=lambda x, h, W, U, b: np.tanh(x @ W + b),
)
def elman_step(x: Any, h: Any, W: Any, U: Any, b: Any) -> Any:
    """Returns the state after one step."""
    return np.tanh(x @ W + h @ U + b)


def _counted_elman(units: Any, features: Any) -> Any:
    from kerasseq.rnn.elman import ElmanRNN

    layer = ElmanRNN(units)
    layer.build((None, None, features))
    return layer.count_params()


@exercise(
    "02.2",
    lambda rng: (int(rng.integers(2, 9)), int(rng.integers(10, 19))),
    right=_counted_elman,
    no_bias=lambda units, features: units * (units + features),
    no_memory=lambda units, features: units * (features + 1),
)
def count_elman(units: Any, features: Any) -> Any:
    """Counts W, U and b."""
    return features * units + units * units + units


def _of_elman(x: Any, W: Any, U: Any, b: Any) -> Any:
    from kerasseq.rnn.elman import ElmanRNN

    layer = ElmanRNN(len(b), activation="tanh", return_sequences=True)
    layer.build((None, *x.shape))
    layer.set_weights([W, U, b])
    return layer(x[None])[0]


def _backwards(x: Any, W: Any, U: Any, b: Any) -> Any:
    return elman(x[::-1], W, U, b)[::-1]


@exercise(
    "02.3",
    lambda rng: (
        normal(rng, 7, 3),
        normal(rng, 3, 5),
        normal(rng, 5, 5),
        normal(rng, 5),
    ),
    right=_of_elman,
    no_memory=lambda x, W, U, b: np.tanh(x @ W + b),
    last=lambda x, W, U, b: elman(x, W, U, b)[-1],
    backwards=_backwards,
)
def elman(x: Any, W: Any, U: Any, b: Any) -> Any:
    """Returns the states of all steps, from a state of zeros."""
    h, states = np.zeros(len(b)), []
    for x_t in x:
        h = np.tanh(x_t @ W + h @ U + b)
        states.append(h)
    return np.stack(states)


@exercise(
    "03.1",
    lambda rng: (normal(rng, 5, 5) - 2 * np.eye(5, dtype="float32"),),
    norm=lambda U: np.linalg.norm(U, 2),
    frobenius=lambda U: np.linalg.norm(U),
    real=lambda U: np.linalg.eigvals(U).real.max(),
)
def spectral_radius(U: Any) -> Any:
    """Returns the largest absolute value of an eigenvalue."""
    return np.abs(np.linalg.eigvals(U)).max()


def _gradient(rng: np.random.Generator) -> tuple[Any, ...]:
    g = normal(rng, 7)
    return g, float(np.linalg.norm(g) * rng.choice([0.3, 0.6, 3.0]))


@exercise(
    "03.2",
    _gradient,
    each=lambda g, limit: np.clip(g, -limit, limit),
    always=lambda g, limit: g * limit / np.linalg.norm(g),
)
def clip_by_norm(g: Any, limit: Any) -> Any:
    """Shortens a gradient whose norm exceeds the limit."""
    return g * min(1.0, limit / np.linalg.norm(g))


@exercise(
    "03.3",
    lambda rng: (normal(rng, 3, 3), np.tanh(normal(rng, 5, 3))),
    no_slope=lambda U, h: np.linalg.matrix_power(U, len(h)),
    transposed=lambda U, h: state_gradient(U, h).T,
    reversed_order=lambda U, h: state_gradient(U, h[::-1]),
)
def state_gradient(U: Any, h: Any) -> Any:
    """Returns the product of U and the slopes of tanh, step by step."""
    J = np.eye(len(U))
    for h_t in h:
        J = J @ (U * (1 - h_t**2))
    return J


@exercise(
    "04.1",
    lambda rng: (
        *(sigmoid(normal(rng, 5)), sigmoid(normal(rng, 5))),
        *(np.tanh(normal(rng, 5)), normal(rng, 5)),
    ),
    exchanged=lambda f, i, g, c: i * c + f * g,
    tied=lambda f, i, g, c: f * c + (1 - f) * g,
)
def new_cell(f: Any, i: Any, g: Any, c: Any) -> Any:
    """Adds what is kept and what is written."""
    return f * c + i * g


def _counted_lstm(units: Any, features: Any) -> Any:
    from kerasseq.rnn.lstm import LSTM

    layer = LSTM(units)
    layer.build((None, None, features))
    return layer.count_params()


@exercise(
    "04.2",
    lambda rng: (int(rng.integers(2, 9)), int(rng.integers(10, 19))),
    right=_counted_lstm,
    one_set=lambda units, features: units * (units + features + 1),
    three_sets=lambda units, features: 3 * units * (units + features + 1),
    no_bias=lambda units, features: 4 * units * (units + features),
)
def count_lstm(units: Any, features: Any) -> Any:
    """Counts four times W, U and b: three gates and the candidate."""
    return 4 * (features * units + units * units + units)


def _of_lstm(x: Any, h: Any, c: Any, W: Any, U: Any, b: Any) -> Any:
    from kerasseq.rnn.lstm import LSTM

    layer = LSTM(len(h), return_state=True)
    layer.build((None, 1, len(x)))
    layer.set_weights([W, U, b])
    _, h, c = layer(x[None, None], initial_state=[h[None], c[None]])
    return h[0], c[0]


def _other_order(x: Any, h: Any, c: Any, W: Any, U: Any, b: Any) -> Any:
    f, i, g, o = np.split(x @ W + h @ U + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def _raw_cell(x: Any, h: Any, c: Any, W: Any, U: Any, b: Any) -> Any:
    o = np.split(x @ W + h @ U + b, 4)[3]
    c = lstm_step(x, h, c, W, U, b)[1]
    return sigmoid(o) * c, c


@exercise(
    "04.3",
    lambda rng: (
        *(normal(rng, 3), normal(rng, 5), normal(rng, 5)),
        *(normal(rng, 3, 20), normal(rng, 5, 20), normal(rng, 20)),
    ),
    right=_of_lstm,
    gate_order=_other_order,
    raw_cell=_raw_cell,
    exchanged=lambda *inputs: lstm_step(*inputs)[::-1],
)
def lstm_step(x: Any, h: Any, c: Any, W: Any, U: Any, b: Any) -> Any:
    """Returns the state and the cell after one step."""
    i, f, g, o = np.split(x @ W + h @ U + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c

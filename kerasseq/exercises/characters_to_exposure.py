"""Exercises of tutorials 05 to 08: samplers, series, alignment, exposure bias."""

from typing import Any

import numpy as np

from kerasseq.exercises.registry import exercise, normal, shares, softmax


@exercise(
    "05.1",
    lambda rng: (normal(rng, 7), float(rng.uniform(0.3, 0.8))),
    multiplied=lambda z, temperature: softmax(z * temperature),
    late=lambda z, temperature: softmax(z) / temperature,
    ignored=lambda z, temperature: softmax(z),
)
def with_temperature(z: Any, temperature: Any) -> Any:
    """Returns the softmax of the divided logits."""
    p = np.exp(z / temperature)
    return p / p.sum()


def _of_top_k(z: Any, k: Any) -> Any:
    from kerasseq.decoding import TopK

    return TopK(k).distribution(z[None])[0]


@exercise(
    "05.2",
    lambda rng: (normal(rng, 7), int(rng.integers(2, 5))),
    right=_of_top_k,
    small_sum=lambda z, k: np.where(z >= np.sort(z)[-k], softmax(z), 0),
    zero_logits=lambda z, k: softmax(np.where(z >= np.sort(z)[-k], z, 0)),
    smallest=lambda z, k: top_k(-z, k),
)
def top_k(z: Any, k: Any) -> Any:
    """Returns the softmax over the k largest logits."""
    return softmax(np.where(z >= np.sort(z)[-k], z, -np.inf))


def _of_top_p(z: Any, p: Any) -> Any:
    from kerasseq.decoding import TopP

    return TopP(p).distribution(z[None])[0]


def _without_last(z: Any, p: Any) -> Any:
    all_of_them = softmax(z)
    order = np.argsort(-all_of_them)
    kept = order[np.cumsum(all_of_them[order]) <= p]
    few = np.zeros(len(z))
    few[kept] = all_of_them[kept]
    return few / few.sum()


def _small_nucleus(z: Any, p: Any) -> Any:
    return np.where(top_p(z, p) > 0, softmax(z), 0)


@exercise(
    "05.3",
    lambda rng: (normal(rng, 7), 0.9),
    right=_of_top_p,
    without_last=_without_last,
    small_sum=_small_nucleus,
    threshold=lambda z, p: (
        np.where(softmax(z) > 1 - p, softmax(z), 0)
        / softmax(z)[softmax(z) > 1 - p].sum()
    ),
)
def top_p(z: Any, p: Any) -> Any:
    """Returns the fewest most probable tokens that reach p together."""
    everything = softmax(z)
    order = np.argsort(-everything)
    before = np.cumsum(everything[order]) - everything[order]
    few = np.zeros(len(z))
    kept = order[before < p]
    few[kept] = everything[kept]
    return few / few.sum()


@exercise(
    "06.1",
    lambda rng: (normal(rng, 17), 5, 7),
    last=lambda values, season, horizon: np.repeat(values[-1], horizon),
    first_season=lambda values, season, horizon: np.resize(values[:season], horizon),
)
def seasonal_naive(values: Any, season: Any, horizon: Any) -> Any:
    """Returns the last season, repeated."""
    return np.array([values[len(values) - season + h % season] for h in range(horizon)])


def _in_reverse(values: Any, p: Any) -> Any:
    rows = rows_of_windows(values, p)
    return np.concatenate([rows[:, :p][:, ::-1], rows[:, p:]], axis=1)


@exercise(
    "06.2",
    lambda rng: (normal(rng, 13), 3),
    last_lost=lambda values, p: rows_of_windows(values, p)[:-1],
    apart=lambda values, p: np.stack(
        [values[n : n + p + 1] for n in range(0, len(values) - p, p + 1)]
    ),
    newest_first=_in_reverse,
)
def rows_of_windows(values: Any, p: Any) -> Any:
    """Returns each window of p values, and the value after it."""
    return np.stack([values[n : n + p + 1] for n in range(len(values) - p)])


def _scaled(errors: Any, steps: Any) -> Any:
    return np.abs(errors).mean() / np.abs(steps).mean()


@exercise(
    "06.3",
    lambda rng: (normal(rng, 23), normal(rng, 7), normal(rng, 7), 5),
    one_step=lambda train, test, forecast, season: _scaled(
        test - forecast, train[1:] - train[:-1]
    ),
    of_test=lambda train, test, forecast, season: _scaled(
        test - forecast, test[season:] - test[:-season]
    ),
    no_scale=lambda train, test, forecast, season: np.abs(test - forecast).mean(),
)
def mase(train: Any, test: Any, forecast: Any, season: Any) -> Any:
    """Divides the mean error by that of the seasonal naive forecast in training."""
    scale = np.mean(np.abs(train[season:] - train[:-season]))
    return np.mean(np.abs(test - forecast)) / scale


@exercise(
    "07.1",
    lambda rng: (normal(rng, 7), normal(rng, 7, 5)),
    no_softmax=lambda e, h: e @ h,
    hard=lambda e, h: h[np.argmax(e)],
    mean=lambda e, h: h.mean(axis=0),
)
def context_vector(e: Any, h: Any) -> Any:
    """Returns the states, weighted by the softmax of the scores."""
    alpha = np.exp(e) / np.exp(e).sum()
    return (alpha[:, None] * h).sum(axis=0)


def _concatenated(s: Any, h: Any, W_q: Any, W_k: Any, v: Any) -> Any:
    W = np.concatenate([W_q, W_k])
    return [np.tanh(np.concatenate([s, row]) @ W) @ v for row in h]


@exercise(
    "07.2",
    lambda rng: (
        *(normal(rng, 3), normal(rng, 7, 5)),
        *(normal(rng, 3, 11), normal(rng, 5, 11), normal(rng, 11)),
    ),
    right=_concatenated,
    linear=lambda s, h, W_q, W_k, v: (s @ W_q + h @ W_k) @ v,
    weights=lambda *inputs: softmax(additive_scores(*inputs)),
    no_query=lambda s, h, W_q, W_k, v: np.tanh(h @ W_k) @ v,
)
def additive_scores(s: Any, h: Any, W_q: Any, W_k: Any, v: Any) -> Any:
    """Computes one score for each source position."""
    return np.tanh(s @ W_q + h @ W_k) @ v


def _alignment(rng: np.random.Generator) -> tuple[Any, ...]:
    alpha = shares(rng, 3, 7)
    alpha[0] = np.eye(7)[2]
    return (alpha,)


def _entropies(alpha: Any, logarithm: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return -(alpha * logarithm(alpha)).sum(axis=1)


@exercise(
    "07.3",
    _alignment,
    not_a_number=lambda alpha: _entropies(alpha, np.log2),
    nats=lambda alpha: alignment_entropy(alpha) * np.log(2),
    mean=lambda alpha: alignment_entropy(alpha).mean(),
)
def alignment_entropy(alpha: Any) -> Any:
    """Returns the bits of each row; a weight of 0 adds nothing."""
    safe = np.where(alpha > 0, alpha, 1)
    return -np.sum(alpha * np.log2(safe), axis=1)


def _of_schedule(i: Any, k: Any) -> Any:
    from kerasseq.training import ScheduledSampling

    return ScheduledSampling("inverse_sigmoid", k=k).ratio(i)


@exercise(
    "08.1",
    lambda rng: (int(rng.integers(20, 90)), 20.0),
    right=_of_schedule,
    rising=lambda i, k: np.exp(i / k) / (k + np.exp(i / k)),
    no_k=lambda i, k: 1 / (1 + np.exp(i / k)),
)
def inverse_sigmoid(i: Any, k: Any) -> Any:
    """Returns the probability of the right token at step i."""
    return k / (k + np.exp(i / k))


@exercise(
    "08.2",
    lambda rng: (
        rng.integers(10, 20, 11),
        rng.integers(20, 30, 11),
        rng.random(11),
        0.6,
    ),
    exchanged=lambda right, own, draws, ratio: next_inputs(own, right, draws, ratio),
    not_shifted=lambda right, own, draws, ratio: np.where(draws < ratio, right, own),
    no_start=lambda right, own, draws, ratio: next_inputs(right, own, draws, ratio)[1:],
)
def next_inputs(right: Any, own: Any, draws: Any, ratio: Any) -> Any:
    """Returns the start, and then one of the two tokens of the step before."""
    inputs = [0]
    for t in range(1, len(right)):
        inputs.append(right[t - 1] if draws[t] < ratio else own[t - 1])
    return inputs


def _outputs(rng: np.random.Generator) -> tuple[Any, ...]:
    right = rng.integers(1, 9, (5, 7))
    own = right.copy()
    own[1, 2:] += 1
    own[2, [1, 4]] += 1
    own[3, 6] += 1
    own[4, rng.integers(0, 3) :: 3] += 1
    return own, right


@exercise(
    "08.3",
    _outputs,
    zero=lambda own, right: np.argmax(own != right, axis=1),
    counted=lambda own, right: (own != right).sum(axis=1),
    last=lambda own, right: 6 - first_errors(own[:, ::-1], right[:, ::-1]),
)
def first_errors(own: Any, right: Any) -> Any:
    """Returns the position of the first wrong token, or the length."""
    wrong = own != right
    return np.where(wrong.any(axis=1), wrong.argmax(axis=1), right.shape[1])

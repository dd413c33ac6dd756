"""A Markov source: its probabilities, what it samples, and its best loss."""

import itertools

import numpy as np
import pytest

from kerasseq.datasets import MarkovSource, markov_source

pytestmark = pytest.mark.once("NumPy alone")


def table(symbols, order, seed=0):
    shape = (symbols,) * order
    return np.random.default_rng(seed).dirichlet(np.full(symbols, 0.7), shape)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_probabilities_of_all_sequences_are_those_of_the_source(order):
    P = table(2, order)
    source = MarkovSource(P)
    ids = np.array([*itertools.product(range(2), repeat=5)])
    first = source.stationary.sum(axis=tuple(range(1, order)))
    p = first[ids[:, 0]] * 2 ** -source.bits(ids).sum(axis=1)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    expected = source.stationary[tuple(ids[:, :order].T)]
    for t in range(order, 5):
        expected = expected * P[tuple(ids[:, t - order : t + 1].T)]
    np.testing.assert_allclose(p, expected, rtol=1e-9)


def test_the_stationary_state_is_an_eigenvector_and_the_optimum_its_entropy():
    P = table(7, 1)
    values, vectors = np.linalg.eig(P.T)
    pi = np.real(vectors[:, np.argmax(np.real(values))])
    pi = pi / pi.sum()
    source = MarkovSource(P)
    np.testing.assert_allclose(source.stationary, pi, atol=1e-12)
    assert source.optimum == pytest.approx(-np.sum(pi[:, None] * P * np.log2(P)))


def test_samples_have_the_frequencies_of_the_source():
    source = markov_source(3, 2, seed=5)
    ids = source.sample(20_000, 11, seed=1)
    counts = np.zeros((3, 3, 3))
    np.add.at(counts, (ids[:, 8], ids[:, 9], ids[:, 10]), 1)
    np.testing.assert_allclose(counts.sum(-1) / len(ids), source.stationary, atol=0.02)
    found = counts / counts.sum(-1, keepdims=True)
    np.testing.assert_allclose(found, source.probabilities, atol=0.05)
    bits = source.bits(ids)
    assert bits.shape == (20_000, 10)
    error = bits[:, 1:].mean(1).std() / len(ids) ** 0.5
    assert abs(bits[:, 1:].mean() - source.optimum) < 4 * error < 0.02
    np.testing.assert_array_equal(source.sample(3, 11, seed=1)[:, :2], ids[:3, :2])


def test_a_drawn_source():
    source = markov_source(5, 2, seed=0)
    assert source.optimum == pytest.approx(1.6640, abs=1e-4)
    assert source.probabilities.min() >= 0.006
    np.testing.assert_allclose(source.probabilities.sum(-1), 1, rtol=1e-12)
    assert (markov_source(seed=0).probabilities == source.probabilities).all()
    assert markov_source(seed=1).optimum != source.optimum
    assert markov_source(concentration=1e4, least=1e-6).optimum > 2.3  # of log2 5
    assert (
        repr(source) == "<MarkovSource of 5 symbols and order 2, 1.6640 bits a token>"
    )


def test_contexts_follow_zipfs_law():
    words = {"concentration": 0.3, "least": 1e-6, "seed": 2}
    source = markov_source(40, zipf=1.0, **words)
    p = 1 / np.arange(1, 41)
    p /= p.sum()
    np.testing.assert_allclose(source.stationary.sum(axis=0), p, atol=0.02)

    def of_80_contexts(frequencies):
        return np.sort(frequencies, axis=None)[-80:].sum()

    found = of_80_contexts(source.stationary)
    assert abs(found - of_80_contexts(np.outer(p, p))) < 0.1
    assert found > 5 * of_80_contexts(markov_source(40, **words).stationary)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: markov_source(zipf=-1), ValueError, "zipf must be from 0 to 5"),
        (lambda: markov_source(zipf=np.nan), ValueError, "zipf"),
        (lambda: markov_source(1), ValueError, "symbols must be"),
        (lambda: markov_source(order=0), ValueError, "order must be"),
        (lambda: markov_source(least=0.2), ValueError, "below 1 / symbols = 0.2"),
        (lambda: markov_source(concentration=0), ValueError, "concentration must"),
        (lambda: markov_source(100, 9), ValueError, "memory"),
        (lambda: markov_source().sample(2, 2), ValueError, "length must be"),
        (lambda: markov_source().bits([0, 1]), ValueError, r"shape \(count, T\)"),
        (lambda: markov_source().bits([[0, 5]]), ValueError, "0 to 4, received 0 to 5"),
        (lambda: markov_source().bits([[0.0, 1.0]]), TypeError, "whole numbers"),
        (lambda: MarkovSource([[1], [0.5, 0.5]]), ValueError, "an array of numbers"),
        (lambda: MarkovSource("x"), ValueError, "received 'x'"),
        (lambda: MarkovSource([1.0]), ValueError, r"shape \(K, ..., K\)"),
        (lambda: MarkovSource([[0.5, 0.5]]), ValueError, r"received the shape \(1, 2"),
        (lambda: MarkovSource([[0.5, 0.5], [0, 1]]), ValueError, r"after \(1,\)"),
        (lambda: MarkovSource([[0.5, 0.4], [0.5, 0.5]]), ValueError, r"after \(0,\)"),
        (
            lambda: MarkovSource([[1 - 1e-9, 1e-9], [2e-9, 1 - 2e-9]]),
            ValueError,
            "forget the first context",
        ),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()

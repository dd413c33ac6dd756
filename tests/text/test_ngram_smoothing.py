"""Back-off and Kneser–Ney: the equations with dictionaries, sums, discounts."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerasseq.datasets import python_reference
from kerasseq.text import CharacterTokenizer, NGramModel
from kerasseq.text.classical.smoothing import discounts


def grams_of(text, length):
    return Counter(tuple(text[i : i + length]) for i in range(len(text) - length + 1))


def by_context(counts):
    """What followed each context: {c: {u: count}}."""
    after = defaultdict(dict)
    for gram, count in counts.items():
        after[gram[:-1]][gram[-1]] = count
    return after


def counts_of_counts(counts):
    return [sum(1 for c in counts.values() if c == i) for i in (1, 2, 3, 4)]


class BackOff:
    """Katz's scheme with one discount per level, word for word."""

    def __init__(self, text, size, discount):
        self.text, self.size, self.discount = text, size, discount

    def D(self, counts):
        n1, n2, *_ = counts_of_counts(counts)
        if self.discount is not None:
            return self.discount
        return n1 / (n1 + 2 * n2) if n1 and n2 else 0.5

    def p(self, context):
        V, m = range(self.size), len(context)
        counts = grams_of(self.text, m + 1)
        shorter = self.p(context[1:]) if m else [1 / self.size] * self.size
        N = by_context(counts)[context]
        if not N:
            return shorter
        total, D = sum(N.values()), self.D(counts)
        if len(N) == self.size:
            D = 0
        unseen = sum(shorter[u] for u in V if u not in N)
        left = D * len(N) / total
        return [(N[u] - D) / total if u in N else left * shorter[u] / unseen for u in V]


class KneserNey:
    """Interpolated, with Chen and Goodman's three discounts, word for word."""

    def __init__(self, text, size, discount):
        self.text, self.size, self.discount = text, size, discount

    def D(self, counts):
        n1, n2, n3, n4 = counts_of_counts(counts)
        if self.discount is not None:
            return [self.discount] * 3
        if not (n1 and n2 and n3 and n4):
            return [0.5, 1, 1.5]
        Y = n1 / (n1 + 2 * n2)
        D = [1 - 2 * Y * n2 / n1, 2 - 3 * Y * n3 / n2, 3 - 4 * Y * n4 / n3]
        return D if all(d > 0 for d in D) else [0.5, 1, 1.5]

    def p(self, context, lower=False):
        V, m = range(self.size), len(context)
        shorter = self.p(context[1:], True) if m else [1 / self.size] * self.size
        counts = grams_of(self.text, m + 1)
        if lower:
            longer = grams_of(self.text, m + 2)
            counts = Counter({g: sum(h[1:] == g for h in longer) for g in counts})
        a = by_context(counts)[context]
        total, D = sum(a.values()), self.D(counts)
        if not total:
            return shorter
        taken = {u: D[min(a[u], 3) - 1] if a[u] else 0 for u in a}
        gamma = sum(taken.values()) / total
        return [(a.get(u, 0) - taken.get(u, 0)) / total + gamma * shorter[u] for u in V]


NAIVE = {"backoff": BackOff, "kneser_ney": KneserNey}


@st.composite
def problems(draw):
    size, n = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    # Few of the tokens, so that some are never seen.
    ids = st.lists(st.integers(0, draw(st.integers(0, size - 1))), max_size=60)
    train = draw(ids.filter(lambda row: len(row) >= n))
    text = draw(st.lists(st.integers(0, size - 1), max_size=12))
    return size, n, draw(st.sampled_from([None, None, 0.7])), train, text


@pytest.mark.parametrize("smoothing", NAIVE)
@settings(max_examples=150)
@given(problems())
def test_equals_the_equations(smoothing, problem):
    size, n, discount, train, text = problem
    naive = NAIVE[smoothing](train, size, discount)
    model = NGramModel(n, smoothing=smoothing, discount=discount).fit(train, size)
    log_p = model.log_probabilities(text)
    assert log_p.shape == (len(text),)
    for t, token in enumerate(text):
        expected = naive.p(tuple(text[max(0, t - n + 1) : t]))
        row = model.probabilities(text[:t])
        assert row.shape == (size,)
        assert math.isclose(row.sum(), 1, abs_tol=1e-12)
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-12)
        assert math.isclose(math.exp(log_p[t]), row[token], abs_tol=1e-12)
        assert row.min() > 0


def test_kneser_ney_on_random_text_of_many_counts():
    # Long enough for all counts of counts, so that discounts are estimated.
    rng = np.random.default_rng(0)
    train = rng.zipf(1.6, 997).clip(max=31).tolist()
    model = NGramModel(3, smoothing="kneser_ney").fit(train, 37)
    naive = KneserNey(train, 37, None)
    assert (model.discounts[1:] != [0.5, 1, 1.5]).all()
    for context in ([], [1], [2, 1], [1, 1], [1, 30], [36, 1], [1, 36], train[-2:]):
        expected = naive.p(tuple(context))
        np.testing.assert_allclose(
            model.probabilities(context), expected, rtol=0, atol=1e-12
        )


def test_what_is_frequent_after_one_token_only_is_no_good_guess_elsewhere():
    # 3 is more frequent than 4, but stands after 2 alone, as Francisco after San.
    text = [2, 3] * 9 + [0, 4, 1, 4, 5, 4, 0]
    model = NGramModel(2, smoothing="kneser_ney").fit(text, 7)
    assert text.count(3) > text.count(4)
    after_unseen = model.probabilities([6])
    assert after_unseen[4] > after_unseen[3]
    assert NGramModel(2, smoothing="backoff").fit(text, 7).probabilities([6])[3] > 0.25


def test_a_short_context_is_asked_of_a_shorter_model():
    rng = np.random.default_rng(1)
    train = rng.zipf(2, 499).clip(max=10)
    for smoothing in NAIVE:
        long = NGramModel(4, smoothing=smoothing).fit(train, 11)
        for m, context in enumerate(([], [1], [2, 1])):
            short = NGramModel(m + 1, smoothing=smoothing).fit(train, 11)
            np.testing.assert_array_equal(
                long.probabilities(context), short.probabilities(context)
            )


def test_discounts_by_hand():
    # n1 = 4, n2 = 2, n3 = 2, n4 = 1, so Y = 4 / 8.
    a = np.array([1, 1, 1, 1, 2, 2, 3, 3, 4, 17])
    assert discounts(a, "kneser_ney", None).tolist() == [0, 0.5, 0.5, 2]
    assert discounts(a, "backoff", None).tolist() == [0, 0.5, 0.5, 0.5]
    assert discounts(a, "kneser_ney", 0.25).tolist() == [0, 0.25, 0.25, 0.25]
    # An estimate that is negative: n4 outnumbers n3.
    a = np.array([1, 1, 1, 1, 2, 2, 3, 4, 4, 4, 4])
    assert 3 - 4 * 0.5 * 4 < 0
    assert discounts(a, "kneser_ney", None).tolist() == [0, 0.5, 1, 1.5]
    # Nothing seen once, or nothing twice.
    for a in ([2, 2, 3, 4], [1, 1, 3, 4], [9]):
        assert discounts(np.array(a), "kneser_ney", None).tolist() == [0, 0.5, 1, 1.5]
        assert discounts(np.array(a), "backoff", None).tolist() == [0, 0.5, 0.5, 0.5]


def test_discounts_are_those_of_the_model():
    train = np.random.default_rng(2).zipf(2, 499).clip(max=10).tolist()
    model = NGramModel(3, smoothing="kneser_ney").fit(train, 11)
    naive = KneserNey(train, 11, None)
    expected = []
    for m in (1, 2):
        longer = grams_of(train, m + 1)
        ends = {g: sum(h[1:] == g for h in longer) for g in grams_of(train, m)}
        expected.append(naive.D(ends))
    expected.append(naive.D(grams_of(train, 3)))
    np.testing.assert_allclose(model.discounts, expected, rtol=1e-12)
    assert model.discounts.shape == (3, 3)
    assert NGramModel(2).fit([0, 1], 2).discounts.tolist() == [[0] * 3] * 2
    fixed = NGramModel(2, smoothing="backoff", discount=0.3).fit([0, 1], 2)
    assert fixed.discounts.tolist() == [[0.3] * 3] * 2


@pytest.mark.parametrize("smoothing", NAIVE)
def test_tiny_texts_and_vocabularies(smoothing):
    for ids, size in (([0], 1), ([0], 3), ([0] * 5, 1), ([0, 1], 2), ([4] * 7, 5)):
        for n in range(1, len(ids) + 1):
            model = NGramModel(n, smoothing=smoothing).fit(ids, size)
            for context in ([], [0], [size - 1] * 3, [0, size - 1]):
                row = model.probabilities(context)
                assert math.isclose(row.sum(), 1, abs_tol=1e-12)
                assert row.min() > 0


@pytest.mark.parametrize("smoothing", NAIVE)
def test_what_little_is_left_to_back_off_is_shared_out_exactly(smoothing):
    # All but one of 1,009 tokens followed 0, and the last one is rare everywhere.
    rest = np.arange(1, 1008)
    text = np.concatenate([np.column_stack([0 * rest, rest]).ravel()] * 5 + [[0, 0, 0]])
    model = NGramModel(3, smoothing=smoothing).fit(text, 1009)
    for context in ([], [0], [1, 0], [0, 0], [1008]):
        assert abs(model.probabilities(context).sum() - 1) < 1e-12


@pytest.mark.parametrize("smoothing", NAIVE)
def test_a_large_vocabulary_does_not_overflow(smoothing):
    size = 2**31 - 1
    ids = np.random.default_rng(0).integers(0, size, 97)
    model = NGramModel(5, smoothing=smoothing, discount=0.5).fit(ids, size)
    log_p = model.log_probabilities(ids)
    assert math.isclose(math.exp(log_p[0]), 0.5 / 97, rel_tol=1e-6)
    assert (np.exp(log_p[1:]) >= 0.5).all()


def test_kneser_ney_is_best_on_real_text():
    text = python_reference()
    cut = len(text) * 9 // 10
    tokenizer = CharacterTokenizer().fit(text[:cut])

    def bits(n, **options):
        model = NGramModel(n, tokenizer=tokenizer, **options).fit(text[:cut])
        return model.bits_per_token(text[cut:])

    found = {}
    for n in (3, 5):
        add_k = min(bits(n, k=k) for k in (1.0, 0.1, 0.01, 0.001))
        backoff = bits(n, smoothing="backoff")
        found[n] = bits(n, smoothing="kneser_ney")
        assert found[n] < backoff < add_k
        assert found[n] < add_k - 0.05
    assert found[5] < found[3] - 0.5

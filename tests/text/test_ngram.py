import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerasseq.datasets import python_reference
from kerasseq.text import CharacterTokenizer, NGramModel


def brute_force(ids, size, k, context, token):
    """Count with dictionaries what the model counts with sorted arrays."""
    m = len(context)
    grams = Counter(tuple(ids[i : i + m + 1]) for i in range(len(ids) - m))
    total = sum(count for gram, count in grams.items() if gram[:m] == tuple(context))
    if total + k == 0:
        return 1 / size
    return (grams[(*context, token)] + k) / (total + k * size)


@st.composite
def problems(draw):
    size, n = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    ids = st.lists(st.integers(0, size - 1), max_size=30)
    train = draw(ids.filter(lambda row: len(row) >= n))
    return size, n, draw(st.sampled_from([0.0, 0.5, 1.0])), train, draw(ids)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(problems())
def test_equals_brute_force(problem):
    size, n, k, train, text = problem
    model = NGramModel(n, k=k).fit(train, size)
    log_p = model.log_probabilities(text)
    assert log_p.shape == (len(text),)
    for t, token in enumerate(text):
        context = text[max(0, t - n + 1) : t]
        expected = brute_force(train, size, k, context, token)
        assert math.isclose(np.exp(log_p[t]), expected, abs_tol=1e-12)
        row = model.probabilities(text[:t])
        assert math.isclose(row[token], expected, abs_tol=1e-12)
        assert math.isclose(row.sum(), 1)


def test_rows_equal_the_counts_by_hand():
    ids = [0, 1, 0, 1, 0, 2, 1]  # after 0: 1 1 2; after 1: 0 0; after 2: 1
    model = NGramModel(2, k=0).fit(ids, 3)
    rows = [model.probabilities([i]).tolist() for i in range(3)]
    assert rows == [[0, 2 / 3, 1 / 3], [1, 0, 0], [0, 1, 0]]
    smooth = NGramModel(2, k=1).fit(ids, 3)
    assert smooth.probabilities([0]).tolist() == [1 / 6, 3 / 6, 2 / 6]
    # No context: all seven tokens count.
    assert model.probabilities().tolist() == [3 / 7, 3 / 7, 1 / 7]


def test_numbers_of_the_course():
    uniform = NGramModel(1).fit(range(5), 5)
    assert round(uniform.cross_entropy([4, 0, 2]), 4) == 1.6094  # -ln 0.2
    # Frequencies in thousandths, so that a unigram model gives the sentence of
    # course D its seven probabilities.
    counts = [10, 20, 350, 290, 5, 60, 265]
    model = NGramModel(1, k=0).fit(np.repeat(range(7), counts), 7)
    sentence = [0, 1, 2, 3, 4, 5, 0]
    product = np.exp(model.log_probabilities(sentence).sum())
    assert math.isclose(product, 6.09e-11, rel_tol=1e-3)
    assert round(model.perplexity(sentence), 3) == 28.797


@pytest.mark.parametrize("n", [1, 2, 5])
def test_perplexity_of_a_uniform_model_is_the_vocabulary_size(n):
    model = NGramModel(n, k=1e12).fit([0] * 7, 11)
    ids = np.arange(11)
    assert math.isclose(model.perplexity(ids), 11, rel_tol=1e-6)
    assert math.isclose(model.bits_per_token(ids), math.log2(11), rel_tol=1e-6)


def test_without_smoothing_the_unseen_is_impossible():
    model = NGramModel(2, k=0).fit([0, 1, 0, 2], 5)
    assert model.log_probabilities([0, 0])[1] == -np.inf
    assert model.perplexity([0, 0]) == np.inf
    # 2 ends the text and 4 never occurs: nothing is known about what follows.
    for context in ([2], [4], [0, 4]):
        assert model.probabilities(context).tolist() == [0.2] * 5


def test_a_large_vocabulary_does_not_overflow():
    size = 2**31 - 1  # to the power of 5: far beyond 64 bits
    ids = np.random.default_rng(0).integers(0, size, 997)
    model = NGramModel(5, k=0).fit(ids, size)
    # Every 5-gram occurs once, so the text is certain but for its first token.
    log_p = model.log_probabilities(ids)
    assert math.isclose(log_p[0], -math.log(997))
    np.testing.assert_array_equal(log_p[4:], 0.0)
    with pytest.raises(ValueError, match="at most"):
        NGramModel().fit(ids, 2**40)


def test_samples_are_as_frequent_as_probable():
    ids = np.random.default_rng(0).choice(3, 499, p=[0.6, 0.3, 0.1])
    model = NGramModel(2, k=1).fit(ids, 3)
    text = model.sample(10_007, seed=1)
    assert text.dtype == np.int32
    again = NGramModel(2, k=0).fit(text, 3)
    for i in range(3):
        p, q = model.probabilities([i]), again.probabilities([i])
        error = np.sqrt(p * (1 - p) / (text == i).sum())
        assert (np.abs(p - q) < 4 * error).all()


def test_sampling():
    model = NGramModel(3, k=0).fit([0, 1, 2, 3, 4, 0, 1, 2], 5)
    for temperature in (0, 0.01, 1.0):
        text = model.sample(6, prompt=[1, 2], temperature=temperature, seed=0)
        assert text.tolist() == [3, 4, 0, 1, 2, 3]
    smooth = NGramModel(2).fit([0, 1, 2, 0, 1], 3)
    np.testing.assert_array_equal(smooth.sample(17, seed=7), smooth.sample(17, seed=7))
    assert (smooth.sample(17, seed=7) != smooth.sample(17, seed=8)).any()
    assert smooth.sample(0).shape == (0,)
    # Temperature 2 is the square root of the probabilities.
    flat = NGramModel(1, k=0).fit([0] * 4 + [1], 2)
    share = (flat.sample(10_007, temperature=2, seed=0) == 1).mean()
    assert abs(share - 1 / 3) < 0.02


def test_more_context_predicts_real_text_better():
    text = python_reference()
    cut = len(text) * 9 // 10
    tokenizer = CharacterTokenizer().fit(text[:cut])
    train, test = tokenizer.encode(text[:cut]), tokenizer.encode(text[cut:])
    size = tokenizer.vocabulary_size
    bits = [NGramModel(n).fit(train, size).bits_per_token(test) for n in (1, 2, 3)]
    assert bits[0] - bits[1] > 0.8
    assert bits[1] - bits[2] > 0.5
    assert bits[0] < math.log2(size)


def test_wrong_arguments():
    for n, error in ((0, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="^n must"):
            NGramModel(n)
    for k in (-1, math.nan, math.inf):
        with pytest.raises(ValueError, match="`k`"):
            NGramModel(k=k)
    model = NGramModel(2)
    with pytest.raises(ValueError, match="Call `fit"):
        model.probabilities([0])
    with pytest.raises(ValueError, match="fewer than n = 2"):
        model.fit([0], 3)
    with pytest.raises(ValueError, match="holds 3 at position 1.*0 to 2"):
        model.fit([0, 3], 3)
    with pytest.raises(TypeError, match="or pass ids"):
        model.fit("text", 3)
    model.fit([0, 1, 2], 3)
    with pytest.raises(ValueError, match="`context` holds 7"):
        model.probabilities([7])
    with pytest.raises(ValueError, match="is empty"):
        model.perplexity([])
    with pytest.raises(ValueError, match="`temperature`"):
        model.sample(2, temperature=-1)

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerasseq.text import NGramModel, SlidingWindowModel


def brute_force(ids, size, model, context, token):
    """Count bags with a dictionary, and narrow the window one token at a time."""
    for m in range(min(len(context), model.window - 1), -1, -1):
        bag = sorted(context[len(context) - m :])
        after = Counter(
            ids[t] for t in range(m, len(ids)) if sorted(ids[t - m : t]) == bag
        )
        if after:
            return (after[token] + model.k) / (after.total() + model.k * size)
        if model.unseen == "uniform":
            return 1 / size
    raise AssertionError("the empty window was seen")


@st.composite
def problems(draw):
    size, window = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    ids = st.lists(st.integers(0, size - 1), max_size=30)
    train = draw(ids.filter(lambda row: len(row) >= window))
    options = {
        "k": draw(st.sampled_from([0.0, 0.5])),
        "unseen": draw(st.sampled_from(["narrow", "uniform"])),
    }
    return size, SlidingWindowModel(window, **options), train, draw(ids)


@settings(max_examples=150)
@given(problems())
def test_equals_brute_force(problem):
    size, model, train, text = problem
    log_p = model.fit(train, size).log_probabilities(text)
    assert log_p.shape == (len(text),)
    for t, token in enumerate(text):
        expected = brute_force(train, size, model, text[:t], token)
        assert math.isclose(np.exp(log_p[t]), expected, abs_tol=1e-12)
        row = model.probabilities(text[:t])
        assert row.shape == (size,)
        assert math.isclose(row[token], expected, abs_tol=1e-12)
        assert math.isclose(row.sum(), 1)


def test_rows_equal_the_counts_by_hand():
    ids = [0, 1, 2, 1, 0, 2, 0, 1, 1]
    # After {0, 1}: 2 2 1. After {1, 2}: 1 0. After {0, 2}: 0 1.
    model = SlidingWindowModel(3, k=0).fit(ids, 3)
    for context in ([0, 1], [1, 0], [2, 2, 2, 0, 1]):
        assert model.probabilities(context).tolist() == [0, 1 / 3, 2 / 3]
    assert model.probabilities([2, 1]).tolist() == [0.5, 0.5, 0]
    assert model.probabilities([2, 0]).tolist() == [0.5, 0.5, 0]
    smooth = SlidingWindowModel(3, k=1).fit(ids, 3)
    assert smooth.probabilities([1, 0]).tolist() == [1 / 6, 2 / 6, 3 / 6]


def test_an_unseen_window_narrows_or_gives_up():
    ids = [0, 1, 2, 1, 0, 2, 0, 1, 1]
    narrow = SlidingWindowModel(3, k=0).fit(ids, 5)
    # {2, 2} never occurred: what followed 2 counts, which is 1 and 0.
    assert narrow.probabilities([2, 2]).tolist() == [0.5, 0.5, 0, 0, 0]
    # 4 never occurred at all: the frequencies of the tokens.
    assert narrow.probabilities([0, 4]).tolist() == [3 / 9, 4 / 9, 2 / 9, 0, 0]
    # The oldest token goes first: of [4, 1] the 1 is left, of [1, 4] nothing.
    assert narrow.probabilities([4, 1]).tolist() == [1 / 3, 1 / 3, 1 / 3, 0, 0]
    uniform = SlidingWindowModel(3, k=0, unseen="uniform").fit(ids, 5)
    for context in ([2, 2], [0, 4], [4, 1]):
        assert uniform.probabilities(context).tolist() == [0.2] * 5


@pytest.mark.parametrize("window", [1, 2])
def test_without_an_order_to_lose_it_is_the_ngram_model(window):
    rng = np.random.default_rng(0)
    train, text = rng.integers(0, 7, 97), rng.integers(0, 11, 53)
    model = SlidingWindowModel(window, k=0.5, unseen="uniform").fit(train, 11)
    ngram = NGramModel(window, k=0.5).fit(train, 11)
    np.testing.assert_allclose(
        model.log_probabilities(text), ngram.log_probabilities(text), rtol=1e-12
    )
    assert math.isclose(model.perplexity(text), ngram.perplexity(text))
    assert math.isclose(model.bits_per_token(text), ngram.bits_per_token(text))
    same = model.sample(17, prompt=[3], seed=5) == ngram.sample(17, prompt=[3], seed=5)
    assert same.all()


def test_where_the_order_says_all_the_bag_knows_nothing():
    # After 0, 1 comes 2, after 1, 0 comes 3: two sentences, each many times.
    sentences = np.array([[4, 0, 1, 2], [4, 1, 0, 3]])
    ids = sentences[np.random.default_rng(0).integers(0, 2, 499)].ravel()
    bag = SlidingWindowModel(3, k=0).fit(ids, 5)
    order = NGramModel(3, k=0).fit(ids, 5)
    assert order.probabilities([0, 1])[2] == 1
    np.testing.assert_allclose(bag.probabilities([0, 1])[[2, 3]], 0.5, atol=0.05)
    assert bag.perplexity(ids) > 1.1 * order.perplexity(ids)


def test_sampling_sees_the_window_and_no_more():
    model = SlidingWindowModel(3, k=0).fit([0, 1, 2, 3, 4, 0, 1, 2], 5)
    text = model.sample(6, prompt=[4, 4, 1, 2], temperature=0, seed=0)
    assert text.tolist() == [3, 4, 0, 1, 2, 3]
    assert text.dtype == np.int32
    # Both orders of the prompt are one bag.
    again = model.sample(6, prompt=[2, 1], temperature=0)
    assert again.tolist()[0] == 3


def test_a_large_vocabulary_does_not_overflow():
    size = 2**31 - 1
    ids = np.random.default_rng(0).integers(0, size, 97)
    model = SlidingWindowModel(5, k=0).fit(ids, size)
    log_p = model.log_probabilities(ids)
    assert math.isclose(log_p[0], -math.log(97))
    np.testing.assert_array_equal(log_p[1:], 0.0)


def test_the_file_brings_all_back(tmp_path):
    rng = np.random.default_rng(0)
    train, text = rng.integers(0, 5, 211), rng.integers(0, 7, 31)
    model = SlidingWindowModel(4, k=0.3, unseen="uniform").fit(train, 7)
    model.save(tmp_path / "m.json")
    loaded = SlidingWindowModel.load(tmp_path / "m.json")
    assert loaded.get_config() == model.get_config()
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(
        loaded.log_probabilities(text), model.log_probabilities(text)
    )
    fresh = SlidingWindowModel.from_config(SlidingWindowModel(2).get_config())
    assert repr(fresh) == "<SlidingWindowModel: window=2, k=1.0, not fitted>"
    with pytest.raises(ValueError, match="Call `fit"):
        fresh.save(tmp_path / "n.json")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"counts": [[[0, -3]], [[0, 1, 1]]]}, r"counts\[0\].* received -3 in row 0"),
        ({"counts": [[[0, 1]], [[0, 1, 1], [1, 0, 0]]]}, r"counts\[1\].*0 in row 1"),
        ({"counts": [[[0, 1]]]}, "list of 2 tables"),
        ({"counts": [[[0, 1]], [[0, 1]]]}, "rows of 3 whole numbers"),
        ({"counts": [[[0, 1]], [[0, 1, 1], [1]]]}, "rows of 3 whole numbers"),
        ({"counts": [[[0, 1]], [[0.5, 1, 1]]]}, r"counts\[1\]\[0\]\[0\]: expected"),
        ({"counts": [[[0, 1]], []]}, "rows of 3 whole numbers"),
        ({"counts": [[[5, 1]], [[0, 1, 1]]]}, r"counts\[0\]` holds 5"),
        ({"window": 0}, "window must be at least 1"),
        ({"window": 3, "counts": [[[0, 1]], [[0, 1, 1]], [[1, 0, 1, 1]]]}, "sorted"),
        ({"vocabulary_size": None}, "Call `fit"),
        ({"vocabulary_size": 2**40}, "at most"),
        ({"extra": 1}, "expected the key"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, message):
    path = tmp_path / "m.json"
    SlidingWindowModel(2).fit([0, 1], 2).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=f"m.json is damaged: .*{message}"):
        SlidingWindowModel.load(path)
    path.write_text(path.read_text()[:-5])
    with pytest.raises(ValueError, match="m.json.*not JSON"):
        SlidingWindowModel.load(path)


def test_wrong_arguments():
    for window, error in ((0, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="^window must"):
            SlidingWindowModel(window)
    with pytest.raises(ValueError, match="`k` must be zero or a positive.*-1"):
        SlidingWindowModel(k=-1)
    with pytest.raises(ValueError, match='Did you mean "narrow"'):
        SlidingWindowModel(unseen="narow")
    model = SlidingWindowModel(3)
    for use in (model.probabilities, model.log_probabilities):
        with pytest.raises(ValueError, match="Call `fit"):
            use([0])
    with pytest.raises(ValueError, match="2 tokens, fewer than window = 3"):
        model.fit([0, 1], 3)
    with pytest.raises(ValueError, match="0 tokens"):
        model.fit([], 3)
    with pytest.raises(ValueError, match="holds 3 at position 1"):
        model.fit([0, 3, 1], 3)
    model.fit([0, 1, 2], 3)
    with pytest.raises(ValueError, match="`context` holds -1"):
        model.probabilities([-1])
    with pytest.raises(ValueError, match="is empty"):
        model.perplexity([])

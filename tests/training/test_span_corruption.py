"""Spans taken out of texts: how many, where, and that nothing is lost."""

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.training import SpanCorruption

pytestmark = pytest.mark.once("NumPy arrays: the same on all backends")

MARKS = range(999, 499, -1)
rng = np.random.default_rng(0)


def spans_of(source, target):
    """Lengths of the spans that a target has behind its sentinels."""
    places = np.flatnonzero(target >= 500)
    return np.diff(places) - 1


@given(
    count=st.integers(2, 300),
    rate=st.floats(0.01, 0.99),
    mean_length=st.floats(1, 20),
    number=st.integers(0, 100),
)
def test_nothing_is_lost(count, rate, mean_length, number):
    corrupt = SpanCorruption(MARKS, rate=rate, mean_length=mean_length, seed=5)
    text = np.random.default_rng(count).integers(1, 400, count)
    source, target = corrupt(text, number)
    np.testing.assert_array_equal(corrupt.restore(source, target), text)
    assert source.dtype == target.dtype == "int32"
    marks = source[source >= 500]
    assert marks.tolist() == [*MARKS][: len(marks)]  # each once, in order
    assert target[target >= 500].tolist() == [*MARKS][: len(marks) + 1]
    assert target[0] == MARKS[0] and target[-1] == MARKS[len(marks)]
    assert (spans_of(source, target) >= 1).all()
    assert not np.any((source[1:] >= 500) & (source[:-1] >= 500))  # spans lie apart


def test_rate_and_mean_length_over_many_tokens():
    corrupt = SpanCorruption(MARKS)
    texts = [rng.integers(1, 400, n) for n in rng.integers(400, 600, 203)]
    tokens = sum(map(len, texts))
    assert tokens > 1e5
    sources, targets = corrupt.pairs(texts)
    taken = sum((t < 500).sum() for t in targets)
    assert taken / tokens == pytest.approx(0.15, abs=1e-3)
    lengths = np.concatenate(list(map(spans_of, sources, targets)))
    assert lengths.mean() == pytest.approx(3, abs=0.02)
    assert lengths.std() > 1  # and not all alike


def test_every_choice_is_equally_likely():
    corrupt = SpanCorruption([9, 8, 7], rate=0.5, mean_length=1.5)
    text = np.array([1, 2, 3, 4, 5, 6])  # 3 taken, in 2 spans: 1 + 2 or 2 + 1
    counts = collections.Counter(
        corrupt(text, number)[0].tobytes() for number in range(6000)
    )
    assert len(counts) == 2 * 6  # times the pairs out of 4 gaps
    assert max(counts.values()) < 1.2 * 500 and min(counts.values()) > 0.8 * 500


def test_seed_and_number_decide():
    text = np.arange(1, 80)
    first = SpanCorruption(MARKS, seed=3)
    again = SpanCorruption(MARKS, seed=3)
    first(text, 7)
    assert first(text, 11)[0].tolist() == again(text, 11)[0].tolist()
    assert first(text, 11)[0].tolist() != first(text, 12)[0].tolist()
    other = SpanCorruption(MARKS, seed=4)
    assert first(text, 11)[0].tolist() != other(text, 11)[0].tolist()
    sources, targets = first.pairs([text, text], start=11)
    assert sources[1].tolist() == first(text, 12)[0].tolist()
    assert targets[0].tolist() == first(text, 11)[1].tolist()


def test_what_a_model_does_not_say_is_left_out():
    corrupt = SpanCorruption([9, 8, 7])
    assert corrupt.restore([1, 9, 2, 8], [9, 5, 5, 7]).tolist() == [1, 5, 5, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([9],), "sentinels must be at least two distinct"),
        (([9, 8, 9],), "two distinct ids"),
        (([9, 8], {"rate": 0}), "rate must .* received 0"),
        (([9, 8], {"rate": 1}), "rate must .* received 1"),
        (
            ([9, 8], {"mean_length": 0.5}),
            "mean_length must be .* received 0.5",
        ),
    ],
)
def test_wrong_arguments(arguments, message):
    options = arguments[1] if len(arguments) > 1 else {}
    with pytest.raises(ValueError, match=message):
        SpanCorruption(arguments[0], **options)


def test_wrong_texts():
    corrupt = SpanCorruption([9, 8, 7])
    with pytest.raises(ValueError, match="no sentinel, received 8"):
        corrupt([1, 8, 2])
    with pytest.raises(ValueError, match=r"received shape \(1,\) of int64"):
        corrupt([1])
    with pytest.raises(ValueError, match="needs 4 sentinels for 3 spans, received 3"):
        corrupt([1] * 60)

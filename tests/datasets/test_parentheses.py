import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerasseq.datasets import is_balanced, parentheses

SLIDE_ROWS = (  # sequence, colors, label: the twelve examples of course C
    ((1, 1, -1, -1, 1, -1), 1, 1),
    ((1, -1, 1, -1), 1, 1),
    ((1, -1, 1, 1, -1, 1, -1, -1), 1, 1),
    ((1, 1, -1, -1, -1, 1, -1, 1), 1, 0),
    ((1, -1, -1, 1, 1, -1), 1, 0),
    ((1, -1, -1, 1), 1, 0),
    ((2, 0, 9, 7, 0, 9), 5, 1),
    ((1, 8, 3, 6), 5, 1),
    ((0, 9, 2, 4, 5, 2, 7, 7), 5, 1),
    ((0, 2, 7, 9, 7, 2, 7, 3), 5, 0),
    ((1, 8, 9, 0, 1, 9), 5, 0),
    ((1, 8, 7, 1), 5, 0),
)


@pytest.mark.parametrize("sequence, colors, label", SLIDE_ROWS)
def test_rows_of_the_course(sequence, colors, label):
    assert is_balanced(sequence, colors) == label


def test_the_course_has_six_rows_of_each_kind():
    kinds = Counter((colors, label) for _, colors, label in SLIDE_ROWS)
    assert kinds == {(1, 1): 3, (1, 0): 3, (5, 1): 3, (5, 0): 3}


@pytest.mark.parametrize("colors, n", [(1, 1), (1, 5), (2, 3), (3, 2), (5, 2)])
def test_as_many_balanced_strings_as_catalan_says(colors, n):
    symbols = (1, -1) if colors == 1 else range(2 * colors)
    strings = itertools.product(symbols, repeat=2 * n)
    catalan = math.comb(2 * n, n) // (n + 1)
    assert sum(is_balanced(s, colors) for s in strings) == catalan * colors**n


def test_skeletons_and_colors_are_uniform():
    size = 5003
    rows = parentheses(size, colors=2, lengths=(6, 6), kind="balanced", seed=0)
    counts = Counter(map(tuple, rows.sequences))
    assert len(counts) == 5 * 2**3
    skeletons = Counter()
    for row, count in counts.items():
        skeletons[tuple(symbol < 2 for symbol in row)] += count
    for found, number in ((counts, 40), (skeletons, 5)):
        expected = size / number
        chi2 = sum((c - expected) ** 2 / expected for c in found.values())
        # Mean number - 1, standard deviation sqrt(2 (number - 1)).
        assert len(found) == number
        assert chi2 < number - 1 + 4 * math.sqrt(2 * (number - 1))


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    st.integers(0, 37),
    st.integers(1, 7),
    st.sampled_from(["training", "balanced", "hard"]),
    st.integers(0, 10**6),
)
def test_every_string_is_what_its_label_says(size, colors, kind, seed):
    data = parentheses(size, colors=colors, kind=kind, seed=seed)
    low, high = (22, 40) if kind == "hard" else (4, 20)
    assert data.ids.shape == (size, 40 if kind == "hard" else 24)
    assert data.ids.dtype == data.labels.dtype == np.int32
    assert data.labels.sum() == (size if kind == "balanced" else -(-size // 2))
    for ids, label, row in zip(*data, strict=True):
        assert is_balanced(row, colors) == label
        assert low <= len(row) <= high
        assert len(row) % 2 == 0
        as_ids = [{1: 1, -1: 2}[s] for s in row] if colors == 1 else np.add(row, 1)
        np.testing.assert_array_equal(ids[: len(row)], as_ids)
        assert not ids[len(row) :].any()


def one_change_away(row, colors):
    symbols = (1, -1) if colors == 1 else range(2 * colors)
    places = itertools.product(range(len(row)), symbols)
    return any(is_balanced([*row[:i], s, *row[i + 1 :]], colors) for i, s in places)


@pytest.mark.parametrize("colors", [1, 5])
def test_hard_strings_are_wrong_in_one_place_only(colors):
    data = parentheses(58, colors=colors, kind="hard", seed=3)
    wrong = [
        r for r, label in zip(data.sequences, data.labels, strict=True) if not label
    ]
    assert len(wrong) == 29
    assert all(one_change_away(row, colors) for row in wrong)


def test_training_strings_are_wrong_in_three_ways():
    data = parentheses(6002, lengths=(20, 20), seed=5)
    wrong = [
        r for r, label in zip(data.sequences, data.labels, strict=True) if not label
    ]
    # A replaced symbol breaks the balance of some color; moves leave all as they were.
    # So a third is broken, and of the rest half is one swap away, which at length 20
    # keeps most of its adjacent pairs that sum to 9, as a shuffle does not.
    broken = [r for r in wrong if any(r.count(i) != r.count(9 - i) for i in range(5))]
    assert len(wrong) == 3001
    assert len(broken) == 1001
    moved = [r for r in wrong if all(r.count(i) == r.count(9 - i) for i in range(5))]
    pairs = [sum(a + b == 9 for a, b in itertools.pairwise(r)) for r in moved]
    assert 0.3 < np.mean(np.array(pairs) >= 4) < 0.7


def test_lengths_and_labels():
    data = parentheses(3001, lengths=(5, 9), seed=0)
    assert data.ids.shape == (3001, 8)
    assert {len(row) for row in data.sequences} == {6, 8}
    wrong = np.array([len(r) for r in data.sequences])[data.labels == 0]
    right = np.array([len(r) for r in data.sequences])[data.labels == 1]
    assert abs(wrong.mean() - right.mean()) < 0.15  # the length tells nothing
    # Labels come in no order.
    assert 1300 < np.count_nonzero(np.diff(data.labels)) < 1700


def test_seed():
    one, same, other = (parentheses(23, seed=s) for s in (7, 7, 8))
    np.testing.assert_array_equal(one.ids, same.ids)
    assert one.sequences == same.sequences != other.sequences


def test_wrong_arguments():
    for argument, value, error in (
        ("colors", 0, ValueError),
        ("colors", 2.0, TypeError),
        ("lengths", (3, 3), ValueError),
        ("lengths", (8, 4), ValueError),
        ("lengths", (0, 4), ValueError),
        ("lengths", 8, ValueError),
        ("kind", "hrad", ValueError),
    ):
        with pytest.raises(error, match=f"^`?{argument}"):
            parentheses(5, **{argument: value})
    with pytest.raises(ValueError, match='Did you mean "hard"'):
        parentheses(5, kind="hrad")
    with pytest.raises(ValueError, match="^size must be at least 0"):
        parentheses(-1)
    with pytest.raises(ValueError, match="holds 10 at position 1.*0 to 9"):
        is_balanced([0, 10])
    with pytest.raises(ValueError, match="1 and -1"):
        is_balanced([1, 0], colors=1)
    assert is_balanced([])

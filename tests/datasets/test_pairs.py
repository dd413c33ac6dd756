import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.datasets import Pairs, number_names, sort_task, split
from kerasseq.datasets.drawing import shares


def zipped(pairs):
    return list(zip(*pairs, strict=True))


def test_nothing_is_lost_and_sizes_are_right():
    pairs = number_names(1009, seed=3)
    parts = split(pairs, (0.7, 0.2, 0.1), seed=5)
    assert [len(part.sources) for part in parts] == [706, 202, 101]
    assert sorted(sum(map(zipped, parts), [])) == sorted(zipped(pairs))
    assert all(isinstance(part, Pairs) for part in parts)


def test_no_number_of_the_test_was_seen_in_training():
    training, test = split(number_names(2003), (0.9, 0.1))
    assert not set(training.sources) & set(test.sources)
    assert not set(training.targets) & set(test.targets)


texts = st.lists(st.tuples(*[st.sampled_from("abcdefgh")] * 2), min_size=1, max_size=29)


@given(texts, st.integers(0, 7))
def test_parts_share_no_text_however_pairs_hang_together(rows, seed):
    pairs = Pairs(*map(list, zip(*rows, strict=True)))
    try:
        one, other = split(pairs, (0.7, 0.3), seed)
    except ValueError as error:
        assert "without a pair" in str(error)
        return
    for side in (0, 1):
        assert not set(one[side]) & set(other[side])
    assert sorted(zipped(one) + zipped(other)) == sorted(rows)


def test_pairs_connected_through_other_pairs_stay_together():
    pairs = Pairs(list("aabbcd"), list("pqqrst"))  # a-p, a-q, b-q, b-r; c-s; d-t
    for seed in range(19):
        parts = split(pairs, (0.5, 0.5), seed)
        assert sorted(map(sorted, (set(part.sources) for part in parts))) in (
            [["a", "b"], ["c", "d"]],
            [["a", "b", "c"], ["d"]],
            [["a", "b", "d"], ["c"]],
        )


def test_a_big_group_goes_where_there_is_room():
    pairs = Pairs(["same"] * 20 + list("abcdefghij"), [str(i) for i in range(30)])
    for seed in range(7):
        training, test = split(pairs, (0.8, 0.2), seed)
        assert "same" in training.sources and len(test.sources) == 6


def test_the_seed_decides_and_the_order_stays():
    pairs = sort_task(101)
    first, second = split(pairs, seed=1), split(pairs, seed=2)
    assert first == split(pairs, seed=1) != second
    for part in first:
        places = [pairs.sources.index(source) for source in part.sources]
        assert places == sorted(places)


def test_one_part_and_an_empty_one():
    pairs = Pairs(["a", "b"], ["c", "d"])
    assert split(pairs, [1]) == [pairs]
    assert split(pairs, [1, 0]) == [pairs, Pairs([], [])]


@pytest.mark.parametrize(
    "pairs, fractions, message",
    [
        ((["a"], ["b", "c"]), [1], "as many targets as sources, received 2 and 1"),
        ([["a", "b"]] * 3, [1], "two lists of texts"),
        (3, [1], "two lists of texts"),
        ((["a"], ["b"]), (0.5, 0.4), "add up to 1"),
        ((["a"], ["b"]), (1.5, -0.5), r"fractions\[0\]"),
        ((["a"], ["b"]), (0.5, 0.5), "without a pair"),
        ((["a", "a"], ["b", "c"]), (0.5, 0.5), "2 pairs in 1 groups"),
    ],
)
def test_refused(pairs, fractions, message):
    with pytest.raises(ValueError, match=message):
        split(pairs, fractions)


@given(st.integers(1, 99), st.lists(st.integers(0, 31), min_size=1, max_size=7))
def test_shares_are_even_but_for_what_runs_out(count, available):
    if count > sum(available):
        with pytest.raises(ValueError, match="only"):
            shares(count, available, "things")
        return
    found = shares(count, available, "things")
    assert sum(found) == count
    most = max(found)
    for number, there in zip(found, available, strict=True):
        assert number == there or most - 1 <= number < there

"""Batches of pairs: what comes, in which order, and in which shapes."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.core.padding import END, PADDING, START
from kerasseq.training import PairBatches
from kerasseq.training.pair_batches import pair_arrays

pytestmark = pytest.mark.once("NumPy arrays: the same on all backends")

LENGTHS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40
)
SIZES = {"batch_size": st.integers(1, 50), "groups": st.integers(1, 4)}


def rows_of(lengths):
    """Pairs that can be told apart: each id holds the number of its pair."""
    sources = [np.full(s, 100 + n, "int32") for n, (s, _) in enumerate(lengths)]
    targets = [np.full(t, 900 + n, "int32") for n, (_, t) in enumerate(lengths)]
    return sources, targets


def made(lengths, batch_size, groups=3, seed=0):
    return PairBatches(*rows_of(lengths), batch_size, seed, groups)


def pairs_in(batch, lengths):
    """The numbers of the pairs in a batch, each checked from end to end."""
    (source, target), wanted = batch
    assert target.shape == wanted.shape
    assert {x.dtype.name for x in (source, target, wanted)} == {"int32"}
    for s, t, w in zip(source, target, wanted, strict=True):
        number = s[0] - 100
        S, T = lengths[number]
        sources, targets = rows_of(lengths)
        assert s[:S].tolist() == sources[number].tolist()
        assert t[: T + 1].tolist() == [START, *targets[number]]
        assert w[: T + 1].tolist() == [*targets[number], END]
        for row, end in ((s, S), (t, T + 1), (w, T + 1)):
            assert (row[end:] == PADDING).all()
    return (source[:, 0] - 100).tolist()


@given(lengths=LENGTHS, **SIZES)
def test_a_pass(lengths, batch_size, groups):
    batches = made(lengths, batch_size, groups)
    size = min(batch_size, len(lengths))
    seen, shapes = [], []
    assert batches.steps_per_epoch > 0
    for n in range(batches.steps_per_epoch):
        batch = batches.batch(n)
        numbers = pairs_in(batch, lengths)
        assert len(numbers) == size
        seen += numbers
        (source, target), _ = batch
        shapes.append((source.shape[1], target.shape[1]))
    assert len(set(seen)) == len(seen)  # each pair once at most
    # In each group less than a batch waits, and one more if it is a large one.
    assert len(lengths) - len(seen) <= len(batches.groups) * size
    assert set(shapes) == set(batches.shapes)
    assert len(batches.shapes) <= groups
    for (s, t), (longer_s, longer_t) in itertools.pairwise(batches.shapes):
        assert s < longer_s and t < longer_t


@given(lengths=LENGTHS, start=st.integers(0, 50), **SIZES)
def test_any_two_batches_in_a_row_show_which_lengths_change(
    lengths, start, batch_size, groups
):
    """TensorFlow looks at two, from wherever a run goes on."""
    batches = made(lengths, batch_size, groups)
    if len(batches.shapes) > 1:
        one, two = (batches.batch(start + n)[0] for n in range(2))
        assert all(a.shape[1] != b.shape[1] for a, b in zip(one, two, strict=True))


def test_where_all_are_of_one_length_there_is_one_shape():
    assert made([(5, 3)] * 40, 4).shapes == [(5, 4)]
    assert made([(5, 3)] * 40, 4).steps_per_epoch == 10
    assert made([(5, 3)] * 39 + [(5, 4)], 4).shapes == [(5, 4), (6, 5), (7, 6)]


def test_groups_are_of_like_length():
    """Shapes are no larger than they must be."""
    lengths = [(n, n) for n in range(1, 31)]
    np.random.default_rng(0).shuffle(lengths)
    assert made(lengths, 5).shapes == [(10, 11), (20, 21), (30, 31)]
    assert made(lengths, 5, groups=2).shapes == [(15, 16), (30, 31)]
    assert made(lengths, 11).shapes == [(15, 16), (30, 31)]  # two batches at most
    assert made(lengths, 31).shapes == [(30, 31)]


@given(lengths=LENGTHS, start=st.integers(0, 9), **SIZES)
def test_a_resumed_stream_goes_on(lengths, start, batch_size, groups):
    whole = made(lengths, batch_size, groups).stream()
    for _ in range(start):
        next(whole)
    resumed = made(lengths, batch_size, groups).stream(start)
    for _ in range(4):
        for one, other in zip(flat(next(whole)), flat(next(resumed)), strict=True):
            np.testing.assert_array_equal(one, other)


def flat(batch):
    (source, target), wanted = batch
    return source, target, wanted


def test_the_order_depends_on_seed_and_pass():
    lengths = [(3, 3)] * 30

    def order(seed, first):
        batches = made(lengths, 3, seed=seed)
        return [
            n
            for step in range(first, first + batches.steps_per_epoch)
            for n in pairs_in(batches.batch(step), lengths)
        ]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(2, 0)
    assert order(1, 0) != order(1, 10)
    assert sorted(order(1, 0)) == sorted(order(1, 10)) == list(range(30))


def test_those_that_wait_come_in_another_pass():
    lengths = [(n % 7 + 1, n % 3 + 1) for n in range(11)]
    batches = made(lengths, 3)
    seen = {n for step in range(60) for n in pairs_in(batches.batch(step), lengths)}
    assert seen == set(range(11))


def test_sources_that_are_images():
    images = np.arange(7 * 4 * 4).reshape(7, 4, 4)
    targets = [np.full(n + 1, 5 + n) for n in range(7)]
    batches = PairBatches(images, targets, 2)
    for step in range(batches.steps_per_epoch):
        (source, target), _ = batches.batch(step)
        for image, ids in zip(source, target, strict=True):
            np.testing.assert_array_equal(image, images[ids[1] - 5])
    (source, _), _ = pair_arrays(images, targets)
    assert source is images


def test_sources_in_a_tuple():
    sources, targets = rows_of([(2, 3), (5, 2), (3, 7)])
    inputs, wanted = PairBatches(sources, targets, 3).batch(0)
    same_inputs, same = PairBatches(tuple(sources), tuple(targets), 3).batch(0)
    for one, other in zip((*inputs, wanted), (*same_inputs, same), strict=True):
        np.testing.assert_array_equal(one, other)


def test_messages():
    with pytest.raises(ValueError, match="at least 1, received 2 and 1"):
        PairBatches([[3], [4]], [[5]])
    with pytest.raises(ValueError, match="received 0 and 0"):
        PairBatches([], [])
    with pytest.raises(ValueError, match="batch_size must be at least 1, received 0"):
        PairBatches([[3]], [[5]], batch_size=0)
    with pytest.raises(TypeError, match="seed must be a whole number, received None"):
        PairBatches([[3]], [[5]], seed=None)

"""Batches whose order depends on the seed and the number of the batch alone."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.training import ArrayBatches, TextBatches
from kerasseq.training.batches import fit_arguments

pytestmark = pytest.mark.once("NumPy arrays: the same on all backends")

sizes = st.integers(1, 7)
seeds = st.integers(0, 5)


@given(rows=st.integers(1, 40), size=sizes, seed=seeds)
def test_each_row_comes_once_in_a_pass(rows, size, seed):
    x = np.arange(rows)
    batches = ArrayBatches(x, x * 10, size, seed)
    passes = []
    for which in range(2):
        start = which * batches.steps_per_epoch
        numbers = range(start, start + batches.steps_per_epoch)
        pairs = [batches.batch(n) for n in numbers]
        assert all(np.array_equal(y, x * 10) for x, y in pairs)
        assert {len(x) for x, _ in pairs} == {min(size, rows)}
        seen = np.concatenate([x for x, _ in pairs]).tolist()
        assert len(set(seen)) == len(seen)
        assert rows - len(seen) < size  # only rows too few for a batch wait
        passes.append(seen)
    if rows > 20:
        assert passes[0] != passes[1]


@given(
    length=sizes,
    extra=st.integers(1, 60),
    size=sizes,
    seed=seeds,
    number=st.integers(0, 9),
)
def test_blocks_of_a_text(length, extra, size, seed, number):
    ids = np.arange(length + extra) + 100
    batches = TextBatches(ids, length, size, seed)
    x, y = batches.batch(number)
    assert x.shape == y.shape == (batches.batch_size, length)
    np.testing.assert_array_equal(y, x + 1)  # the text is shifted by one
    np.testing.assert_array_equal(x, x[:, :1] + np.arange(length))
    starts = []
    for n in range(batches.steps_per_epoch):
        starts += batches.batch(n)[0][:, 0].tolist()
    assert len(set(starts)) == len(starts)
    assert len({start % length for start in starts}) == 1  # blocks do not overlap


@given(size=sizes, seed=seeds, order=st.permutations(range(9)))
def test_a_batch_depends_on_its_number_alone(size, seed, order):
    ids = np.arange(80)

    def make():
        return TextBatches(ids, 5, size, seed), ArrayBatches(ids, ids, size * 4, seed)

    for fresh, used in zip(make(), make(), strict=True):
        in_order = [fresh.batch(n)[0] for n in range(9)]
        for n in order:
            np.testing.assert_array_equal(used.batch(n)[0], in_order[n])
        for start in (0, 4):
            stream = itertools.islice(fresh.stream(start), 9 - start)
            for n, (x, _) in enumerate(stream, start):
                np.testing.assert_array_equal(x, in_order[n])


def test_seeds_and_passes_differ():
    ids = np.arange(200)
    first = TextBatches(ids, 5, 4, seed=0)
    other = TextBatches(ids, 5, 4, seed=1)
    assert not np.array_equal(first.batch(0)[0], other.batch(0)[0])
    offsets = {first.batch(n * first.steps_per_epoch)[0][0, 0] % 5 for n in range(40)}
    assert offsets == set(range(5))  # each block boundary moves from pass to pass


def test_every_token_is_seen_in_some_pass():
    ids = np.arange(23)
    batches = TextBatches(ids, 5, 2, seed=0)
    seen = {int(i) for n in range(200) for i in batches.batch(n)[0].ravel()}
    assert seen == set(range(22))  # the last is only ever predicted


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TextBatches(np.arange(5), 5), "received 5: too few for one sequence"),
        (lambda: TextBatches(np.arange(0), 5), "sequence_length of at most 1"),
        (lambda: TextBatches(np.arange(9), 0), "sequence_length must be at least 1"),
        (lambda: TextBatches(np.arange(9), 2, 0), "batch_size must be at least 1"),
        (
            lambda: ArrayBatches(np.ones(3), np.ones(2)),
            "same number of rows, .* received 3 and 2",
        ),
        (lambda: ArrayBatches(np.ones(0), np.ones(0)), "received 0 and 0"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_number_of_batches_in_an_epoch_is_a_number():
    batches = ArrayBatches(np.arange(7), np.arange(7), 2)
    for wrong, error in ((0, ValueError), (np.ones(3), TypeError), ("3", TypeError)):
        with pytest.raises(error, match="steps_per_epoch must be"):
            fit_arguments(batches, wrong, {"initial_epoch": 0})

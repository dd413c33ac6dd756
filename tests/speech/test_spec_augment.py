"""SpecAugment: where the masks lie, how wide they are, and when there are any."""

import numpy as np
import pytest
from keras import ops

from kerasseq.layers import SpecAugment
from tests.layer_checks import called

pytestmark = pytest.mark.everywhere("random numbers and comparisons of the backend")

RNG = np.random.default_rng(0)
B, T, D = 211, 23, 13
X = RNG.uniform(1, 2, size=(B, T, D)).astype("float32")
LENGTHS = RNG.integers(0, T + 1, size=B)
RIGHT = np.arange(T) < LENGTHS[:, None]
LEFT = RIGHT[:, ::-1].copy()


def array(x):
    return ops.convert_to_numpy(x)


def hidden(layer, mask):
    """Which frames and which frequencies are masked: `(B, T)` and `(B, D)`."""
    y = array(called(layer, X, mask=mask, training=True))
    np.testing.assert_array_equal(y[~mask], 0)
    masked = y == -1
    np.testing.assert_array_equal(
        y[~masked & mask[..., None]], X[~masked & mask[..., None]]
    )
    frequencies = (masked | ~mask[..., None]).all(axis=1) & mask.any(axis=1)[:, None]
    return masked.all(axis=2), frequencies


def widths(rows):
    """The number of masked places in each row, which are side by side."""
    for row in rows:
        at = np.flatnonzero(row)
        assert not at.size or np.ptp(at) == at.size - 1
    return rows.sum(axis=1)


@pytest.mark.parametrize("mask", [RIGHT, LEFT], ids=["right", "left"])
def test_masks_lie_within_the_real_frames(mask):
    layer = SpecAugment(0, 0, 1, 7, max_time_share=0.5, mask_value=-1.0, seed=3)
    frames, _ = hidden(layer, mask)
    assert not np.any(frames & ~mask)
    found = widths(frames)
    assert np.all(found <= np.minimum(7, LENGTHS // 2))
    long = LENGTHS >= 14
    assert set(found[long]) == set(range(8))
    # Uniform: every frame of the long rows is masked at some time, also the ends.
    first = np.array([f[m][0] for f, m in zip(frames[long], mask[long], strict=True)])
    last = np.array([f[m][-1] for f, m in zip(frames[long], mask[long], strict=True)])
    assert first.any() and last.any()
    assert abs(found[long].mean() - 3.5) < 3 * 2.3 / np.sqrt(long.sum())


@pytest.mark.full("the spans of frames run everywhere")
def test_frequencies():
    layer = SpecAugment(1, 5, 0, 0, mask_value=-1.0, seed=3)
    frames, frequencies = hidden(layer, np.ones((B, T), bool))
    assert not frames.any()
    assert set(widths(frequencies)) == set(range(6))
    assert frequencies.any(axis=0).all()
    wide = SpecAugment(1, 500, 1, 500, mask_value=-1.0, seed=3)
    frames, frequencies = hidden(wide, RIGHT)
    assert frequencies.sum(axis=1).max() == D  # no more than there are
    assert np.all(frames.sum(axis=1) <= LENGTHS)


@pytest.mark.full("the spans of frames run everywhere")
def test_several_masks():
    layer = SpecAugment(3, 2, 2, 3, mask_value=-1.0, seed=5)
    frames, frequencies = hidden(layer, np.ones((B, T), bool))
    assert frequencies.sum(axis=1).max() > 4 and frames.sum(axis=1).max() > 4
    assert frequencies.sum(axis=1).max() <= 6 and frames.sum(axis=1).max() <= 6


def test_the_mean_of_the_real_frames_replaces_them():
    layer = SpecAugment(1, 1, 1, 5, seed=3)
    garbage = np.where(RIGHT[..., None], X, np.nan)
    y = array(called(layer, garbage, mask=RIGHT, training=True))
    changed = (y != X) & RIGHT[..., None]
    assert changed.any()
    for row, (x, real) in enumerate(zip(X, RIGHT, strict=True)):
        if changed[row].any():
            np.testing.assert_allclose(y[row][changed[row]], x[real].mean(), rtol=1e-5)


def test_only_in_training_and_seeded():
    np.testing.assert_array_equal(array(SpecAugment(seed=1)(X)), X)
    none = SpecAugment(0, 27, 0, 100)
    np.testing.assert_array_equal(array(none(X, training=True)), X)
    one, same, other = (SpecAugment(seed=seed) for seed in (1, 1, 2))
    first, again = (array(one(X, training=True)) for _ in range(2))
    np.testing.assert_array_equal(array(same(X, training=True)), first)
    assert np.any(first != again)
    assert np.any(array(other(X, training=True)) != first)


@pytest.mark.once("error messages")
def test_wrong_arguments():
    with pytest.raises(ValueError, match="num_freq_masks must be at least 0"):
        SpecAugment(-1)
    with pytest.raises(ValueError, match="max_time_share must lie between 0 and 1"):
        SpecAugment(max_time_share=2.0)
    with pytest.raises(ValueError, match=r"x must have shape .* received shape \(23,"):
        SpecAugment()(X[0])

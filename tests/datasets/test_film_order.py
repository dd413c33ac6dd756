"""Halves of films: both orders, and the control with shuffled frames."""

import numpy as np
import pytest

from kerasseq import datasets


def test_both_orders():
    films = np.arange(3 * 6).reshape(3, 6, 1, 1, 1)
    shown, exchanged = datasets.film_halves(films)
    assert exchanged.tolist() == [0, 1] * 3
    for n in range(3):
        first, second = films[n, :3], films[n, 3:]
        np.testing.assert_array_equal(shown[2 * n], films[n])
        np.testing.assert_array_equal(shown[2 * n + 1], [*second, *first])


def test_shuffled_frames_stay_in_their_half():
    films = np.tile(np.arange(4), (4001, 1)).reshape(4001, 4, 1, 1, 1)
    shown, exchanged = datasets.film_halves(films, shuffle=True, seed=1)
    orders = shown[..., 0, 0, 0]
    for label, early in ((0, orders[0::2, :2]), (1, orders[1::2, 2:])):
        assert set(exchanged[label::2]) == {label}
        assert (np.sort(early) == [0, 1]).all()
        assert abs((early[:, 0] == 0).mean() - 0.5) < 0.032  # four deviations
    # Both orders of a film have the same halves, so that no half tells the label.
    np.testing.assert_array_equal(orders[0::2], np.roll(orders[1::2], 2, axis=1))
    again = datasets.film_halves(films, shuffle=True, seed=1).films
    np.testing.assert_array_equal(shown, again)


def test_steps_inside_halves_tell_the_order_and_shuffled_ones_do_not():
    """A rule by hand: the motion inside the halves against that between them."""
    scenes = datasets.scenes(2003, frames=4)

    def share_right(**options):
        films, exchanged = scenes.halves(**options)
        assert len(films) == 2 * sum(motion != "still" for motion in scenes.layouts)
        lit = films.any(axis=-1).astype(float)  # (B, T, H, W)
        weights = lit.sum(axis=(2, 3))
        middle = [
            (lit * np.arange(24).reshape(shape)).sum(axis=(2, 3)) / weights
            for shape in ((1, 1, 1, 24), (1, 1, 24, 1))
        ]
        x, y = (np.diff(m, axis=1) for m in middle)
        inside = x[:, 0] + y[:, 0] + x[:, 2] + y[:, 2]
        between = x[:, 1] + y[:, 1]
        return np.mean((inside * between < 0) == exchanged)

    assert share_right() == 1
    assert abs(share_right(shuffle=True) - 0.5) < 0.03


def test_refused():
    films = np.zeros((2, 4, 5, 5, 3), "uint8")
    for wrong in (films[0], films[:, :3], films[:, :2]):
        with pytest.raises(ValueError, match="even number of at least 4 frames"):
            datasets.film_halves(wrong)
    with pytest.raises(TypeError, match="films must be an array"):
        datasets.film_halves([1])
    with pytest.raises(TypeError, match="shuffle must be True or False"):
        datasets.film_halves(films, shuffle="yes")
    with pytest.raises(ValueError, match=r"received the shape \(5, 24, 24, 3\)"):
        datasets.scenes(5).halves()
    films = datasets.scenes(60, frames=4)
    still = films.take(
        [n for n, motion in enumerate(films.layouts) if motion == "still"]
    )
    with pytest.raises(ValueError, match="still ones alone"):
        still.halves()

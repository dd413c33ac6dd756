"""Power laws of the loss: exact ones are found, and what is not known is said."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from kerasseq.training import power_law

pytestmark = pytest.mark.once("arithmetic of NumPy")
N = np.array([1e3, 7e3, 4e4, 3e5, 2e6])


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(A=st.floats(0.1, 30), alpha=st.floats(0.02, 1), E=st.floats(0, 3))
def test_an_exact_law_with_a_known_floor_is_found(A, alpha, E):
    law = power_law(N, A * N**-alpha + E, floor=E, samples=3)
    assert law.factor == pytest.approx(A, rel=1e-3)
    assert law.exponent == pytest.approx(alpha, rel=1e-3)
    assert law.residual < 1e-6
    np.testing.assert_allclose(law.predict(N), A * N**-alpha + E, rtol=1e-5)
    assert law.exponents == pytest.approx((alpha, alpha), rel=1e-3)


@pytest.mark.parametrize("E", [0.0, 0.7, 2.0])
def test_a_floor_that_is_free_is_found(E):
    law = power_law(N, 6 * N**-0.3 + E, floor=None, samples=3)
    assert law.floor == pytest.approx(E, abs=0.01)
    assert law.exponent == pytest.approx(0.3, abs=0.01)


def test_with_one_floor_the_slope_is_that_of_numpy():
    rng = np.random.default_rng(0)
    losses = (4 * N**-0.1)[:, None] * np.exp(0.03 * rng.normal(size=(5, 3)))
    law = power_law(N, losses)
    x = np.repeat(np.log(N), 3)
    slope, intercept = np.polyfit(x, np.log(losses).ravel(), 1)
    assert law.exponent == pytest.approx(-slope)
    assert law.factor == pytest.approx(np.exp(intercept))


def test_intervals_cover_the_truth_and_grow_where_little_is_known():
    rng = np.random.default_rng(1)
    covered, widths = 0, []
    for _ in range(40):
        losses = (5 * N**-0.2 + 1)[:, None] * np.exp(0.02 * rng.normal(size=(5, 7)))
        law = power_law(N, losses, floor=1.0, samples=200)
        low, high = law.exponents
        covered += low <= 0.2 <= high
        widths.append(high - low)
    assert covered >= 33  # of 40, expected 38; a bootstrap of 7 is a little narrow
    free = power_law(N, losses, floor=None, samples=200)
    assert free.exponents[1] - free.exponents[0] > 2 * np.mean(widths)
    assert free.floors[0] <= 1 <= free.floors[1]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([1, 2], [1, 2, 3]), ValueError, "one row for each size"),
        (([1, 1], [2, 3]), ValueError, "at least 2 different"),
        (([1, 2], [2, 0]), ValueError, "losses must be positive"),
        (([-1, 2], [2, 1]), ValueError, "sizes must be positive"),
        (([1, 2], ["a", "b"]), TypeError, "must be numbers"),
        (([1, 2], [np.nan, 1]), ValueError, "losses must be positive"),
        (([], []), ValueError, "one row for each size"),
    ],
)
def test_wrong_numbers_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        power_law(*arguments)


def test_wrong_floors_are_named():
    for floor in (1.0, -0.1):
        with pytest.raises(ValueError, match="floor must be in"):
            power_law([1, 2], [2, 1], floor=floor)
    with pytest.raises(ValueError, match="at least 3 different"):
        power_law([1, 2], [2, 1], floor=None)

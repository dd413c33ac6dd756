"""Labels of which a known share is wrong."""

import numpy as np
import pytest

from kerasseq.datasets import is_balanced, noisy_parentheses

pytestmark = pytest.mark.once("NumPy alone")


def test_labels_are_flipped_independently_of_the_strings():
    data = noisy_parentheses(2003, flipped=0.2, colors=2, lengths=(4, 6), seed=3)
    right = [is_balanced(sequence, 2) for sequence in data.sequences]
    np.testing.assert_array_equal(data.balanced, right)
    flipped = data.labels != data.balanced
    error = (0.2 * 0.8 / 2003) ** 0.5
    assert abs(flipped.mean() - 0.2) < 4 * error
    for label in (0, 1):
        of_label = flipped[data.balanced == label]
        assert abs(of_label.mean() - 0.2) < 4 * (0.2 * 0.8 / len(of_label)) ** 0.5
    assert data.accuracy == 0.8
    assert data.optimum == pytest.approx(0.7219, abs=1e-4)
    assert data.labels.dtype == data.balanced.dtype == "int32"
    again = noisy_parentheses(2003, flipped=0.2, colors=2, lengths=(4, 6), seed=3)
    assert again.sequences == data.sequences
    np.testing.assert_array_equal(again.labels, data.labels)


@pytest.mark.parametrize(("flipped", "optimum"), [(0, 0.0), (0.5, 1.0)])
def test_no_noise_and_nothing_but_noise(flipped, optimum):
    data = noisy_parentheses(7, flipped=flipped, seed=0)
    assert data.optimum == optimum and data.accuracy == 1 - flipped
    assert flipped or (data.labels == data.balanced).all()


@pytest.mark.parametrize("flipped", [-0.1, 0.6, float("nan")])
def test_a_share_that_is_none(flipped):
    with pytest.raises(ValueError, match="flipped must be from 0 to 0.5"):
        noisy_parentheses(3, flipped=flipped)

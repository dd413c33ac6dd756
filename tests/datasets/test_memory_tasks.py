"""Chains of pairs, and bits to copy."""

import numpy as np
import pytest

from kerasseq.datasets import chains, copy_bits

pytestmark = pytest.mark.once("NumPy alone")


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_chains_lead_to_their_answers(steps):
    data = chains(331, pairs=5, symbols=11, steps=steps, seed=3)
    leads_on = 0
    for query, keys, values, answer, places in zip(*data, strict=True):
        pairs = dict(zip(keys.tolist(), values.tolist(), strict=True))
        assert len(pairs) == 5
        symbol = query
        for place in places:
            assert keys[place] == symbol
            symbol = pairs[symbol]
        assert symbol == answer
        leads_on += sum(value in pairs for value in values.tolist())
    assert 0.4 < leads_on / (331 * 5) < 0.95  # others lead nowhere
    assert data.answers.min() == 0 and data.answers.max() == 10
    again = chains(331, pairs=5, symbols=11, steps=steps, seed=3)
    np.testing.assert_array_equal(again.values, data.values)
    assert (chains(331, pairs=5, symbols=11, seed=4).keys != data.keys).any()


def test_bits_are_repeated_after_the_mark():
    data = copy_bits(131, bits=3, lengths=(2, 5), seed=1)
    assert data.x.shape == (131, 11, 4) and data.y.shape == (131, 11, 3)
    counts = data.x[..., 3].argmax(axis=1)
    assert sorted(set(counts.tolist())) == [2, 3, 4, 5]
    for x, y, weights, mask, n in zip(*data, counts, strict=True):
        np.testing.assert_array_equal(y[n + 1 : 2 * n + 1], x[:n, :3])
        assert weights.sum() == n and weights[n + 1 : 2 * n + 1].all()
        assert mask.sum() == 2 * n + 1 and mask[: 2 * n + 1].all()
        assert not x[n + 1 :].any() and not y[: n + 1].any() and x[n].sum() == 1
    assert 0.4 < data.y[data.weights > 0].mean() < 0.6


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        (chains, {"symbols": 12}, "symbols must be more than the 12 pairs"),
        (chains, {"pairs": 3, "steps": 4}, "steps must be at most the number of pairs"),
        (chains, {"pairs": 2.5}, "pairs must be a whole number"),
        (copy_bits, {"lengths": (3, 2)}, "the smallest and the largest number"),
        (copy_bits, {"bits": 0}, "bits must be at least 1"),
    ],
)
def test_wrong_sizes(function, given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        function(3, **given)

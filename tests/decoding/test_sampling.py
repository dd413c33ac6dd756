"""Drawing the next token."""

import numpy as np
import pytest

from kerasseq.decoding import sample

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

LOGITS = np.log(np.array([[0.05, 0.5, 0.15, 0.3]]))
MANY = 20000


def drawn(seed=0, logits=LOGITS, **options):
    """Frequencies of many draws."""
    rng = np.random.default_rng(seed)
    tokens = sample(np.repeat(logits, MANY, axis=0), rng, **options)
    return np.bincount(tokens, minlength=logits.shape[-1]) / MANY


def softmax(a):
    e = np.exp(a - a.max())
    return e / e.sum()


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_frequencies_are_those_of_softmax(temperature):
    expected = softmax(LOGITS[0] / temperature)
    np.testing.assert_allclose(drawn(temperature=temperature), expected, atol=0.015)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"top_k": 1}, [0, 1, 0, 0]),
        ({"top_k": 2}, [0, 5 / 8, 0, 3 / 8]),
        ({"top_k": 99}, [0.05, 0.5, 0.15, 0.3]),
        ({"top_p": 0.49}, [0, 1, 0, 0]),
        ({"top_p": 0.51}, [0, 5 / 8, 0, 3 / 8]),
        ({"top_p": 0.81}, [0, 10 / 19, 3 / 19, 6 / 19]),
        ({"top_p": 1.0}, [0.05, 0.5, 0.15, 0.3]),
        ({"top_k": 2, "top_p": 0.6}, [0, 1, 0, 0]),  # of the two, the first has 5/8
        ({"temperature": 0}, [0, 1, 0, 0]),
        ({"temperature": 1e-9}, [0, 1, 0, 0]),
        ({"temperature": 1e9}, [0.25] * 4),
    ],
)
def test_what_may_be_drawn(options, expected):
    found = drawn(**options)
    np.testing.assert_allclose(found, expected, atol=0.015)
    np.testing.assert_array_equal(found == 0, np.array(expected) == 0)


def test_ties_go_to_the_first():
    level = np.zeros((1, 4))
    assert sample(level, np.random.default_rng(0), temperature=0).tolist() == [0]
    np.testing.assert_allclose(
        drawn(logits=level, top_k=2), [0.5, 0.5, 0, 0], atol=0.015
    )


def test_rows_are_drawn_for_themselves():
    logits = np.log(np.array([[0.9, 0.1, 1e-9], [1e-9, 0.1, 0.9]]))
    rng = np.random.default_rng(0)
    tokens = np.stack([sample(logits, rng, top_p=0.5) for _ in range(20)])
    np.testing.assert_array_equal(tokens, [[0, 2]] * 20)


def test_huge_and_masked_logits():
    logits = np.array([[1e30, -np.inf, -1e30, 1e30]], "float32")
    np.testing.assert_allclose(drawn(logits=logits), [0.5, 0, 0, 0.5], atol=0.015)


def test_a_seed_repeats():
    one, other = (
        sample(np.zeros((9, 50)), np.random.default_rng(3)).tolist() for _ in range(2)
    )
    assert one == other


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"temperature": -0.1}, ValueError, "temperature must be 0 or more, got -0.1"),
        ({"temperature": float("nan")}, ValueError, "temperature must be 0 or more"),
        ({"top_k": 0}, ValueError, "top_k must be at least 1"),
        ({"top_k": 1.5}, TypeError, "top_k must be a whole number"),
        ({"top_p": 0}, ValueError, "top_p must be above 0 and at most 1, got 0"),
        ({"top_p": 1.1}, ValueError, "at most 1, got 1.1"),
    ],
)
def test_messages(options, error, message):
    with pytest.raises(error, match=message):
        sample(LOGITS, np.random.default_rng(0), **options)

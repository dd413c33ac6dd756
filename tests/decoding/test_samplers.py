"""Each sampler: its distribution, exactly, and draws from it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from kerasseq.decoding import Contrastive, Greedy, MinP, Temperature, TopK, TopP
from kerasseq.decoding.samplers import Sampler, draw

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

P = np.array([0.05, 0.5, 0.15, 0.3])
MANY = 20011


def distribution(sampler, p=P):
    logits = np.log(np.array([p], "float32"))
    return ops.convert_to_numpy(sampler.distribution(logits))[0]


@pytest.mark.everywhere("random numbers and sorting of the backend", cases=3)
@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (Greedy(), [0, 1, 0, 0]),
        (Temperature(), P),
        (Temperature(0.5), P**2 / sum(P**2)),
        (Temperature(2), P**0.5 / sum(P**0.5)),
        (Temperature(1e-9), [0, 1, 0, 0]),
        (Temperature(1e9), [0.25] * 4),
        (TopK(1), [0, 1, 0, 0]),
        (TopK(2), [0, 5 / 8, 0, 3 / 8]),
        (TopK(2, temperature=0.5), [0, 25 / 34, 0, 9 / 34]),
        (TopK(4), P),
        (TopK(99), P),
        (TopP(0.49), [0, 1, 0, 0]),
        (TopP(0.51), [0, 5 / 8, 0, 3 / 8]),
        (TopP(0.81), [0, 10 / 19, 3 / 19, 6 / 19]),
        (TopP(1), P),
        (TopP(0.69, temperature=0.5), [0, 25 / 34, 0, 9 / 34]),  # the best has 0.68
        (TopP(0.67, temperature=0.5), [0, 1, 0, 0]),
        (MinP(0.61), [0, 1, 0, 0]),
        (MinP(0.59), [0, 5 / 8, 0, 3 / 8]),
        (MinP(0.29), [0, 10 / 19, 3 / 19, 6 / 19]),
        (MinP(0.09), P),
        (MinP(1), [0, 1, 0, 0]),
        (MinP(0.37, temperature=0.5), [0, 1, 0, 0]),  # the second has 0.36 of the best
        (MinP(0.35, temperature=0.5), [0, 25 / 34, 0, 9 / 34]),
    ],
    ids=repr,
)
def test_distribution(sampler, expected):
    found = distribution(sampler)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(found == 0, np.array(expected) == 0)


@given(st.data())
def test_distributions_against_their_definitions(data):
    """Sets of tokens by brute force, over random logits with ties."""
    steps = data.draw(st.lists(st.integers(-8, 8), min_size=7, max_size=7))
    p = np.exp(np.array(steps) / 2.0)
    p /= p.sum()
    order = sorted(range(7), key=lambda v: (-p[v], v))
    k = data.draw(st.integers(1, 9))
    share = data.draw(st.floats(0.03, 0.97))
    nucleus, held = [], 0.0
    for v in order:
        if held >= share:
            break
        nucleus.append(v)
        held += p[v]
    near = np.abs(np.cumsum(p[order]) - share).min() < 1e-5
    sets = [(TopK(k), order[:k])] + ([] if near else [(TopP(share), nucleus)])
    if np.abs(p - share * p.max()).min() > 1e-5:
        sets.append((MinP(share), [v for v in order if p[v] >= share * p.max()]))
    for sampler, kept in sets:
        expected = np.where(np.isin(np.arange(7), kept), p, 0)
        np.testing.assert_allclose(
            distribution(sampler, p), expected / expected.sum(), atol=1e-5
        )


@pytest.mark.parametrize("sampler", [Greedy(), TopK(1), TopP(0.01)], ids=repr)
def test_ties_go_to_the_first(sampler):
    level = np.ones(53) / 53  # PyTorch's own top-k gives another order from 17 on
    np.testing.assert_array_equal(distribution(sampler, level), [1] + [0] * 52)


def test_min_p_keeps_all_that_are_equal():
    np.testing.assert_allclose(distribution(MinP(1), [0.4, 0.2, 0.4]), [0.5, 0, 0.5])


@pytest.mark.parametrize(
    "sampler", [Temperature(), TopK(3), TopP(0.9), MinP(0.01)], ids=repr
)
def test_huge_and_masked_logits(sampler):
    logits = np.array([[1e30, -np.inf, -1e30, 1e30]], "float32")
    found = ops.convert_to_numpy(sampler.distribution(logits))[0]
    np.testing.assert_allclose(found, [0.5, 0, 0, 0.5])


@pytest.mark.everywhere("random numbers and sorting of the backend", cases=2)
@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (Temperature(0.7), P ** (1 / 0.7) / sum(P ** (1 / 0.7))),
        (TopK(3), [0, 10 / 19, 3 / 19, 6 / 19]),
        (TopP(0.6), [0, 5 / 8, 0, 3 / 8]),
    ],
    ids=["temperature", "top_k", "top_p"],
)
def test_frequencies_of_draws(sampler, expected):
    """Within 0.015: four standard deviations of 20,011 draws at p = 1/2."""
    logits = np.repeat(np.log(np.array([P], "float32")), MANY, axis=0)
    u = np.random.default_rng(0).random(MANY, dtype="float32")
    tokens = ops.convert_to_numpy(sampler.choose(logits, u, None, None))
    assert tokens.dtype == "int32"
    found = np.bincount(tokens, minlength=4) / MANY
    np.testing.assert_allclose(found, expected, atol=0.015)
    np.testing.assert_array_equal(found == 0, np.array(expected) == 0)


def test_a_draw_gives_each_token_its_share_of_the_numbers():
    p = np.array([[0.0, 0.25, 0.0, 0.5, 0.25, 0.0]] * 6, "float32")
    u = np.array([0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2**-24], "float32")
    assert ops.convert_to_numpy(draw(p, u)).tolist() == [1, 1, 3, 3, 4, 4]


def test_what_has_no_probability_is_never_drawn():
    """Also where sums over many tokens round: there each number lies on a sum."""
    p = np.random.default_rng(1).random(3001).astype("float32")
    p[::2] = 0
    sums = ops.convert_to_numpy(ops.cumsum(p))
    u = np.minimum(sums / sums[-1], np.float32(1 - 2**-24))
    rows = np.broadcast_to(p, (len(u), len(p)))
    assert (ops.convert_to_numpy(draw(rows, u)) % 2 == 1).all()


def test_samplers_are_values():
    assert TopK(3) == TopK(3, temperature=1.0) != TopK(5)
    assert hash(TopP(0.9)) == hash(TopP(0.9))
    assert repr(MinP(0.05)) == "MinP(p=0.05, temperature=1.0)"


def test_a_sampler_of_ones_own_overrides_one_method():
    class Worst(Sampler):
        def distribution(self, logits):
            return ops.one_hot(ops.argmin(logits, axis=-1), logits.shape[-1])

    logits = ops.convert_to_tensor(np.array([P, P[::-1]], "float32"))
    tokens = Worst().choose(logits, np.zeros(2, "float32"), None, None)
    assert ops.convert_to_numpy(tokens).tolist() == [0, 3]
    with pytest.raises(NotImplementedError, match="Sampler must define distribution"):
        Sampler().distribution(logits)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Temperature(0),
            ValueError,
            "above 0 and finite, received 0. .*Greedy",
        ),
        (lambda: Temperature(float("nan")), ValueError, "temperature must be above 0"),
        (lambda: Temperature(float("inf")), ValueError, "temperature must be above 0"),
        (lambda: Temperature("hot"), TypeError, "temperature must be a number"),
        (lambda: TopK(0), ValueError, "k must be at least 1, received 0"),
        (lambda: TopK(2.5), TypeError, "k must be a whole number, received 2.5"),
        (lambda: TopK(2, temperature=-1), ValueError, "temperature .* received -1"),
        (lambda: TopP(0), ValueError, "p must be above 0 and at most 1, received 0"),
        (lambda: TopP(90), ValueError, "p must be above 0 and at most 1, received 90"),
        (lambda: TopP(float("nan")), ValueError, "p must be above 0"),
        (lambda: TopP(True), TypeError, "p must be a number, received True"),
        (lambda: TopP(0.5, temperature=0), ValueError, "temperature must be"),
        (lambda: MinP(0), ValueError, "p must be above 0 and at most 1, received 0"),
        (lambda: MinP(1.1), ValueError, "at most 1, received 1.1"),
        (lambda: MinP(0.5, temperature=0), ValueError, "temperature must be"),
        (lambda: Contrastive(0, 0.5), ValueError, "k must be at least 1, received 0"),
        (lambda: Contrastive(3, 1.5), ValueError, "alpha must lie between 0 and 1"),
        (lambda: Contrastive(3, -0.1), ValueError, "alpha must lie between 0 and 1"),
        (
            lambda: Contrastive(3, 0.5).distribution(np.zeros((1, 2))),
            TypeError,
            "Contrastive has no distribution",
        ),
    ],
)
def test_messages(make, error, message):
    with pytest.raises(error, match=message):
        make()

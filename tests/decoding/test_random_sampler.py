"""Temperature, top-k, top-p and min-p together; samplers by name."""

import itertools

import numpy as np
import pytest
from keras import ops

from kerasseq.decoding import (
    Beam,
    Contrastive,
    Greedy,
    MinP,
    RandomSampler,
    Temperature,
    TopK,
    TopP,
    get_sampler,
)

pytestmark = pytest.mark.full("combinations of what is tested everywhere")


def reference(logits, temperature=1.0, top_k=None, top_p=None, min_p=None):
    """Hugging Face's logits warpers in the order of `generate`, in NumPy.

    `TemperatureLogitsWarper`, `TopKLogitsWarper`, `TopPLogitsWarper` and
    `MinPLogitsWarper` of transformers 4.57, line by line.
    """
    z = np.asarray(logits, "float64") / temperature
    if top_k is not None:
        kth = np.sort(z, axis=-1)[:, ::-1][:, min(top_k, z.shape[-1]) - 1][:, None]
        z = np.where(z < kth, -np.inf, z)
    if top_p is not None and top_p < 1:
        order = np.argsort(z, axis=-1, kind="stable")  # ascending, as there
        ranked = softmax(np.take_along_axis(z, order, axis=-1))
        removed = np.cumsum(ranked, axis=-1) <= 1 - top_p
        removed[:, -1] = False  # min_tokens_to_keep=1
        ranks = np.argsort(order, axis=-1, kind="stable")
        z = np.where(np.take_along_axis(removed, ranks, axis=-1), -np.inf, z)
    if min_p is not None:
        p = softmax(z)
        z = np.where(p < min_p * p.max(axis=-1, keepdims=True), -np.inf, z)
    return softmax(z)


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


LOGITS = np.random.default_rng(0).normal(size=(13, 29)).astype("float32") * 2
CHOICES = {
    "temperature": (0.5, 1.0, 1.7),
    "top_k": (None, 1, 7, 99),
    "top_p": (None, 0.31, 0.83, 1.0),
    "min_p": (None, 0.07, 0.29, 1.0),
}
ALL = [
    dict(zip(CHOICES, values, strict=True))
    for values in itertools.product(*CHOICES.values())
]


@pytest.mark.everywhere("sorting and cumulative sums of the backend", cases=1)
@pytest.mark.parametrize("options", [ALL[86], *ALL], ids=str)
def test_equals_hugging_face_order(options):
    found = ops.convert_to_numpy(RandomSampler(**options).distribution(LOGITS))
    expected = reference(LOGITS, **options)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(found == 0, expected == 0)


def test_order_matters():
    """top_p after top_k: of two tokens, the first has 5/8 of the probability."""
    logits = np.log(np.array([[0.05, 0.5, 0.15, 0.3]], "float32"))
    p = RandomSampler(top_k=2, top_p=0.6).distribution(logits)
    np.testing.assert_allclose(ops.convert_to_numpy(p), [[0, 1, 0, 0]], atol=1e-6)
    p = RandomSampler(top_p=0.6).distribution(logits)
    expected = [[0, 5 / 8, 0, 3 / 8]]
    np.testing.assert_allclose(ops.convert_to_numpy(p), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("single", "combined"),
    [
        (Temperature(0.7), RandomSampler(0.7)),
        (TopK(3, 0.7), RandomSampler(0.7, top_k=3)),
        (TopP(0.6, 0.7), RandomSampler(0.7, top_p=0.6)),
        (MinP(0.2, 0.7), RandomSampler(0.7, min_p=0.2)),
    ],
    ids=repr,
)
def test_one_filter_equals_its_own_sampler(single, combined):
    one, other = (s.distribution(LOGITS) for s in (single, combined))
    np.testing.assert_array_equal(*map(ops.convert_to_numpy, (one, other)))


@pytest.mark.parametrize(
    ("sampler", "numbers", "expected"),
    [
        (None, {}, RandomSampler()),
        (None, {"default": "greedy"}, Greedy()),
        (None, {"default": "greedy", "top_k": 3}, RandomSampler(top_k=3)),
        (None, {"temperature": 0}, Greedy()),
        (None, {"temperature": 0, "top_k": 7}, Greedy()),
        ("greedy", {}, Greedy()),
        ("random", {"temperature": 0.7}, RandomSampler(0.7)),
        ("top_k", {}, RandomSampler(top_k=5)),
        ("top_k", {"top_k": 9, "top_p": 0.5}, RandomSampler(top_k=9, top_p=0.5)),
        ("top_p", {"temperature": 2}, RandomSampler(2, top_p=0.1)),
        ("min_p", {"min_p": 0.3}, RandomSampler(min_p=0.3)),
        ("beam", {}, Beam(5)),
        ("contrastive", {}, Contrastive(5, 0.6)),
        (Beam(2), {}, Beam(2)),
        (TopK(2), {}, TopK(2)),
    ],
    ids=str,
)
def test_sampler_of_arguments(sampler, numbers, expected):
    assert get_sampler(sampler, **numbers) == expected


@pytest.mark.parametrize(
    ("sampler", "numbers", "error", "message"),
    [
        ("gredy", {}, ValueError, 'Did you mean "greedy"'),
        (3, {}, TypeError, "sampler must be a name"),
        ("beam", {"temperature": 1.0}, ValueError, "does not use temperature"),
        (Greedy(), {"top_k": 2}, ValueError, "does not use top_k.*not both"),
        (None, {"temperature": -0.1}, ValueError, "temperature must be above 0"),
        (None, {"temperature": float("nan")}, ValueError, "temperature must be above"),
        (None, {"temperature": "hot"}, TypeError, "temperature must be a number"),
        (None, {"top_k": 0}, ValueError, "top_k must be at least 1"),
        (None, {"top_k": 1.5}, TypeError, "top_k must be a whole number"),
        (
            None,
            {"top_p": 0},
            ValueError,
            "top_p must be above 0 and at most 1, received 0",
        ),
        (None, {"min_p": 1.1}, ValueError, "min_p must be above 0.*received 1.1"),
        (None, {"temperature": 0, "top_p": 2}, ValueError, "top_p must be above 0"),
    ],
)
def test_messages(sampler, numbers, error, message):
    with pytest.raises(error, match=message):
        get_sampler(sampler, **numbers)

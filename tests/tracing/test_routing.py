"""Which experts take which kind of token: entropies by hand."""

import numpy as np
import pytest

import kerasseq
from kerasseq import tracing

pytestmark = pytest.mark.once("NumPy alone, and a trace of one model")


def test_by_hand():
    # Tokens are sure of one of two experts each, which patches share evenly.
    patches = [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]]
    words = [[0.5, 0, 0.5]]
    found = tracing.routing_information({"patches": patches, "words": words})
    assert found.local_entropy == {"patches": 0.0, "words": 1.0}
    assert found.global_entropy == {"patches": 1.0, "words": 1.0}
    # The mean of (1/2, 1/2, 0) and (1/2, 0, 1/2) is (1/2, 1/4, 1/4): 1.5 bits.
    assert found.mutual_information == pytest.approx(0.5)
    # Three kinds of 1, 5 and 2 tokens count alike.
    eye = np.eye(3)
    apart = {f"{n}": eye[[n] * count] for n, count in enumerate((1, 5, 2))}
    found = tracing.routing_information(apart)
    assert found.mutual_information == pytest.approx(np.log2(3))
    assert tracing.routing_information({"a": patches}).mutual_information == 0


def test_the_probabilities_of_a_router():
    experts = kerasseq.layers.MixtureOfExperts(5, 3, top_k=2)
    x = np.random.default_rng(0).normal(size=(2, 7, 3)).astype("float32")
    with tracing.trace(experts) as inside:
        experts(x)
    (router,) = (value for key, value in inside.items() if key.endswith("router"))
    kinds = {"first": router[0], "second": router[1]}
    found = tracing.routing_information(kinds)
    p = router.astype("float64")
    H = -np.sum(p * np.log2(p), axis=-1)
    for row, kind in enumerate(kinds):
        assert found.local_entropy[kind] == pytest.approx(H[row].mean())
        assert found.local_entropy[kind] <= found.global_entropy[kind] <= np.log2(5)
    assert 0 < found.mutual_information < 1


def test_wrong_shares():
    for shares, message in (
        ({}, "must be a dictionary"),
        ([[0.5, 0.5]], "must be a dictionary"),
        ({"a": [0.5, 0.5]}, r"received \{'a': \(2,\)\}"),
        ({"a": np.zeros((0, 2))}, "at least one token"),
        ({"a": [[1, 0]], "b": [[1, 0, 0]]}, "the same experts"),
        ({"a": [[1, 0], [3, 1]]}, r"row 1: \[3.0, 1.0\]. Divide each row"),
        ({"a": [[2, -1]]}, "at least 0"),
        ({"a": [[np.nan, 1]]}, "row 0"),
    ):
        with pytest.raises(ValueError, match=message):
            tracing.routing_information(shares)

"""What attention alone can do: it averages values, and knows no order."""

import keras
import numpy as np
import pytest

from kerasseq import layers

pytestmark = pytest.mark.once("the same equations on every backend")
T, D = 7, 5
X = np.random.default_rng(0).normal(size=(1, T, D)).astype("float32")


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def averaging(seed):
    """Attention whose projections of values and outputs change nothing."""
    attention = layers.MultiHeadAttention(1, D, use_bias=False)
    attention.build(X.shape, X.shape)
    rng = np.random.default_rng(seed)
    eye = np.eye(D)
    query, key = rng.normal(size=(2, D, 1, D))
    attention.set_weights([query, key, eye[:, None], eye[None]])
    return attention


def test_stacked_attention_stays_in_the_convex_hull_of_the_values():
    """Slides D: attention is an average, so that it needs a network for anything else.

    The outputs of three layers are one average of the inputs, whose weights are the
    product of the three matrices of weights.
    """
    y, A = X, np.eye(T)
    spread = np.ptp(X[0], axis=0)
    for seed in range(3):
        y, alpha = averaging(seed)(y, y, return_attention_scores=True)
        A = numpy(alpha)[0, 0] @ A
        now = np.ptp(numpy(y)[0], axis=0)
        assert (now < spread).all()  # the states of all positions come together
        spread = now
    assert (A >= 0).all()
    np.testing.assert_allclose(A.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(numpy(y)[0], A @ X[0], atol=1e-5)


def test_a_feed_forward_network_leaves_the_hull():
    y = averaging(0)(X, X)
    network = layers.FeedForward(11)
    network.build(y.shape)
    weights = np.random.default_rng(1)
    network.set_weights([weights.normal(size=w.shape) for w in network.get_weights()])
    assert (numpy(network(y))[0].max(0) > X[0].max(0)).any()


def test_order_without_positions():
    """An encoder cannot tell the order, nor can one causal block; two can."""
    order = [2, 0, 1, 4, 3, 5, 6]  # the last token stays the last
    encoder = layers.TransformerEncoder(11, 1)
    np.testing.assert_allclose(
        numpy(encoder(X[:, order])), numpy(encoder(X))[:, order], atol=1e-5
    )
    first, second = (layers.TransformerDecoder(11, 1) for _ in range(2))
    one, other = first(X), first(X[:, order])
    np.testing.assert_allclose(numpy(one)[:, -1], numpy(other)[:, -1], atol=1e-6)
    one, other = numpy(second(one))[:, -1], numpy(second(other))[:, -1]
    assert np.abs(one - other).max() > 1e-3

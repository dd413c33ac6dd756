"""Biases of scores by distance: ALiBi's slopes, T5's buckets."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from kerasseq.positions.alibi import slopes
from kerasseq.positions.relative import buckets

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, N, T, S = 2, 3, 5, 7
SCORES = np.random.default_rng(0).normal(size=(B, N, T, S)).astype("float32")


def numpy(x):
    return ops.convert_to_numpy(x)


def test_slopes():
    """The paper's for 8 heads; for 12, every other one of those for 16 after them."""
    assert slopes(1).tolist() == [2**-8]
    eight = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert slopes(8).tolist() == eight
    between = [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    np.testing.assert_allclose(slopes(12), eight + between)
    np.testing.assert_allclose(slopes(2, highest=4), [1 / 4, 1 / 16])


def test_alibi_layer_biases_from_the_last_position():
    found = numpy(layers.AlibiBias()(SCORES)) - SCORES
    for n, m in enumerate(slopes(N)):
        expected = np.broadcast_to(m * (np.arange(S) - (S - 1)), (B, T, S))
        np.testing.assert_allclose(found[:, n], expected, atol=1e-5)


@pytest.mark.once("a cast of the inputs")
@pytest.mark.parametrize("name", ["AlibiBias", "RelativePositionBias"])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_biases_of_scores_that_are_integers(name, policy):
    layer, scores = getattr(layers, name)(dtype=policy), np.round(SCORES)
    found, expected = layer(scores.astype("int32")), layer(scores)
    assert found.dtype == expected.dtype
    found, expected = (numpy(ops.cast(x, "float32")) for x in (found, expected))
    np.testing.assert_array_equal(found, expected)


def test_alibi_by_positions():
    layer = layers.AlibiBias(4)
    layer.build((None, N, None, None))
    p, s = np.array([[4, 0, 1], [2, 2, 9]]), np.array([[0, 5]])
    found = numpy(layer.bias(ops.convert_to_tensor(p), ops.convert_to_tensor(s)))
    distance = np.abs(p[:, :, None] - s[:, None])
    expected = -slopes(N, 4)[:, None, None] * distance[:, None]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.everywhere("float64")
def test_alibi_is_exact_in_float64():
    layer = layers.AlibiBias(dtype="float32")
    layer.build(SCORES.shape)
    p = ops.convert_to_tensor([[1]])
    assert keras.backend.standardize_dtype(layer.bias(p, p).dtype) == "float32"
    if keras.backend.backend() != "jax":
        wide = layers.AlibiBias(dtype="float64")
        found = numpy(wide(np.zeros((1, 12, 1, S))))
        exact = slopes(12)[:, None, None] * (np.arange(S) - (S - 1))
        np.testing.assert_allclose(found[0], exact, rtol=1e-14)


def bucket(distance, rows, far, both):
    """T5's rule for one distance, in plain Python."""
    first = 0
    if both:
        rows //= 2
        first = rows if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    alone = rows // 2
    if distance < alone:
        return first + distance
    share = np.log(np.float32(distance) / np.float32(alone)) / np.float32(
        np.log(far / alone)
    )
    return first + min(alone + int(share * (rows - alone)), rows - 1)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("sizes", [(32, 128), (16, 20), (8, 64), (7, 11), (64, 1000)])
def test_buckets(sizes, both):
    distances = np.arange(-1100, 1101)
    found = buckets(distances, *sizes, bidirectional=both)
    assert found.tolist() == [bucket(d, *sizes, both) for d in distances.tolist()]
    assert set(found) == set(range(sizes[0] // 2 * 2 if both else sizes[0])) - (
        {sizes[0] // 2} if both else set()  # distance 0 of what comes later
    )


def test_powers_of_two_start_a_bucket():
    """The logarithm is exact there, and rounding must not lower the bucket."""
    found = buckets(-np.array([7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 999]))
    assert found.tolist() == [7, 8, 9, 10, 11, 12, 13, 14, 15, 15, 15]


@pytest.mark.parametrize("both", [True, False])
def test_relative_bias_of_scores(both):
    layer = layers.RelativePositionBias(6, 5, bidirectional=both)
    for start in (0, 2):
        found = numpy(layer(SCORES, start_index=start)) - SCORES
        table = numpy(layer.embeddings)
        assert table.shape == (6, N)
        distance = np.arange(S) - np.arange(start, start + T)[:, None]
        rows = [[bucket(d, 6, 5, both) for d in line] for line in distance.tolist()]
        expected = np.transpose(table[rows], (2, 0, 1))
        np.testing.assert_allclose(found, np.stack([expected] * B), atol=1e-6)


def test_far_distances_share_a_bucket():
    layer = layers.RelativePositionBias(8, 6)
    layer.build((None, N, None, None))
    p, s = ops.convert_to_tensor([[0]]), ops.convert_to_tensor([[6, 7, 5000]])
    found = numpy(layer.bias(p, s))
    np.testing.assert_array_equal(found[..., 1], found[..., 0])
    np.testing.assert_array_equal(found[..., 2], found[..., 0])
    assert np.abs(numpy(layer.bias(s, p))[..., 0, :] - found[..., 0]).max() > 1e-4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: layers.AlibiBias(0),
            "alibi_bias_max must be a number above 0, received 0",
        ),
        (
            lambda: layers.AlibiBias()(SCORES[0]),
            r"AlibiBias .* shape \(3, 5, 7\)",
        ),
        (
            lambda: layers.RelativePositionBias()(SCORES[0]),
            r"RelativePositionBias must have shape \(batch, heads",
        ),
        (
            lambda: layers.RelativePositionBias(3),
            "num_buckets must be at least 4, received",
        ),
        (
            lambda: layers.RelativePositionBias(1, bidirectional=False),
            "num_buckets must be at least 2",
        ),
        (
            lambda: layers.RelativePositionBias(32, 8),
            "max_distance must be above 8, .* received max_distance=8",
        ),
        (
            lambda: layers.RelativePositionBias(32, 16, bidirectional=False),
            "max_distance must be above 16",
        ),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()

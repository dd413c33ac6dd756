"""Norms and feed-forward network."""

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from kerasseq.transformer import norms
from tests.layer_checks import check_layer, float64_is_there
from tests.transformer.references import GATES, PHI
from tests.transformer.toys import D, F, X, built, fill, numpy

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

NORMS = {
    norms.LayerNormalization: keras.layers.LayerNormalization,
    norms.RMSNormalization: keras.layers.RMSNormalization,
}


def normalized(x, cls, epsilon):
    if cls is norms.LayerNormalization:
        x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


@pytest.mark.parametrize("cls", NORMS)
def test_norms_equal_keras(cls):
    ours, theirs = cls(epsilon=0.1), NORMS[cls](epsilon=0.1)
    for layer in (ours, theirs):
        layer.build(X.shape)
    fill(ours, theirs)
    np.testing.assert_array_equal(numpy(ours(X)), numpy(theirs(X)))
    gain, *shift = map(numpy, ours.weights)
    wanted = normalized(X, cls, 0.1) * gain + (shift[0] if shift else 0)
    np.testing.assert_allclose(numpy(ours(X)), wanted, atol=1e-5)


@pytest.mark.parametrize("cls", NORMS)
def test_norms_as_layers(cls):
    """All checks of layers, in float64, with masks, and saved."""
    check_layer(cls(epsilon=1e-3), X, X.shape, masked=False)
    embedded = keras.layers.Embedding(5, D, mask_zero=True)(np.array([[1, 0, 2]]))
    assert numpy(cls()(embedded)._keras_mask).tolist() == [[True, False, True]]


@pytest.mark.everywhere("small types", cases=1)
@pytest.mark.parametrize("options", [{}, {"center": False}, {"scale": False}])
def test_layer_norm_in_float64_with_and_without_weights(options):
    if not float64_is_there():
        pytest.skip("JAX has no float64 unless it is switched on")
    layer = norms.LayerNormalization(epsilon=1e-3, dtype="float64", **options)
    layer.build(X.shape)
    fill(layer) if layer.weights else None
    weights = {w.path.rpartition("/")[2]: numpy(w) for w in layer.weights}
    wanted = normalized(X.astype("float64"), norms.LayerNormalization, 1e-3)
    wanted = wanted * weights.get("gamma", 1) + weights.get("beta", 0)
    np.testing.assert_allclose(numpy(layer(X.astype("float64"))), wanted, atol=1e-12)


@pytest.mark.everywhere("TensorFlow does not promote types", cases=2)
@pytest.mark.parametrize("cls", NORMS)
def test_float64_inputs_of_float32_norms(cls):
    x, layer = X.astype("float64"), cls(epsilon=1e-3)
    found = layer(x)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    np.testing.assert_allclose(numpy(found), normalized(x, cls, 1e-3), atol=1e-6)


@pytest.mark.everywhere("small types", cases=2)
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("cls", NORMS)
def test_norms_compute_in_float32_in_mixed_precision(cls, policy):
    """The squares of these are too large for float16, and the scale is not rounded."""
    layer = cls(dtype=policy)
    layer.build((None, D))
    layer.weights[0].assign(1 + 1e-3 * np.arange(D))
    x = ops.cast(1000 * X[0], layer.compute_dtype)
    found = layer(x)
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
    exact = normalized(numpy(ops.cast(x, "float32")), cls, 0)
    wanted = ops.cast(exact * (1 + 1e-3 * np.arange(D)), layer.compute_dtype)
    as_float = [numpy(ops.cast(y, "float32")) for y in (found, wanted)]
    step = {"float16": 2**-10, "bfloat16": 2**-7}[layer.compute_dtype]
    np.testing.assert_allclose(*as_float, rtol=step)
    assert np.mean(as_float[0] == as_float[1]) > 0.9


@pytest.mark.parametrize("name", ["relu", "gelu", "silu", *GATES])
@pytest.mark.parametrize("use_bias", [True, False])
def test_feed_forward(name, use_bias):
    phi = GATES.get(name, name)
    layer = layers.FeedForward(
        F, activation=phi, gated=name in GATES, use_bias=use_bias
    )
    built(layer)
    w = {w.path.partition("/")[2]: numpy(w) for w in layer.weights}

    def dense(name, x):
        return x @ w[f"{name}/kernel"] + w.get(f"{name}/bias", 0)

    h = PHI[phi](dense("gate_dense" if name in GATES else "intermediate_dense", X))
    if name in GATES:
        h = h * dense("intermediate_dense", X)
    wanted = dense("output_dense", h)
    np.testing.assert_allclose(numpy(layer(X)), wanted, atol=1e-5)
    np.testing.assert_allclose(numpy(layer(X[:, 0])), wanted[:, 0], atol=1e-5)
    assert len(w) == (2 + (name in GATES)) * (1 + use_bias)


def test_feed_forward_dropout():
    layer = layers.FeedForward(101, dropout=0.5, seed=7, activation="linear")
    layer.build((None, None, D))
    layer.set_weights(
        [np.ones((D, 101)), np.zeros(101), np.ones((101, D)), np.zeros(D)]
    )
    sums = numpy(layer(np.ones((1, 1, D), "float32"), training=True))[0, 0]
    kept = sums[0] / (2 * D)  # each that is kept counts twice
    assert 20 < kept < 80 and kept == round(kept)
    assert numpy(layer(np.ones((1, 1, D), "float32")))[0, 0, 0] == 101 * D


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"intermediate_dim": 0}, ValueError, "intermediate_dim must be at least 1"),
        (
            {"dropout": 1.5},
            ValueError,
            "dropout must lie between 0 and 1, received 1.5",
        ),
        ({"activation": "rely"}, ValueError, "rely"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        layers.FeedForward(**{"intermediate_dim": F, **arguments})

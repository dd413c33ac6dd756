"""The Conformer block: its convolution, padding in training, options, and a stack."""

import keras
import numpy as np
import pytest

from kerasseq import layers, tracing
from kerasseq.speech.batch_norm import BatchNormalization
from kerasseq.speech.conformer_convolution import ConformerConvolution
from tests.layer_checks import check_layer
from tests.speech.conformer_references import convolved, silu
from tests.transformer.toys import fill, numpy

pytestmark = pytest.mark.once("structure")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 7, 10)).astype("float32")
# Padding on the right and on the left.
REAL = np.array([7 * [1], [1, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]], bool)


def built(layer, shape=X.shape):
    layer.build(shape)
    fill(layer)
    for part in (layer, getattr(layer, "convolution", None)):
        if isinstance(getattr(part, "norm", None), BatchNormalization):
            part.norm.moving_variance.assign(abs(part.norm.moving_variance) + 0.5)
    return layer


def garbage(x, real):
    """Puts other numbers at padding."""
    return np.where(real[..., None], x, 9 * RNG.normal(size=x.shape)).astype("float32")


@pytest.mark.everywhere("arithmetic of the backend, and its statistics in training")
@pytest.mark.parametrize("normalization", ["batch", "layer"])
def test_convolution(normalization):
    """The equation of real steps alone, in training, and the moving statistics."""
    layer = built(ConformerConvolution(3, normalization=normalization))
    dense = [numpy(w) for w in layer.gated_dense.weights]
    kernel, bias = numpy(layer.kernel), numpy(layer.bias)
    rows = [convolved(x[r], dense, bias, kernel) for x, r in zip(X, REAL, strict=True)]
    h = np.concatenate(rows)  # all real steps
    gamma, beta, *moving = (numpy(w) for w in layer.norm.weights)
    axis = 0 if normalization == "batch" else 1
    mean, variance = h.mean(axis, keepdims=True), h.var(axis, keepdims=True)
    h = gamma * (h - mean) / np.sqrt(variance + 1e-5) + beta
    kernel, bias = (numpy(w) for w in layer.output_dense.weights)
    y = numpy(layer(garbage(X, REAL), mask=REAL, training=True))
    np.testing.assert_allclose(y[REAL], silu(h) @ kernel + bias, atol=1e-5)
    if moving:
        for old, now, found in zip(
            moving, (mean[0], variance[0]), layer.norm.weights[2:], strict=True
        ):
            np.testing.assert_allclose(numpy(found), 0.9 * old + 0.1 * now, atol=1e-5)


@pytest.mark.parametrize("normalization", ["batch", "layer"])
@pytest.mark.parametrize("training", [False, True])
def test_padding(normalization, training):
    """More padding, on either side, changes neither results nor statistics."""
    layer = built(layers.ConformerBlock(13, 2, 5, normalization=normalization))
    start = [numpy(w).copy() for w in layer.weights]
    y = numpy(layer(garbage(X, REAL), mask=REAL, training=training))[REAL]
    after = [numpy(w).copy() for w in layer.weights]
    for pads in ((3, 0), (0, 3)):
        layer.set_weights(start)
        real = np.pad(REAL, ((0, 0), pads))
        x = garbage(np.pad(X, ((0, 0), pads, (0, 0))), real)
        found = numpy(layer(x, mask=real, training=training))[real]
        np.testing.assert_allclose(found, y, atol=1e-5)
        for weight, other in zip(layer.weights, after, strict=True):
            np.testing.assert_allclose(numpy(weight), other, atol=1e-5)


@pytest.mark.parametrize("normalization", ["batch", "layer"])
def test_a_row_alone(normalization):
    layer = built(layers.ConformerBlock(13, 2, 5, normalization=normalization))
    y = numpy(layer(garbage(X, REAL), mask=REAL))
    for n, real in enumerate(REAL):
        alone = numpy(layer(X[n : n + 1, real]))[0]
        np.testing.assert_allclose(y[n, real], alone, atol=1e-5)


def test_options(tmp_path):
    """All that a public layer must do, with another norm and other positions."""
    keras.utils.set_random_seed(3)
    layer = layers.ConformerBlock(
        *(13, 3, 5),
        normalization="layer",
        head_dim=4,
        position=layers.AlibiBias(),
        activation="relu",
    )
    x = X[:2, :, :5]
    still = {"key/bias": "adds the same number to all scores of a query"}
    check_layer(layer, x, x.shape, still=still, folder=tmp_path)


def test_positions():
    """Each block has relative positions of its own; a given encoding is shared."""
    own = [built(layers.ConformerBlock(13, 2)) for _ in range(2)]
    first, second = (block.self_attention.position for block in own)
    assert isinstance(first, layers.TransformerXLPosition) and first is not second
    assert first.kernel.shape == (10, 2, 5)
    odd = built(layers.ConformerBlock(13, 1), (None, None, 5))
    assert odd.self_attention.position.kernel.shape == (6, 1, 5)
    none = built(layers.ConformerBlock(13, 2, 1, position=layers.AttentionPosition()))
    order = RNG.permutation(7)
    y = numpy(none(X))[:, order]
    np.testing.assert_allclose(numpy(none(X[:, order])), y, atol=1e-5)


def test_trace():
    """The sums after each sublayer, from the outputs of the sublayers."""
    layer = built(layers.ConformerBlock(13, 2, 5))
    with tracing.trace(layer) as inside:
        y = numpy(layer(X, mask=REAL))
    np.testing.assert_array_equal(inside["output"], y)
    x = inside["input"]
    np.testing.assert_array_equal(x[~REAL], 0)
    for name, output, factor in (
        ("feed_forward_1", "feed_forward_1/output", 0.5),
        ("self_attention", "self_attention/context", 1),
        ("convolution", "convolution/output", 1),
        ("feed_forward_2", "feed_forward_2/output", 0.5),
    ):
        total = inside[f"{name}_residual"]
        np.testing.assert_allclose(total, x + factor * inside[output], atol=1e-5)
        x = total


def test_a_stack_in_a_model(tmp_path):
    """Masks pass from the frames to the last block; a saved model is the same."""
    model = keras.Sequential(
        [
            keras.Input((None, 10)),
            keras.layers.Masking(),
            layers.ConvSubsampling(8, 2, kernel_size=3),
            layers.ConformerBlock(13, 2, 5, dropout=0.3, seed=1),
            layers.ConformerBlock(13, 2, 5, normalization="layer", seed=2),
        ]
    )
    x = np.where(REAL[..., None], X, 0)
    model.compile("sgd", "mse")
    model.fit(x, np.ones((3, 4, 8)), verbose=0)
    y = model.predict(x, verbose=0)
    for n, real in enumerate(REAL):
        alone = model.predict(X[n : n + 1, real], verbose=0)[0]
        np.testing.assert_allclose(y[n, : len(alone)], alone, atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), y, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_size": 4}, "kernel_size must be odd.*received 4. Choose 5"),
        ({"normalization": "group"}, '"group" is not one of "batch", "layer"'),
        ({"num_heads": 3}, "num_heads must divide the hidden size 10"),
        ({"dropout": 1.0}, "dropout=1 would drop everything"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        built(
            layers.ConformerBlock(**{"intermediate_dim": 3, "num_heads": 2, **options})
        )


def test_parameters():
    """Width 256, 4 heads, a kernel of 31: the sum over the sublayers."""
    D, F, k = 256, 1024, 31
    layer = layers.ConformerBlock(F, 4)
    layer.build((None, None, D))
    feed_forward = D * F + F + F * D + D
    attention = 4 * (D * D + D) + D * D + 2 * D  # positions, and the biases u and v
    convolution = D * 2 * D + 2 * D + k * D + D + 4 * D + D * D + D
    assert layer.count_params() == 2 * feed_forward + attention + convolution + 10 * D

"""Subsampling by strided convolutions: its equation, its mask, and padding."""

import keras
import numpy as np
import pytest

from kerasseq import tracing
from kerasseq.layers import ConvSubsampling
from kerasseq.speech.batch_norm import BatchNormalization
from kerasseq.tasks.architectures import build_layers, first_output
from tests.layer_checks import called
from tests.speech.conformer_references import subsampled
from tests.transformer.toys import fill, numpy

pytestmark = pytest.mark.once("structure")

RNG = np.random.default_rng(0)
LENGTHS = [13, 7, 5, 1]
X = [RNG.normal(size=(T, 5)).astype("float32") for T in LENGTHS]
KERNEL = 3


def built(factor, **options):
    layer = ConvSubsampling(11, factor, kernel_size=KERNEL, **options)
    layer.build((None, None, 5))
    return fill(layer)


def padded(rows, left=False):
    """A batch of rows with other numbers at padding, and its mask."""
    T = max(map(len, rows))
    x = 7 * RNG.normal(size=(len(rows), T, 5)).astype("float32")
    mask = np.zeros((len(rows), T), bool)
    for n, row in enumerate(rows):
        place = slice(T - len(row), T) if left else slice(len(row))
        x[n, place], mask[n, place] = row, True
    return x, mask


def expected(layer, row):
    kernels, biases = ([numpy(w) for w in ws] for ws in (layer.kernels, layer.biases))
    return subsampled(row, kernels, biases)


@pytest.mark.everywhere("arithmetic of the backend")
@pytest.mark.parametrize("left", [False, True])
def test_rows_beside_longer_ones(left):
    """Each row alone, by the equation, is each row of a batch; zeros follow."""
    layer = built(4)
    x, mask = padded(X, left)
    y = numpy(called(layer, x, mask=mask))
    real = numpy(layer.compute_mask(x, mask))
    assert y.shape == (4, 4, 11) and real.sum(1).tolist() == [4, 2, 2, 1]
    for n, row in enumerate(X):
        np.testing.assert_allclose(y[n, real[n]], expected(layer, row), atol=1e-5)
    np.testing.assert_array_equal(y[~real], 0)


@pytest.mark.parametrize("factor", [2, 4, 8])
@pytest.mark.parametrize("T", [1, 2, 7, 8, 9, 16, 17])
def test_number_of_frames(factor, T):
    layer = built(factor)
    x = RNG.normal(size=(2, T, 5))
    y = numpy(layer(x))
    assert y.shape == layer.compute_output_shape(x.shape) == (2, -(-T // factor), 11)
    np.testing.assert_allclose(y[1], expected(layer, x[1]), atol=1e-5)
    assert layer.compute_output_shape((None, None, 5)) == (None, None, 11)


def test_the_place_of_an_output():
    """Frame t of the output is centered at frame 4 t of the input, of any length."""
    layer = built(4, use_bias=False)
    assert len(layer.weights) == 2
    for T in (16, 17, 18, 19):
        x = np.zeros((1, T, 5))
        x[0, 8] = 1
        reached = np.any(numpy(layer(x)) != 0, axis=-1)[0]
        assert np.flatnonzero(reached).tolist() == [2]


@pytest.mark.everywhere("Keras passes masks, and updates the statistics, in `fit`")
def test_mask_and_statistics_in_training():
    """The layer after it receives the mask; batch normalization counts real frames."""
    layer, norm = (
        ConvSubsampling(11, kernel_size=KERNEL),
        BatchNormalization(momentum=0),
    )
    model = keras.Sequential(
        [keras.Input((None, 5)), keras.layers.Masking(), layer, norm]
    )
    fill(layer)
    x, mask = padded(X)
    x[~mask] = 0
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.fit(x, np.zeros((4, 4, 11)), batch_size=4, verbose=0)
    frames = np.concatenate([expected(layer, row) for row in X])
    np.testing.assert_allclose(numpy(norm.moving_mean), frames.mean(0), atol=1e-5)
    np.testing.assert_allclose(numpy(norm.moving_variance), frames.var(0), atol=1e-5)


def test_trace():
    layer = built(4)
    with tracing.trace(layer) as inside:
        y = layer(X[0][None])
    names = [name.rpartition("/")[2] for name in inside]
    assert names == ["convolution_1", "convolution_2"]
    np.testing.assert_array_equal(inside["convolution_2"], numpy(y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factor": 1.5}, "factor must be a whole number"),
        ({"factor": 3}, "factor=3 is not one of 2, 4, 8"),
        ({"kernel_size": 4}, "kernel_size must be odd.*received 4. Choose 5"),
        ({"hidden_dim": 0}, "hidden_dim must be at least 1, received 0"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ConvSubsampling(**{"hidden_dim": 3, **options})


def test_no_frames():
    with pytest.raises(ValueError, match="there must be at least one step"):
        built(4)(np.zeros((2, 0, 5)))


@pytest.mark.parametrize("name", ["gru", "transformer", "mamba"])
def test_architectures_of_the_tasks_after_it(name):
    """Their layers receive its mask: a row alone is the row beside a longer one."""
    inputs = keras.Input((None, 5))
    x = ConvSubsampling(12, 4)(keras.layers.Masking()(inputs))
    for layer in build_layers(name, units=12, bidirectional=True):
        x = first_output(layer(x))
    model = keras.Model(inputs, x)
    x, mask = padded(X)
    x[~mask] = 0
    y = numpy(model(x))
    for n, row in enumerate(X):
        alone = numpy(model(row[None]))[0]
        np.testing.assert_allclose(y[n, : len(alone)], alone, atol=1e-5)

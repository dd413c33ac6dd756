"""Patch embedding: convolution, class token, positions for any size."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq import layers, models
from kerasseq.models.vit import grid, patches

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, H, W, C, P, Q, D = 3, 6, 35, 2, 2, 5, 11
ROWS, COLUMNS = 3, 7
X = np.random.default_rng(0).normal(size=(B, H, W, C)).astype("float32")


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def embedding(shape=X.shape, **options):
    """A layer all of whose weights are random."""
    layer = layers.PatchEmbedding((P, Q), D, **options)
    layer.build(shape)
    rng = np.random.default_rng(1)
    layer.set_weights([rng.normal(size=w.shape) for w in layer.weights])
    return layer


def test_the_image_of_the_course():
    """224 × 224 pixels are 50,176, too long a sequence; 14 × 14 patches are 196."""
    row = models.architectures["vit_base_16"]
    assert row.image_size**2 == 50_176
    layer = layers.PatchEmbedding(16, D)
    assert layer.compute_output_shape((1, 224, 224, 3)) == (1, 1 + 196, D)
    image = np.arange(50_176, dtype="int32").reshape(1, 224, 224, 1)
    cut = numpy(patches.extract_patches(keras.ops.convert_to_tensor(image), (16, 16)))
    assert cut.shape == (1, row.patches, 16 * 16) == (1, 14 * 14, 256)
    # Patch 15 is the second of the second row.
    np.testing.assert_array_equal(cut[0, 15].reshape(16, 16), image[0, 16:32, 16:32, 0])
    assert sorted(cut.ravel()) == list(range(50_176))


@pytest.mark.everywhere("convolution and resizing")
def test_equals_a_convolution_with_token_and_positions():
    layer = embedding()
    kernel, bias, token, positions = map(numpy, layer.weights)
    assert kernel.shape == (P, Q, C, D)
    wanted = keras.ops.conv(
        X, kernel, strides=(P, Q), padding="valid", data_format="channels_last"
    )
    assert wanted.shape == (B, ROWS, COLUMNS, D)
    wanted = numpy(wanted).reshape(B, -1, D) + bias
    wanted = np.concatenate([np.tile(token, (B, 1, 1)), wanted], axis=1) + positions
    np.testing.assert_allclose(numpy(layer(X)), wanted, atol=1e-5)


def test_without_token_and_bias():
    layer = embedding(class_token=False, use_bias=False)
    kernel, positions = map(numpy, layer.weights)
    wanted = np.einsum(
        "brpcqx,pqxd->brcd", X.reshape(B, ROWS, P, COLUMNS, Q, C), kernel
    )
    found = numpy(layer(X))
    assert found.shape == (B, ROWS * COLUMNS, D)
    wanted = wanted.reshape(found.shape) + positions
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_channels_first_equals_channels_last():
    before = keras.config.image_data_format()
    wanted = numpy(embedding()(X))
    turned = X.transpose(0, 3, 1, 2)
    try:
        keras.config.set_image_data_format("channels_first")
        layer = embedding(turned.shape)
    finally:
        keras.config.set_image_data_format(before)
    np.testing.assert_allclose(numpy(layer(turned)), wanted, atol=1e-6)
    assert layer.get_config()["data_format"] == "channels_first"
    assert layer.compute_output_shape((None, C, H, None)) == (None, None, D)


def test_integers_are_cast():
    image = np.arange(H * W * C).reshape(1, H, W, C) % 256
    layer = embedding()
    wanted = numpy(layer(image.astype("float32")))
    np.testing.assert_allclose(numpy(layer(image.astype("uint8"))), wanted)


@pytest.mark.everywhere("convolution and resizing", cases=2)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 7), (5, 13), (2, 3), (11, 2), (1, 1)])
def test_interpolation_equals_keras(interpolation, size):
    """Keras' resize with antialiasing, which needs known sizes."""
    P = np.random.default_rng(2).normal(size=(ROWS, COLUMNS, D)).astype("float32")
    wanted = keras.ops.image.resize(
        P, size, interpolation, antialias=True, data_format="channels_last"
    )
    found = grid.resize(keras.ops.convert_to_tensor(P), size, interpolation)
    np.testing.assert_allclose(numpy(found), numpy(wanted), atol=1e-5)


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(["bilinear", "bicubic"]))
def test_interpolation_of_constants_and_mirror_images(old, new, interpolation):
    A = numpy(grid.interpolation_matrix(old, new, interpolation))
    np.testing.assert_allclose(A.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(A, A[::-1, ::-1], atol=1e-4)
    if old == new:
        np.testing.assert_array_equal(A, np.eye(old))


@pytest.mark.parametrize("class_token", [True, False])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_positions_of_another_size(interpolation, class_token):
    """The grid is interpolated, row by row, and the class token's position is not."""
    layer = embedding(interpolation=interpolation, class_token=class_token)
    first = int(class_token)
    E = numpy(layer.position_embeddings)
    bigger = np.zeros((B, 5 * P, 2 * Q, C), "float32")
    constant = numpy(layer(bigger)) - numpy(layer.positions(5, 2))
    if class_token:
        token = np.tile(numpy(layer.token), (B, 1))
        np.testing.assert_allclose(constant[:, 0], token, atol=1e-5)
    bias = np.tile(numpy(layer.bias), (B, 10, 1))
    np.testing.assert_allclose(constant[:, first:], bias, atol=1e-5)
    found = numpy(layer.positions(5, 2))
    np.testing.assert_array_equal(found[:first], E[:first])
    wanted = grid.resize(
        keras.ops.convert_to_tensor(E[first:].reshape(ROWS, COLUMNS, D)),
        (5, 2),
        interpolation,
    )
    np.testing.assert_array_equal(found[first:], numpy(wanted).reshape(10, D))


def test_image_size_sets_the_positions():
    """Building with images of another or unknown size gives the same positions."""
    wanted = embedding()
    for shape in (X.shape, (None, None, None, C), (1, 4, 10, C)):
        layer = layers.PatchEmbedding((P, Q), D, image_size=(H, W))
        layer.build(shape)
        layer.set_weights(wanted.get_weights())
        np.testing.assert_array_equal(numpy(layer(X)), numpy(wanted(X)))
    assert wanted.get_config()["image_size"] == (H, W)


def test_initial_positions_are_small_and_differ():
    layer = layers.PatchEmbedding(2, 64, image_size=32)
    layer.build((None, None, None, 1))
    for weight in (layer.position_embeddings, layer.token):
        assert 0.01 < numpy(weight).std() < 0.03


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"patch_size": 0}, ValueError, "patch_size must be at least 1, received 0"),
        (
            {"patch_size": 2.5},
            TypeError,
            "patch_size must be a whole number, received 2.5",
        ),
        ({"patch_size": (2,)}, TypeError, r"whole number or \(height, width\)"),
        ({"hidden_dim": 0}, ValueError, "hidden_dim must be at least 1, received 0"),
        (
            {"image_size": (6, 0)},
            ValueError,
            "image_size must be at least 1, received 0",
        ),
        (
            {"image_size": (7, 8)},
            ValueError,
            "divide the image size 7 × 8, received 2 × 2. Choose",
        ),
        (
            {"interpolation": "cubic"},
            ValueError,
            'interpolation="cubic" is not one of .* Did you mean "bicubic"',
        ),
        ({"class_token": "yes"}, ValueError, 'class_token="yes" is not one of True'),
        ({"data_format": "last"}, ValueError, 'data_format="last" is not one of'),
    ],
)
def test_wrong_arguments(options, error, message):
    with pytest.raises(error, match=message):
        layers.PatchEmbedding(**{"patch_size": 2, "hidden_dim": 5, **options})


def test_patch_size_that_does_not_divide_the_image():
    layer = embedding()
    message = "divide the image size {} × {}, received 2 × 5"
    with pytest.raises(ValueError, match=message.format(7, 35)):
        layer(np.zeros((1, 7, 35, C), "float32"))
    with pytest.raises(ValueError, match=message.format(6, 36)):
        layer(keras.Input((6, 36, C)))
    with pytest.raises(ValueError, match=message.format(9, 5)):
        layers.PatchEmbedding((P, Q), D)(np.zeros((1, 9, 5, C), "float32"))
    with pytest.raises(ValueError, match=message.format(None, 6)):
        layer.compute_output_shape((1, None, 6, C))
    with pytest.raises(ValueError, match="unknown size .* Pass image_size"):
        layers.PatchEmbedding((P, Q), D)(keras.Input((None, 35, C)))

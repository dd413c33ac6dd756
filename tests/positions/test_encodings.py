"""Encodings added to embeddings: equations, positions, padding, precision."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from kerasseq import kernels, layers

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, T, D = 2, 7, 5
X = np.zeros((B, T, D), "float32")


def numpy(x):
    return ops.convert_to_numpy(x)


def sine(p, D, wavelength=10000):
    """The equation of the slides, feature by feature."""
    code = np.empty((len(p), D))
    for i in range(D):
        angle = np.asarray(p) / wavelength ** (2 * (i // 2) / D)
        code[:, i] = np.cos(angle) if i % 2 else np.sin(angle)
    return code


def learned():
    return layers.PositionEmbedding(
        40, keras.initializers.RandomNormal(stddev=1.0, seed=1)
    )


CODES = {
    "amplitude": lambda: layers.AmplitudePosition(0.5),
    "binary": layers.BinaryPosition,
    "sine": lambda: layers.SinePositionEncoding(50),
    "learned": learned,
}


@pytest.fixture(params=CODES)
def layer(request):
    layer = CODES[request.param]()
    layer.build(X.shape)
    return layer


@given(
    st.sampled_from([1, 2, 5, 12]),
    st.integers(0, 300),
    st.sampled_from([3, 100, 10000]),
)
def test_sine_encoding_equals_the_equation(width, start, wavelength):
    layer = layers.SinePositionEncoding(wavelength)
    found = layer(np.zeros((B, T, width)), start_index=start)
    expected = sine(np.arange(start, start + T), width, wavelength)
    np.testing.assert_allclose(
        numpy(found), np.broadcast_to(expected, (B, T, width)), atol=5e-5
    )


def test_products_of_sine_encodings_depend_on_the_distance_only():
    code = numpy(layers.SinePositionEncoding()(np.zeros((1, 29, 6))))[0]
    products = code @ code.T
    for k in range(29):
        assert np.ptp(np.diagonal(products, k)) < 1e-5
    assert np.ptp(products[0]) > 0.5


@pytest.mark.everywhere("compiled and in small types", cases=1)
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
def test_angles_are_float32_in_mixed_precision(policy):
    """KerasHub's are off by 1.56 within 512 positions in bfloat16."""
    layer = layers.SinePositionEncoding(dtype=policy)
    found = numpy(ops.cast(layer(np.zeros((1, 2048, 6))), "float32"))[0]
    assert np.abs(found - sine(np.arange(2048), 6)).max() < 2**-8
    whole = np.arange(2048 - 300, 2048)
    found = layer(np.zeros((1, 300, 6)), positions=whole)
    found = numpy(ops.cast(found, "float32"))[0]
    assert np.abs(found - sine(whole, 6)).max() < 2**-8


def test_amplitude_and_binary_encodings():
    found = numpy(layers.AmplitudePosition(0.5)(X))
    assert found.tolist() == [[[p / 2] * D for p in range(T)]] * B
    for width in (3, 5, 40):
        found = numpy(layers.BinaryPosition()(np.zeros((1, T, width))))[0]
        written = [format(p, f"0{width}b") for p in range(T)]
        assert found.tolist() == [[float(digit) for digit in row] for row in written]


def test_position_embedding_returns_rows():
    layer = learned()
    found = numpy(layer(X, start_index=3))
    table = numpy(layer.position_embeddings)
    assert table.shape == (40, D)
    np.testing.assert_array_equal(found, np.stack([table[3:10]] * B))


def test_start_index_positions_and_mask_agree(layer):
    whole = numpy(layer(np.zeros((B, 20, D))))
    later = numpy(layer(X, start_index=4))
    np.testing.assert_allclose(later, whole[:, 4:11], atol=1e-6)
    tensor = numpy(layer(X, start_index=ops.convert_to_tensor(4)))
    np.testing.assert_allclose(tensor, later, atol=1e-6)
    at = np.array([[0, 3, 1, 9, 9, 2, 19], [5, 4, 3, 2, 1, 0, 0]])
    found = numpy(layer(X, positions=at))
    np.testing.assert_allclose(found, whole[0][at], atol=1e-6)
    found = numpy(layer(X, positions=at[0], start_index=3))
    np.testing.assert_allclose(found, whole[:, at[0]], atol=1e-6)


def test_positions_are_counted_over_real_tokens(layer):
    whole = numpy(layer(X))
    mask = np.array([[0, 0, 1, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1, 0]], bool)
    masked = keras.layers.Masking()(np.where(mask[..., None], 1.0, X))
    for found in (layer(X, mask=mask), layer(masked)):
        np.testing.assert_allclose(numpy(found)[0, mask[0]], whole[0, :4], atol=1e-6)
        np.testing.assert_allclose(numpy(found)[1, mask[1]], whole[1, :6], atol=1e-6)
    np.testing.assert_array_equal(numpy(found._keras_mask), mask)
    found = numpy(layer(X, mask=mask, start_index=2))
    later = numpy(layer(X, start_index=2))
    np.testing.assert_allclose(found[0, mask[0]], later[0, :4], atol=1e-6)


def test_more_axes_before_time(layer):
    found = numpy(layer(np.zeros((B, 3, T, D))))
    np.testing.assert_array_equal(found, np.stack([numpy(layer(X))] * 3, 1))
    mask = np.array([[0] * 2 + [1] * 5, [1] * 7], bool)
    found = numpy(layer(np.zeros((B, 3, T, D)), mask=mask))
    np.testing.assert_array_equal(found, np.stack([numpy(layer(X, mask=mask))] * 3, 1))


@pytest.mark.everywhere("compiled and in small types", cases=1)
def test_compiled_steps_equal_the_whole_sequence(layer):
    """As in decoding step by step, where the start index is a tensor."""
    whole = numpy(layer(X))
    step = kernels.compiled(lambda x, t: layer(x, start_index=t))
    for t in range(T):
        x = ops.convert_to_tensor(X[:, t : t + 1])
        found = step(x, ops.convert_to_tensor(t, "int32"))
        np.testing.assert_allclose(numpy(found), whole[:, t : t + 1], atol=1e-6)


@keras.saving.register_keras_serializable("tests")
class Inferred(keras.layers.Layer):
    """A layer whose output shape Keras infers by a call."""

    def __init__(self, code):
        super().__init__()
        self.code = code

    def call(self, x):
        return x + self.code(x)


def test_unknown_lengths(layer):
    inputs = keras.Input((None, D))
    assert layer(inputs).shape == (None, None, D)
    model = keras.Model(inputs, Inferred(layer)(inputs))
    assert model.output_shape == (None, None, D)
    np.testing.assert_array_equal(numpy(model(X)), numpy(layer(X)))


@pytest.mark.parametrize(
    ("kind", "limit", "why"),
    [("learned", 40, "sequence_length=40"), ("binary", 32, "as its width is 5")],
)
def test_too_long_sequences(kind, limit, why):
    layer = CODES[kind]()
    assert layer(np.zeros((1, limit, D))).shape == (1, limit, D)
    assert layer(X, start_index=limit - T).shape == X.shape
    with pytest.raises(
        ValueError, match=f"encodes {limit} positions, {why}, received a sequence of 41"
    ):
        layer(np.zeros((1, 41, D)))
    with pytest.raises(ValueError, match="a sequence of 7 tokens from start_index=34"):
        layer(X, start_index=34)


def test_output_dtype(layer):
    changed = type(layer).from_config({**layer.get_config(), "dtype": "float16"})
    assert keras.backend.standardize_dtype(changed(X).dtype) == "float16"


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("PositionEmbedding", (0,), ValueError, "sequence_length must be at least 1"),
        ("PositionEmbedding", (2.5,), TypeError, "sequence_length must be a whole"),
        ("SinePositionEncoding", (-1,), ValueError, "max_wavelength must be a number"),
        ("TokenAndPositionEmbedding", (0, 3, 5), ValueError, "vocabulary_size must"),
        ("TokenAndPositionEmbedding", (7, 0, 5), ValueError, "sequence_length must"),
        ("TokenAndPositionEmbedding", (7, 3, 0), ValueError, "embedding_dim must be"),
        ("PositionalEmbedding", (3, 0, 5), ValueError, "input_dim must be at least 1"),
        ("PositionalEmbedding", (3, 7, None), TypeError, "output_dim must be a whole"),
        ("SegmentEmbedding", (0,), ValueError, "num_segments must be at least 1"),
    ],
)
def test_wrong_arguments(name, arguments, error, message):
    with pytest.raises(error, match=message):
        getattr(layers, name)(*arguments)

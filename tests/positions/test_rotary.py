"""Rotary embedding: rotations, layouts, longer sequences, axes, precision."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from kerasseq import layers
from kerasseq.positions import frequencies
from kerasseq.positions.rotary import RotaryEmbedding

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

B, T, N, K = 2, 7, 3, 10
X = np.random.default_rng(0).normal(size=(B, T, N, K)).astype("float32")


def numpy(x):
    return ops.convert_to_numpy(x)


def rotated(x, p, omega, factor=1.0):
    """Each pair, of the first and of the second half, as a complex number."""
    half = x.shape[-1] // 2
    turn = factor * np.exp(1j * np.asarray(p)[..., None, None] * omega)
    z = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate([z.real, z.imag], -1)


@given(st.integers(0, 2000), st.sampled_from([7, 10000]), st.integers(1, 4))
def test_each_pair_is_rotated_as_a_complex_number(start, wavelength, pairs):
    x = X[..., : 2 * pairs]
    omega = np.array([wavelength ** (-2 * i / (2 * pairs)) for i in range(pairs)])
    found = layers.RotaryEmbedding(wavelength)(x, start_index=start)
    expected = rotated(x, np.arange(start, start + T), omega)
    np.testing.assert_allclose(numpy(found), expected, atol=1e-6 * (10 + start))


@pytest.mark.parametrize("options", [{}, {"interleaved": True}, {"fraction": 0.6}])
@given(p=st.integers(0, 300), s=st.integers(0, 300), by=st.integers(-40, 700))
def test_products_depend_on_the_distance_only(options, p, s, by):
    """The property that defines rotary embeddings."""
    layer = layers.RotaryEmbedding(100, **options)
    q, k = X[:1, :1], X[1:, 1:2]
    products = []
    for start in (0, max(by, -min(p, s))):
        at = [ops.convert_to_tensor([[one + start]]) for one in (p, s)]
        products.append(
            np.sum(
                numpy(layer.rotate(ops.convert_to_tensor(q), at[0]))
                * numpy(layer.rotate(ops.convert_to_tensor(k), at[1])),
                -1,
            )
        )
    np.testing.assert_allclose(*products, atol=2e-3)


def test_position_zero_and_norms_are_unchanged():
    found = numpy(layers.RotaryEmbedding()(X))
    np.testing.assert_allclose(found[:, 0], X[:, 0], atol=1e-6)
    lengths = np.linalg.norm(X, axis=-1), np.linalg.norm(found, axis=-1)
    np.testing.assert_allclose(*lengths, rtol=1e-5)
    assert np.abs(found[:, 1:] - X[:, 1:]).max() > 0.5


@pytest.mark.once("a cast of the inputs")
def test_integers_are_rotated_as_floats():
    layer, x = layers.RotaryEmbedding(), np.round(3 * X)
    np.testing.assert_array_equal(numpy(layer(x.astype("int32"))), numpy(layer(x)))


def test_layouts_differ_by_feature_order_only():
    order = [i // 2 + (i % 2) * K // 2 for i in range(K)]
    halves = numpy(layers.RotaryEmbedding()(X))
    neighbors = numpy(layers.RotaryEmbedding(interleaved=True)(X[..., order]))
    np.testing.assert_allclose(neighbors, halves[..., order], atol=1e-6)


@pytest.mark.parametrize("interleaved", [False, True])
def test_only_a_fraction_is_rotated(interleaved):
    options = {"interleaved": interleaved}
    found = numpy(layers.RotaryEmbedding(fraction=0.45, **options)(X))
    np.testing.assert_array_equal(found[..., 4:], X[..., 4:])
    alone = numpy(layers.RotaryEmbedding(**options)(X[..., :4]))
    np.testing.assert_allclose(found[..., :4], alone, atol=1e-6)


def hugging_face_yarn(D, base, factor, length, fast, slow, truncate):
    """As the paper's code and Hugging Face's Transformers have it, pair by pair."""

    def pair(turns):
        return D * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair(fast), pair(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, D - 1)
    found = []
    for i in range(D // 2):
        ramp = min(max((i - low) / (high - low), 0), 1)
        omega = base ** (-2 * i / D)
        found.append(omega / factor * ramp + omega * (1 - ramp))
    return np.array(found)


def hugging_face_llama3(D, base, factor, length, low, high):
    """As Hugging Face's Transformers have it, by wavelengths, pair by pair."""
    found = []
    for i in range(D // 2):
        omega = base ** (-2 * i / D)
        wavelength = 2 * math.pi / omega
        if wavelength > length / low:
            omega /= factor
        elif wavelength >= length / high:
            smooth = (length / wavelength - low) / (high - low)
            omega = (1 - smooth) * omega / factor + smooth * omega
        found.append(omega)
    return np.array(found)


@pytest.mark.parametrize(
    "kind", ["linear", "ntk", "dynamic", "yarn", "whole", "llama3"]
)
def test_frequency_scaling(kind):
    s, base, D = 4.0, 500, K
    i = np.arange(D // 2)
    omega, factor = base ** (-2 * i / D), 1.0
    options = {"rope_type": "yarn" if kind == "whole" else kind}
    if kind == "linear":
        expected = omega / s
    elif kind == "ntk":
        expected = (base * s ** (D / (D - 2))) ** (-2 * i / D)
        assert expected[0] == 1
        assert expected[-1] == pytest.approx(omega[-1] / s)
    elif kind == "dynamic":
        expected = omega / s ** (D / (D - 2))
    elif kind == "llama3":
        bounds = {"low_freq_factor": 0.5, "high_freq_factor": 16.0}
        options |= {"original_max_position_embeddings": 300, **bounds}
        expected = hugging_face_llama3(D, base, s, 300, 0.5, 16)
        assert np.any((expected < omega) & (expected > omega / s))
    else:
        beta = {"beta_fast": 16.0, "beta_slow": 0.5}
        options |= {"original_max_position_embeddings": 300, **beta}
        options |= {"truncate": kind == "whole"}
        expected = hugging_face_yarn(D, base, s, 300, 16, 0.5, kind == "whole")
        factor = 0.1 * math.log(s) + 1
        assert np.any((expected < omega) & (expected > omega / s))
    layer = layers.RotaryEmbedding(base, s, **options)
    found = numpy(layer(X, start_index=30))
    expected = rotated(X, np.arange(30, 37), expected, factor)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert (
        np.abs(found - numpy(layers.RotaryEmbedding(base)(X, start_index=30))).max()
        > 0.1
    )


def test_yarn_with_factor_one_and_attention_factor():
    one = numpy(layers.RotaryEmbedding(rope_type="yarn")(X))
    np.testing.assert_allclose(one, numpy(layers.RotaryEmbedding()(X)), atol=1e-6)
    options = {"scaling_factor": 8.0, "rope_type": "yarn"}
    found = numpy(layers.RotaryEmbedding(**options, attention_factor=2.0)(X))
    own = numpy(layers.RotaryEmbedding(**options)(X))
    np.testing.assert_allclose(found, own * 2 / (0.1 * math.log(8) + 1), atol=1e-5)


def test_denominator_dim():
    found = numpy(layers.RotaryEmbedding(denominator_dim=2 * K)(X))
    omega = 10000 ** (-np.arange(K // 2) / K)
    np.testing.assert_allclose(found, rotated(X, np.arange(T), omega), atol=1e-5)


def test_other_axes():
    plain = numpy(layers.RotaryEmbedding()(X))
    moved = np.moveaxis(X, (1, 3), (2, 1))  # (B, K, T, N)
    layer = layers.RotaryEmbedding(sequence_axis=2, feature_axis=1)
    found = np.moveaxis(numpy(layer(moved)), (2, 1), (1, 3))
    np.testing.assert_allclose(found, plain, atol=1e-6)
    found = numpy(layers.RotaryEmbedding()(X[:, :, 0]))
    np.testing.assert_allclose(found, plain[:, :, 0], atol=1e-6)


def test_positions_and_masks():
    layer = layers.RotaryEmbedding()
    at = np.array([[0, 4, 4, 1, 9, 3, 2], [1, 2, 3, 4, 5, 6, 7]])
    omega = frequencies.frequencies(K, 10000)
    found = numpy(layer(X, positions=at))
    np.testing.assert_allclose(found, rotated(X, at, omega), atol=1e-5)
    found = numpy(layer(X, positions=at[0], start_index=5))
    np.testing.assert_allclose(found, rotated(X, at[:1], omega), atol=1e-5)
    mask = np.array([[0, 0, 1, 1, 1, 1, 1], [1] * 7], bool)
    found = numpy(layer(X, mask=mask))
    np.testing.assert_allclose(
        found[0, 2:], rotated(X[0, 2:], np.arange(5), omega), atol=1e-5
    )


@pytest.mark.everywhere("small types", cases=1)
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_angles_are_float32_in_mixed_precision(policy):
    """At position 4097, which bfloat16 rounds to 4096."""
    layer = layers.RotaryEmbedding(dtype=policy)
    found = numpy(ops.cast(layer(X, start_index=4091), "float32"))
    expected = rotated(X, np.arange(4091, 4098), frequencies.frequencies(K, 10000))
    assert np.abs(found - expected).max() < 0.03


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_wavelength": 0}, ValueError, "max_wavelength must be a number above 0"),
        ({"scaling_factor": 0}, ValueError, "scaling_factor must be a number above 0"),
        ({"rope_type": "yarm"}, ValueError, 'is not one of .* Did you mean "yarn"'),
        (
            {"beta_slow": 40.0},
            ValueError,
            "beta_fast must be above beta_slow",
        ),
        ({"low_freq_factor": 4.0}, ValueError, "and low_freq_factor=4.0"),
        ({"high_freq_factor": 0.5}, ValueError, "high_freq_factor=0.5 and low"),
        ({"low_freq_factor": 0}, ValueError, "low_freq_factor=0"),
        (
            {"fraction": 1.5},
            ValueError,
            "fraction must lie between 0 and 1, received 1.5",
        ),
        ({"original_max_position_embeddings": 0}, ValueError, "must be at least 1"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        layers.RotaryEmbedding(**arguments)


def test_odd_number_of_rotated_features():
    with pytest.raises(ValueError, match="must be even .* received 9 of width 9"):
        layers.RotaryEmbedding()(X[..., :9])
    with pytest.raises(ValueError, match="received 5 of width 10 with fraction=0.5"):
        layers.RotaryEmbedding(fraction=0.5)(X)


D, TRAINED = 8, 5


def by_length(kind, length):
    """ω and the attention factor, as in the papers."""
    exponents = np.arange(0, D, 2) / D
    if kind == "longrope":
        factors = np.array(LONG["long_factor" if length > TRAINED else "short_factor"])
        sharper = np.sqrt(1 + np.log(4.0) / np.log(TRAINED))
        return 1 / (factors * 100.0**exponents), sharper
    growth = 4.0 * max(length, TRAINED) / TRAINED - 3.0
    return (100.0 * growth ** (D / (D - 2))) ** -exponents, 1.0


LONG = {"short_factor": [1.0, 1.1, 1.2, 1.5], "long_factor": [1.0, 2.0, 4.0, 8.0]}


@pytest.mark.everywhere("angles that are computed from the positions of the batch")
@pytest.mark.parametrize("kind", ["dynamic_ntk", "longrope"])
def test_length_dependent_frequencies(kind):
    layer = RotaryEmbedding(
        100.0,
        4.0,
        kind,
        original_max_position_embeddings=TRAINED,
        **(LONG if kind == "longrope" else {}),
    )
    assert layer.constant_length == TRAINED
    same = type(layer).from_config(layer.get_config())
    x = np.random.default_rng(0).normal(size=(2, 7, D)).astype("float32")
    mask = np.array([[1] * 7, [1] * 4 + [0] * 3], bool)  # a long text, and a short one
    found = ops.convert_to_numpy(same(x, mask=mask))
    for row, length in ((0, 7), (1, 4)):
        omega, factor = by_length(kind, length)
        at = np.arange(length)[:, None] * omega
        one, two = x[row, :length, : D // 2], x[row, :length, D // 2 :]
        wanted = factor * np.concatenate(
            [
                one * np.cos(at) - two * np.sin(at),
                two * np.cos(at) + one * np.sin(at),
            ],
            -1,
        )
        np.testing.assert_allclose(found[row, :length], wanted, atol=1e-5)


@pytest.mark.once("arguments: the same on all backends")
def test_wrong_factors():
    with pytest.raises(ValueError, match="short_factor must be a list of finite"):
        RotaryEmbedding(rope_type="longrope")
    with pytest.raises(ValueError, match='long_factor is for rope_type="longrope"'):
        RotaryEmbedding(long_factor=[1.0])
    layer = RotaryEmbedding(rope_type="longrope", short_factor=[1], long_factor=[2])
    with pytest.raises(ValueError, match="short_factor must have 4 numbers, one for"):
        layer(np.ones((1, 3, D), "float32"))

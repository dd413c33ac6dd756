"""Results equal those of KerasHub's layers with the same weights."""

import warnings

import keras
import numpy as np
import pytest
from keras import ops

from kerasseq import layers
from kerasseq.positions.relative import buckets

pytestmark = pytest.mark.full("KerasHub's layers are compositions, as ours are")

B, T, N, D = 2, 7, 3, 6
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
HEADS = np.random.default_rng(1).normal(size=(B, T, N, D)).astype("float32")
SCORES = np.random.default_rng(2).normal(size=(B, N, T, 5)).astype("float32")
AT = np.array([[0, 4, 4, 1, 9, 3, 2], [1, 2, 3, 4, 5, 6, 7]])
PLACES = [{}, {"start_index": 4}, {"positions": AT}, {"positions": AT[1]}]
YARN = {"rope_type": "yarn", "scaling_factor": 4.0, "max_wavelength": 500}


@pytest.fixture(scope="module")
def keras_hub():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("keras_hub")


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.mark.parametrize(
    ("name", "arguments", "inputs"),
    [
        ("SinePositionEncoding", {}, X),
        ("SinePositionEncoding", {"max_wavelength": 30}, X[..., :5]),
        ("PositionEmbedding", {"sequence_length": 11}, X),
        ("RotaryEmbedding", {}, X),
        ("RotaryEmbedding", {"max_wavelength": 50, "scaling_factor": 3.0}, HEADS),
        ("RotaryEmbedding", {"rope_type": "dynamic", "scaling_factor": 3.0}, HEADS),
        ("RotaryEmbedding", {**YARN, "original_max_position_embeddings": 90}, HEADS),
        ("RotaryEmbedding", {**YARN, "truncate": False, "beta_fast": 20.0}, HEADS),
        ("RotaryEmbedding", {"denominator_dim": 16}, HEADS),
        ("RotaryEmbedding", {"sequence_axis": 2, "feature_axis": -1}, HEADS),
    ],
)
def test_encodings_and_rotations(keras_hub, name, arguments, inputs):
    pair = [getattr(source, name)(**arguments) for source in (layers, keras_hub.layers)]
    for layer in pair:
        layer.build(inputs.shape)
    assert [(w.name, w.shape) for w in pair[0].weights] == [
        (w.name, w.shape) for w in pair[1].weights
    ]
    pair[0].set_weights(pair[1].get_weights())
    places = PLACES[:2] if "sequence_axis" in arguments else PLACES
    for place in places:
        found, wanted = (numpy(layer(inputs, **place)) for layer in pair)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    known = {n: pair[0].get_config()[n] for n in pair[1].get_config() if n != "dtype"}
    del known["name"]
    for argument, value in known.items():
        assert value == pair[1].get_config()[argument]


@pytest.mark.parametrize("heads", [1, 3, 4, 12])
def test_slopes(keras_hub, heads):
    scores = np.zeros((1, heads, 2, 5), "float32")
    for options in ({}, {"alibi_bias_max": 5}):
        found = numpy(layers.AlibiBias(**options)(scores))
        wanted = numpy(keras_hub.layers.AlibiBias(**options)(scores))
        np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"tie_weights": False, "mask_zero": True}])
def test_tokens_and_positions(keras_hub, options, tmp_path):
    ids = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]])
    arguments = {"vocabulary_size": 13, "sequence_length": 11, "embedding_dim": D}
    pair = []
    for source in (layers, keras_hub.layers):
        inputs = keras.Input((None,), dtype="int32")
        layer = source.TokenAndPositionEmbedding(**arguments, **options, name="x")
        pair.append(keras.Model(inputs, layer(inputs)))
    pair[1].save_weights(tmp_path / "theirs.weights.h5")
    pair[0].load_weights(tmp_path / "theirs.weights.h5")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs warns of the mask
        found, wanted = (numpy(model(ids)) for model in pair)
    np.testing.assert_array_equal(found[ids > 0], wanted[ids > 0])
    if not options:
        np.testing.assert_array_equal(found, wanted)
    pair[0].save_weights(tmp_path / "ours.weights.h5")
    pair[1].load_weights(tmp_path / "ours.weights.h5")


def test_t5_buckets(keras_hub):
    private = "keras_hub.src.models.t5.t5_multi_head_attention"
    theirs = pytest.importorskip(private).T5MultiHeadAttention
    distance = np.arange(-300, 301, dtype="int32")
    for both in (True, False):
        for sizes in ((32, 128), (16, 20), (64, 1000)):
            found = buckets(distance, *sizes, bidirectional=both)
            wanted = theirs._relative_position_bucket(
                ops.convert_to_tensor(distance), both, *sizes
            )
            np.testing.assert_array_equal(found, numpy(wanted))

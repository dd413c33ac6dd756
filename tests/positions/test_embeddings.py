"""Token, position and segment embeddings."""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq import layers

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

V, L, D = 13, 11, 5
IDS = np.array([[0, 0, 7, 3, 12], [1, 2, 0, 4, 0]])


def numpy(x):
    return ops.convert_to_numpy(x)


def build(kind, **options):
    if kind == "book":
        return layers.PositionalEmbedding(L, V, D, **options)
    return layers.TokenAndPositionEmbedding(V, L, D, **options)


@pytest.fixture(params=["hub", "book"])
def kind(request):
    return request.param


def tables(layer):
    tokens = numpy(layer.token_embedding.embeddings)
    return tokens, numpy(layer.position_embedding.position_embeddings)


def test_sum_of_token_and_position_embedding(kind):
    layer = build(kind)
    found = numpy(layer(IDS))
    tokens, places = tables(layer)
    assert tokens.shape == (V, D) and places.shape == (L, D)
    np.testing.assert_allclose(found, tokens[IDS] + places[:5], atol=1e-6)
    found = numpy(layer(IDS, start_index=6))
    np.testing.assert_allclose(found, tokens[IDS] + places[6:11], atol=1e-6)
    found = numpy(layer(IDS, positions=IDS % 3))
    np.testing.assert_allclose(found, tokens[IDS] + places[IDS % 3], atol=1e-6)
    assert np.abs(tokens[:L] - places).max() > 1e-3  # not drawn alike


def test_padding_is_masked_and_not_counted(kind):
    layer = build(kind, mask_zero=True)
    found = layer(IDS)
    np.testing.assert_array_equal(numpy(found._keras_mask), IDS > 0)
    tokens, places = tables(layer)
    expected = tokens[[7, 3, 12]] + places[:3]
    np.testing.assert_allclose(numpy(found)[0, 2:], expected, atol=1e-6)
    expected = tokens[[1, 2, 4]] + places[:3]
    np.testing.assert_allclose(numpy(found)[1, [0, 1, 3]], expected, atol=1e-6)
    # A mask that is given counts instead, and is handed on.
    real = np.array([[0, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
    found = layer(IDS, mask=real)
    expected = tokens[[0, 7, 3, 12]] + places[:4]
    np.testing.assert_allclose(numpy(found)[0, 1:], expected, atol=1e-6)
    np.testing.assert_array_equal(numpy(found._keras_mask), real)
    assert getattr(build(kind)(IDS), "_keras_mask", None) is None


def test_masks_reach_later_layers_in_a_model(kind):
    inputs = keras.Input((None,), dtype="int32")
    x = build(kind, mask_zero=True)(inputs)
    model = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(x))
    shorter, longer = model(IDS[:1, 2:]), model(IDS[:1])
    np.testing.assert_allclose(numpy(longer), numpy(shorter), atol=1e-6)


def test_logits_with_tied_and_untied_weights(kind):
    tied, other = build(kind), build(kind, tie_weights=False)
    x = tied(IDS)
    found = numpy(tied.token_embedding(x, reverse=True))
    np.testing.assert_allclose(found, numpy(x) @ tables(tied)[0].T, atol=1e-5)
    other.build(IDS.shape)
    assert [w.shape for w in other.weights] == [(V, D), (D, V), (L, D)]
    assert len(tied.weights) == 2


def test_float_ids_are_exact_in_mixed_precision(kind):
    options = {"dtype": "mixed_bfloat16"}
    if kind == "book":
        layer = layers.PositionalEmbedding(3, 400, D, **options)
    else:
        layer = layers.TokenAndPositionEmbedding(400, 3, D, **options)
    ids = np.array([[256.0, 257.0, 399.0]], "float32")
    found = layer(ids)
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    tokens, places = tables(layer)
    expected = tokens[ids.astype(int)] + places
    np.testing.assert_allclose(numpy(ops.cast(found, "float32")), expected, atol=2e-3)


def test_too_long_sequences(kind):
    with pytest.raises(ValueError, match="sequence_length=11, received a seq.* 12"):
        build(kind)(np.ones((1, 12), int))


def test_saved_and_loaded(kind, tmp_path):
    inputs = keras.Input((None,), dtype="int32")
    layer = build(kind, mask_zero=True, tie_weights=False)
    model = keras.Model(inputs, layer(inputs))
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(loaded(IDS)), numpy(model(IDS)))
    assert loaded.layers[1].get_config() == layer.get_config()
    assert len(loaded.weights) == 3


def test_segments():
    layer = layers.SegmentEmbedding(2, name="segments")
    x = np.zeros((2, 3, D), "float32")
    segments = np.array([[0, 0, 1], [1, 1, 0]])
    found = numpy(layer(x, segments))
    table = numpy(layer.segment_embeddings)
    assert table.shape == (2, D)
    np.testing.assert_array_equal(found, table[segments])
    same = numpy(layer(x, segments[0]))
    np.testing.assert_array_equal(same, table[segments[[0, 0]]])
    inputs = keras.Input((None, D)), keras.Input((None,))
    model = keras.Model(inputs, layer(*inputs))
    assert model.output_shape == (None, None, D)
    np.testing.assert_array_equal(numpy(model([x, segments])), found)
    masked = keras.layers.Masking()(np.ones((2, 3, D)) * (segments[..., None] > 0))
    handed = layer(masked, ops.convert_to_tensor(segments))._keras_mask
    np.testing.assert_array_equal(numpy(handed), segments > 0)

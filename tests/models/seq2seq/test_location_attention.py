"""`Seq2Seq` with `LocationAttention`, which limits the source length."""

import keras
import numpy as np
import pytest

from kerasseq import layers, models

pytestmark = pytest.mark.full("translators with other attention are trained everywhere")

PAIRS = ([[1, 2, 3], [2, 1], [3]] * 3, [[3, 2, 1], [1, 2], [3]] * 3)


def test_fit_translate_and_save(tmp_path):
    model = models.Seq2Seq(
        "gru",
        source_vocabulary_size=5,
        target_vocabulary_size=5,
        units=3,
        attention=layers.LocationAttention(7),
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    before = keras.ops.convert_to_numpy(model.decoder.attention.W)
    model.fit(*PAIRS, batch_size=3, epochs=1, verbose=0)
    after = keras.ops.convert_to_numpy(model.decoder.attention.W)
    # Sources have at most three tokens: other positions get no gradient.
    moved = np.any(after != before, axis=0)
    assert moved[:3].all() and not moved[4:].any()
    # The source is padded to 8 positions, more than the attention has.
    found = model.translate([[1, 2, 3]], max_length=4)[0]
    assert found.alignment.shape[1] == 3
    np.testing.assert_allclose(found.alignment.sum(axis=1), 1, atol=1e-5)
    model.save(tmp_path / "a.keras")
    again = keras.saving.load_model(tmp_path / "a.keras")
    np.testing.assert_allclose(
        again.translate([[1, 2, 3]], max_length=4)[0].alignment,
        found.alignment,
        atol=1e-5,
    )
    with pytest.raises(
        ValueError, match="at most 7 tokens.*received 8 tokens.*larger max_length"
    ):
        model.translate([[1] * 8])
    with pytest.raises(ValueError, match="8 tokens"):
        model.fit([[1] * 8], [[1]], verbose=0)


@pytest.mark.once("a message")
def test_feature_map_longer_than_max_length_raises():
    image = keras.Input((3, 4, 2))
    encoder = keras.Model(image, keras.layers.Conv2D(5, 1)(image))
    with pytest.raises(ValueError, match="at least 12, .* received max_length=7"):
        models.Seq2Seq(
            encoder,
            target_vocabulary_size=5,
            units=3,
            decoder="gru",
            attention=layers.LocationAttention(7),
        )

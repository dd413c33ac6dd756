"""The architecture "transformer" in every task model."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.models import (
    Forecaster,
    LanguageModel,
    Seq2Seq,
    SequenceClassifier,
    SequenceTagger,
)
from kerasseq.tasks.transformer_stack import TransformerStack
from tests.layer_checks import check_layer

pytestmark = pytest.mark.everywhere("trained, saved, loaded; masks")

B, T, V, D, C, H = 2, 7, 11, 5, 3, 6
rng = np.random.default_rng(0)
ids = rng.integers(1, V, (B, T)).astype("int32")
vectors = rng.normal(size=(B, T, D)).astype("float32")


def array(value):
    return keras.ops.convert_to_numpy(value)


@pytest.mark.full("a stack of Mamba is trained everywhere")
def test_classifier_learns_and_is_saved(tmp_path):
    keras.utils.set_random_seed(0)
    x = rng.integers(1, V, (64, T))
    y = (x[:, 0] > V // 2).astype("int32")  # must be carried to the last step
    model = SequenceClassifier("transformer", 2, vocabulary_size=V, units=16)
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(x, y, epochs=40, verbose=0)
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert accuracy > 0.95
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.evaluate(x, y, verbose=0) == pytest.approx([loss, accuracy], rel=1e-4)
    np.testing.assert_allclose(array(loaded(ids)), array(model(ids)), atol=1e-6)


@pytest.mark.full("blocks are tested with padding everywhere")
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padded_equals_unpadded(bidirectional):
    model = SequenceTagger(
        "transformer",
        C,
        vocabulary_size=V,
        units=H,
        num_layers=2,
        bidirectional=bidirectional,
    )
    y = array(model(ids))
    zeros = np.zeros((B, 3), "int32")
    right = array(model(np.hstack([ids, zeros])))[:, :T]
    left = array(model(np.hstack([zeros, ids])))[:, 3:]
    np.testing.assert_allclose(right, y, atol=1e-5)
    np.testing.assert_allclose(left, y, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_later_steps_are_attended_to_only_if_bidirectional(bidirectional):
    model = SequenceTagger(
        "transformer", C, features=D, units=H, bidirectional=bidirectional
    )
    other = vectors.copy()
    other[:, -1] += 1
    change = np.abs(array(model(other)) - array(model(vectors))).max(axis=(0, 2))
    assert change[-1] > 1e-3
    assert (change[:-1].max() > 1e-3) == bidirectional


def test_order_matters():
    model = SequenceClassifier("transformer", C, vocabulary_size=V, units=H)
    swapped = ids.copy()
    swapped[:, :2] = ids[:, 1::-1]
    assert np.abs(array(model(swapped)) - array(model(ids))).max() > 1e-4


@pytest.mark.full("other language models generate everywhere")
def test_language_model_generates_the_most_probable_tokens():
    model = LanguageModel("transformer", vocabulary_size=V, units=H, num_layers=2)
    prompt = ids[0, :3]
    written = np.asarray(model.generate(prompt, 4, temperature=0))
    assert written[:3].tolist() == prompt.tolist() and len(written) == 7
    logits = array(model(written[None]))[0]
    for end in range(3, 7):
        assert logits[end - 1].max() - logits[end - 1, written[end]] < 1e-4


@pytest.mark.full("a stack of Mamba is trained everywhere")
def test_seq2seq_has_a_transformer_encoder_and_a_recurrent_decoder():
    sizes = {"source_vocabulary_size": V, "target_vocabulary_size": V, "units": H}
    model = Seq2Seq("transformer", decoder="gru", **sizes)
    assert not model.get_layer("transformer").causal
    model.fit((ids, ids), ids, verbose=0)
    with pytest.raises(ValueError, match='recurrent .*received "transformer"'):
        Seq2Seq("transformer", **sizes)


@pytest.mark.full("a stack of Mamba is trained everywhere")
def test_forecaster_of_any_length():
    model = Forecaster("transformer", units=H, horizon=2)
    for time in (T, T + 2):
        history = np.arange(float(time))
        assert model.forecast(history, steps=3).shape == (3,)


@pytest.mark.full("a stack of Mamba is trained everywhere")
def test_all_layer_checks():
    still = {"key/bias": "a softmax does not change with a constant in its scores"}
    layer = TransformerStack(H, num_layers=2, causal=True)
    check_layer(layer, vectors, (B, T, H), still=still)


@pytest.mark.once("arguments")
def test_wrong_arguments():
    with pytest.raises(ValueError, match="num_heads must divide units=6, received num"):
        TransformerStack(H, num_heads=5)
    with pytest.raises(ValueError, match="units must be"):
        TransformerStack(0)
    with pytest.raises(ValueError, match='"transformer"'):
        SequenceClassifier("transfomer", C, features=D)

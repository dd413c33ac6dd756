"""`patience`: training stops, and the weights that are best on other rows stay."""

import keras
import numpy as np
import pytest

from kerasseq.models import (
    BERT,
    LanguageModel,
    Seq2Seq,
    SequenceClassifier,
    SequenceTagger,
)
from kerasseq.text import CharacterTokenizer, WordPieceTokenizer

pytestmark = pytest.mark.once("stops by numbers of Keras")

TEXTS = ["a b", "b c d", "c", "d a", "a", "b"] * 3
LABELS = ["x", "y", "y", "x", "y", "y"] * 3
TOKENIZER = CharacterTokenizer().fit("abcd ")


def classifier():
    model = SequenceClassifier("gru", tokenizer="character", units=3)
    return model, (TEXTS, LABELS)


def tagger():
    model = SequenceTagger("gru", tokenizer="word", units=3)
    words = [text.split() for text in TEXTS]
    return model, (words, [["xy"[word > "b"] for word in row] for row in words])


def language_model():
    return LanguageModel("gru", TOKENIZER, units=3), ("abcd " * 99,)


def translator():
    sizes = {"source_tokenizer": TOKENIZER, "target_tokenizer": TOKENIZER}
    return Seq2Seq("gru", units=3, **sizes), (TEXTS, TEXTS)


MODELS = [classifier, tagger, language_model, translator]


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_the_best_weights_stay(make):
    model, data = make()
    losses = []

    class Losses(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            # Training gets worse from the third epoch on.
            logs["val_loss"] = [3.0, 2.0, 5.0, 2.5, 2.1][epoch]
            losses.append(self.model.get_weights())

    history = model.fit(*data, epochs=7, patience=3, verbose=0, callbacks=[Losses()])
    assert len(history.epoch) == 5  # three epochs without a better one
    for best, kept in zip(losses[1], model.get_weights(), strict=True):
        np.testing.assert_array_equal(best, kept)
    assert any((a != b).any() for a, b in zip(losses[4], losses[1], strict=True))


def test_the_validation_part_has_rows_of_each_class():
    model, data = classifier()
    seen = {}

    class Seen(keras.callbacks.Callback):
        def on_test_batch_end(self, batch, logs=None):
            seen["batches"] = batch + 1

    model.fit(*data, patience=1, verbose=0, callbacks=Seen())
    assert seen["batches"] == 1
    with pytest.raises(ValueError, match="two rows of a label, .*one of each"):
        classifier()[0].fit(["a", "b"], ["x", "y"], patience=1, verbose=0)


def test_pretraining_needs_data_for_validation():
    small = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4}
    bert = BERT(WordPieceTokenizer(30).fit("a b c d"), **small, head="pretraining")
    with pytest.raises(ValueError, match="patience=2 needs data for validation"):
        bert.fit([TEXTS, TEXTS], patience=2, verbose=0)
    documents = [TEXTS, TEXTS]
    history = bert.fit(documents, patience=2, validation_data=documents, verbose=0)
    assert "val_loss" in history.history
    with pytest.raises(ValueError, match="patience must be at least 1, received 0"):
        bert.fit(documents, patience=0, validation_data=documents, verbose=0)

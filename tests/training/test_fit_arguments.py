"""`fit` on batches that are shuffled by their seed: the same for every model."""

import keras
import numpy as np
import pytest

from kerasseq.models import BERT, GPT, LanguageModel, SequenceClassifier, ViT
from kerasseq.text import CharacterTokenizer, WordPieceTokenizer
from kerasseq.training import TextBatches

pytestmark = pytest.mark.once("what Keras is called with")

TEXTS, LABELS = ["a b", "b c d", "c", "d a"] * 2, [0, 1] * 4
SMALL = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4}


def language_model():
    return LanguageModel("gru", CharacterTokenizer().fit("ab")), ("ab" * 399,)


def gpt():
    tokenizer = CharacterTokenizer().fit("ab")
    return GPT(tokenizer, max_sequence_length=64, **SMALL), ("ab" * 399,)


def classifier():
    tokenizer = CharacterTokenizer().fit("abcd ")
    return SequenceClassifier("gru", 2, tokenizer=tokenizer), (TEXTS, LABELS)


def bert():
    return BERT(WordPieceTokenizer(30).fit("a b c d"), **SMALL, head="pretraining")


def pretraining():
    return bert(), ([TEXTS, TEXTS],)


def fine_tuning():
    return bert().with_head("classify", 2), (TEXTS, LABELS)


def images():
    pixels = np.zeros((8, 6, 6, 1), "float32")
    return ViT(2, image_size=6, patch_size=3, channels=1, **SMALL), (pixels, LABELS)


MODELS = [language_model, gpt, classifier, pretraining, fine_tuning, images]


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_arguments_of_keras(make, monkeypatch):
    model, data = make()
    passed = {}

    def fit(self, x=None, y=None, **words):  # of Keras, which would train
        passed.update(words, x=x)

    monkeypatch.setattr(keras.Model, "fit", fit)
    more = {"shift": 0.1} if make is images else {}
    model.fit(
        *data,
        steps_per_epoch=3,
        initial_epoch=2,
        epochs=5,
        batch_size=2,
        shuffle=True,
        validation_freq=7,
        **more,
    )
    shown = {key: passed[key] for key in ("steps_per_epoch", "epochs", "shuffle")}
    assert shown == {"steps_per_epoch": 3, "epochs": 5, "shuffle": False}
    assert passed["initial_epoch"] == 2 and passed["validation_freq"] == 7
    first = next(iter(passed["x"]))
    # Two epochs of three batches came before.
    if hasattr(model, "batches"):
        batches = model.batches(*data, batch_size=2, **more)
    else:
        batches = TextBatches(model.tokenizer.encode(*data), 64, 2, seed=0)
    expected = batches.batch(6)
    for ours, theirs in zip(first, expected, strict=True):
        for a, b in zip(*map(keras.tree.flatten, (ours, theirs)), strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="shuffle=False is not possible"):
        model.fit(*data, shuffle=False, **more)

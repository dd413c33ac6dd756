"""A classifier of a bag of tokens and n-grams of characters."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq import models
from kerasseq.models import SequenceClassifier
from kerasseq.tasks.bag import BUCKETS, CHARACTERS, ngram_ids, ngram_spans
from kerasseq.text import BytePairTokenizer
from kerasseq.tracing import attribution
from tests.tasks.helpers import array

pytestmark = pytest.mark.once("hashes, prefixes and messages are plain Python")

TEXTS = ["To be or not", "that is the question", "whether it is nobler", "be not"]
LABELS = ["x", "y", "y", "x"]


def bag(**options):
    keras.utils.set_random_seed(0)
    tokenizer = BytePairTokenizer(300).fit(TEXTS)
    return SequenceClassifier("bag", tokenizer=tokenizer, units=3, **options)


def test_ngrams_are_hashed_by_fnv_1a():
    text = "Né ß"
    padded, expected, spans = " né ss ", [], []
    at = [(0, 0), (0, 1), (1, 2), (2, 3), (3, 4), (3, 4), (4, 4)]
    for n in (2, 3, 4):
        for start in range(len(padded) - n + 1):
            value = 2166136261
            for character in padded[start : start + n]:
                value = (value ^ ord(character)) * 16777619 % 2**32
            expected.append((value ^ value >> 15) % BUCKETS)
            spans.append([at[start][0], at[start + n - 1][1]])
    assert ngram_ids(text).tolist() == expected
    assert ngram_spans(text).tolist() == spans
    long = "ab" * CHARACTERS
    assert len(ngram_ids(long)) == len(ngram_spans(long)) == 3 * CHARACTERS
    for text in ("a", "İ\ud800"):
        assert len(ngram_ids(text)) == len(ngram_spans(text))


@pytest.mark.everywhere("trained, saved, loaded; padding")
def test_mean_of_the_embeddings(tmp_path):
    model = bag(dropout=0.3)
    model.fit(TEXTS, LABELS, epochs=5, verbose=0)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.01)
    y = model.predict(TEXTS, verbose=0)
    batch = model.encode(TEXTS)
    np.testing.assert_allclose(array(model(batch)), y, atol=1e-6)
    np.testing.assert_allclose(model.predict(batch, verbose=0), y, atol=1e-6)
    table, kernel, bias = model.get_weights()
    size = model.tokenizer.vocabulary_size
    assert table.shape == (size + 1 + BUCKETS, 3)
    for text, expected in zip(TEXTS, y, strict=True):
        ids = model.tokenizer.encode(text)
        mean = table[[*ids, *(size + 1 + ngram_ids(text))]].mean(axis=0)
        np.testing.assert_allclose(mean @ kernel + bias, expected, atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.classify(TEXTS[1]).label == model.classify(TEXTS[1]).label
    np.testing.assert_allclose(loaded.predict(TEXTS, verbose=0), y, atol=1e-6)


def test_tokens_explain_the_whole_score():
    model = bag(labels=["x", "y"])
    text = "Is it the End"
    explained = attribution(model, text, "y")
    assert "".join(explained.tokens) == text
    bias = array(model.get_layer("output").bias)[1]
    score = model.predict([text], verbose=0)[0, 1]
    np.testing.assert_allclose(explained.scores.sum() + bias, score, atol=1e-5)


def test_each_prefix_is_classified():
    model = bag(labels=["x", "y"])
    steps = model.step_by_step("to be")
    ends = np.cumsum([len(token) for token in steps.tokens])
    for end, p in zip(ends, steps.probabilities, strict=True):
        expected = model.classify("to be"[:end]).probabilities
        np.testing.assert_allclose(p, list(expected.values()), atol=1e-5)


def test_ids_and_vectors_have_no_ngrams():
    model = SequenceClassifier("bag", 2, vocabulary_size=11, units=3)
    table, kernel, bias = model.get_weights()
    y = table[[7, 4, 7]].mean(axis=0) @ kernel + bias
    assert len(table) == 11
    np.testing.assert_allclose(array(model(np.array([[7, 4, 7, 0]])))[0], y, atol=1e-6)
    x = np.random.default_rng(0).normal(size=(2, 7, 5)).astype("float32")
    model = SequenceClassifier("bag", 2, features=5)
    kernel, bias = model.get_weights()
    np.testing.assert_allclose(array(model(x)), x.mean(1) @ kernel + bias, atol=1e-6)


def test_what_a_bag_does_not_have():
    for options in ({"num_layers": 2}, {"bidirectional": True}, {"pooling": "max"}):
        with pytest.raises(ValueError, match="must be .* A bag is the mean"):
            bag(**options)
    for build in (
        lambda: models.SequenceTagger("bag", tokenizer="word"),
        lambda: models.LanguageModel("bag", vocabulary_size=11),
        lambda: models.Forecaster("bag"),
        lambda: models.Seq2Seq(
            "bag", source_vocabulary_size=7, target_vocabulary_size=5
        ),
    ):
        with pytest.raises(ValueError, match="SequenceClassifier alone: a bag has no"):
            build()

"""SequenceClassifier on texts with labels by name."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.models import SequenceClassifier
from kerasseq.tasks.labels import Labels, balanced_weights, learned
from kerasseq.text import BytePairTokenizer, CharacterTokenizer
from kerasseq.training.label_batches import Rows
from tests.tasks.helpers import array

pytestmark = pytest.mark.once("labels and texts are plain Python")

ENDS = {"vowel": "aeiou", "consonant": "bdgklmn"}


def words(count=96, seed=0):
    """Words that end with a vowel or a consonant, and which of both."""
    rng = np.random.default_rng(seed)
    labels = [("vowel", "consonant")[n % 3 == 0] for n in range(count)]
    letters = list("aeioubdgklmn")
    texts = [
        "".join(rng.choice(letters, rng.integers(0, 11)))
        + str(rng.choice(list(ENDS[label])))
        for label in labels
    ]
    return texts, labels


@pytest.mark.everywhere("batches of several lengths; trained, saved, loaded")
def test_learns_texts_and_is_saved(tmp_path):
    keras.utils.set_random_seed(0)
    texts, labels = words()
    options = {"units": 11, "pooling": "last"}  # the last character tells
    model = SequenceClassifier("gru", tokenizer="character", **options)
    model.compile(keras.optimizers.Adam(0.03))
    held_out = words(24, seed=1)
    model.fit(texts, labels, epochs=9, validation_data=held_out, verbose=0)
    assert model.labels == ["consonant", "vowel"]
    loss, accuracy = model.evaluate(*held_out, verbose=0)
    assert accuracy > 0.95
    found = model.classify(held_out[0])
    right = np.mean([c.label == y for c, y in zip(found, held_out[1], strict=True)])
    assert right == pytest.approx(accuracy)
    one = model.classify(held_out[0][0])
    assert one.label == found[0].label and set(one.probabilities) == set(ENDS)
    assert one.probability == pytest.approx(found[0].probability, abs=1e-5)
    assert sum(one.probabilities.values()) == pytest.approx(1, abs=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    again = loaded.classify(held_out[0])
    assert [c.label for c in again] == [c.label for c in found]
    assert loaded.evaluate(*held_out, verbose=0)[0] == pytest.approx(loss, rel=1e-5)
    loaded.fit(texts, labels, verbose=0)
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations) + 3


def model_of(labels=("consonant", "vowel"), **options):
    tokenizer = CharacterTokenizer().fit("aeioubdgklmn")
    keras.utils.set_random_seed(1)
    return SequenceClassifier("gru", labels, tokenizer=tokenizer, units=5, **options)


def test_texts_are_the_ids_of_the_tokenizer():
    texts, _ = words(13)
    model = model_of()
    V = model.tokenizer.vocabulary_size
    options = {"units": 5, "pooling": "mean_max"}  # that of texts
    other = SequenceClassifier("gru", 2, vocabulary_size=V + 1, **options)
    table, *rest = model.get_weights()
    other.set_weights([np.roll(table, 1, axis=0), *rest])  # its padding is 0
    rows = [model.tokenizer.encode(text) + 1 for text in texts]
    p = model.predict(texts, verbose=0)
    np.testing.assert_allclose(other.predict(rows, verbose=0), p, atol=1e-6)
    batch = model.encode(texts)
    assert batch.max() == model.padding_id == V
    np.testing.assert_allclose(array(model(batch)), p, atol=1e-5)
    np.testing.assert_allclose(model.predict(batch, verbose=0), p, atol=1e-5)
    for text, row in zip(texts, p, strict=True):  # alone, without padding
        ids = model.tokenizer.encode(text)[None]
        assert np.array_equal(model.encode(text), ids)
        np.testing.assert_allclose(array(model(ids))[0], row, atol=1e-5)


def test_forms_of_texts_and_labels():
    pandas = pytest.importorskip("pandas")
    texts, labels = words(12)
    model = model_of()
    expected = model.evaluate(texts, labels, verbose=0)
    frame = pandas.DataFrame({"text": texts, "label": labels}).iloc[::-1]
    for x, y in (
        (np.array(texts), np.array(labels)),
        (tuple(texts), tuple(labels)),
        (frame["text"], frame["label"].astype("category")),
    ):
        assert model.evaluate(x, y, verbose=0) == pytest.approx(expected, rel=1e-5)
        model.fit(x, y, verbose=0, epochs=0)


def test_a_data_set_of_tensorflow():
    tf = pytest.importorskip("tensorflow", exc_type=ImportError)
    texts, labels = words(12)
    model = model_of()
    data = tf.data.Dataset.from_tensor_slices((texts, labels))
    expected = model.evaluate(texts, labels, verbose=0)
    for each in (data, data.batch(5)):
        assert model.evaluate(each, verbose=0) == pytest.approx(expected, rel=1e-5)
    fresh = SequenceClassifier("gru", tokenizer="character", units=2)
    fresh.fit(data.batch(5), verbose=0)
    assert fresh.labels == ["consonant", "vowel"]
    only = data.map(lambda text, label: text).batch(7)
    np.testing.assert_allclose(
        model.predict(only, verbose=0), model.predict(texts, verbose=0), atol=1e-6
    )


@pytest.mark.parametrize("weights", ["balanced", {"vowel": 0.5, "consonant": 3.0}])
def test_class_weights_are_weights_of_rows(weights):
    texts, labels = words(24)
    shares = {label: labels.count(label) for label in set(labels)}
    by_label = weights
    if weights == "balanced":
        by_label = {label: 24 / (2 * count) for label, count in shares.items()}
    rows = [by_label[label] for label in labels]
    losses = []
    for options in ({"class_weight": weights}, {"sample_weight": rows}):
        model = model_of()
        history = model.fit(texts, labels, **options, batch_size=8, verbose=0)
        losses.append((history.history["loss"], model.get_weights()))
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-6)
    for a, b in zip(losses[0][1], losses[1][1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_balanced_weights_are_those_of_scikit_learn():
    utils = pytest.importorskip("sklearn.utils")
    y = np.array([0, 0, 2, 0, 1, 2, 2, 0])
    expected = utils.class_weight.compute_class_weight(
        "balanced", classes=np.arange(3), y=y
    )
    np.testing.assert_allclose(balanced_weights(y, 3), expected, rtol=1e-6)


def test_several_labels_at_once(tmp_path):
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcx"), 6)) for _ in range(192)]
    labels = [sorted(set(text) & set("abc")) for text in texts]
    model = SequenceClassifier("gru", tokenizer="character", multi_label=True, units=13)
    model.compile(keras.optimizers.Adam(0.03))
    model.fit(texts, labels, epochs=12, verbose=0)
    assert model.labels == ["a", "b", "c"]
    loss, f1 = model.evaluate(texts, labels, verbose=0)
    found = model.classify(texts)
    pairs = [(set(c.label), set(y)) for c, y in zip(found, labels, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    assert f1 == pytest.approx(2 * right / sum(len(a) + len(b) for a, b in pairs))
    assert f1 > 0.95
    binary = np.array([[name in y for name in "abc"] for y in labels], "int64")
    assert model.evaluate(texts, binary, verbose=0)[0] == pytest.approx(loss)
    assert model.classify("x", threshold=0.0).label == ["a", "b", "c"]
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.evaluate(texts, labels, verbose=0) == pytest.approx([loss, f1])


def test_what_is_compiled_before_the_labels_are_known():
    texts, labels = words(12)
    model = SequenceClassifier("elman", tokenizer="character", units=2, name="mine")
    model.compile("sgd", metrics=[])
    model.fit(texts, labels, verbose=0)
    assert isinstance(model.optimizer, keras.optimizers.SGD)
    assert model.evaluate(texts, labels, verbose=0) > 0  # the loss alone
    assert model.name == "mine"


def test_labels_are_numbers_or_names():
    x = np.ones((4, 3, 2), "float32")
    model = SequenceClassifier("elman", features=2, units=2)
    model.fit(x, [5, 3, 5, 3], verbose=0)
    assert model.labels == [3, 5]
    assert model.classify(x)[0].label in (3, 5)
    copy = SequenceClassifier.from_config(model.get_config())
    assert copy.labels == [3, 5]
    assert SequenceClassifier("elman", 3, features=2).labels == [0, 1, 2]
    assert learned(np.array([True, False])) == [False, True]
    assert Labels(["1", 1]).encode([1, "1"]).tolist() == [1, 0]


def test_vectors_in_lists_and_batches_of_keras():
    x = np.random.default_rng(0).normal(size=(6, 3, 2)).astype("float32")
    y = [0, 1, 1, 0, 1, 0]
    model = SequenceClassifier("elman", 2, features=2, units=3)
    expected = model.evaluate(x, y, verbose=0)
    assert model.evaluate(x.tolist(), y, verbose=0) == pytest.approx(expected)
    np.testing.assert_array_equal(
        model.predict(x.tolist(), verbose=0), model.predict(x, verbose=0)
    )
    batches = Rows(x, np.array(y)).in_order(4)
    history = model.fit(batches, validation_data=batches, verbose=0).history
    assert model.evaluate(batches, verbose=0)[0] == pytest.approx(
        history["val_loss"][0], rel=1e-5
    )
    with pytest.raises(ValueError, match="with sequences of one length.*mask_value="):
        model.fit([x[0].tolist(), x[1, :2].tolist()], [0, 1])


@pytest.mark.everywhere("TensorFlow fixes the axes that the first two batches share")
def test_many_batches_of_which_the_last_is_longer():
    texts = ["ab", "ba", "aa", "bb", "a" * 40]
    model = SequenceClassifier("elman", ["x", "y"], tokenizer="character", units=3)
    model.fit(texts, [*"xyxyx"], validation_data=(texts, [*"xyxyx"]), batch_size=1)
    found = model.predict(texts, batch_size=1, verbose=0)
    np.testing.assert_allclose(found[-1:], model.predict(texts[-1:]), atol=1e-6)


def test_a_validation_split_is_the_end():
    texts, labels = words(20)
    model = model_of()
    model.compile(keras.optimizers.SGD(0.0))
    history = model.fit(texts, labels, validation_split=0.25, verbose=0).history
    expected = model.evaluate(texts[15:], labels[15:], verbose=0)
    assert [history["val_loss"][0], history["val_accuracy"][0]] == pytest.approx(
        expected, rel=1e-5
    )


def test_a_text_of_any_length():
    tokenizer = BytePairTokenizer(300).fit("abab cdcd " * 20)
    model = SequenceClassifier("gru", 2, tokenizer=tokenizer, units=3)
    texts = ["ab", "cd" * 700, "é"]
    for text, row in zip(texts, model.predict(texts, verbose=0), strict=True):
        np.testing.assert_allclose(model.predict([text], verbose=0)[0], row, atol=1e-5)


TEXTS = ["ab", "ba", "aab"]


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (TEXTS, ["vowel", "vowl", "vowel"], ValueError, r"y\[1\] .*Did you mean"),
        (TEXTS, ["vowel", "vowel"], ValueError, "same number of rows.*3 and 2"),
        (["ab", "", "b"], ["vowel"] * 3, ValueError, r"x\[1\] is ''"),
        (["ab", 3], ["vowel"] * 2, TypeError, r"x\[1\] must be a string"),
        (
            "ab",
            "vowel",
            TypeError,
            r"y must be a list of labels, .* 5 labels of a letter",
        ),
        ([[1, 2]], ["vowel"], TypeError, "x must be a list of strings"),
        ([], [], ValueError, "fit needs at least one row of x, received"),
    ],
)
def test_wrong_data(x, y, error, message):
    with pytest.raises(error, match=message):
        model_of().fit(x, y)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"labels": ["a", "a"]}, ValueError, "must be distinct"),
        ({"labels": ["a"]}, ValueError, "at least 2 labels"),
        ({"labels": "ab"}, TypeError, "`labels` must be a list"),
        ({"tokenizer": "bpee"}, ValueError, 'Did you mean "bpe"'),
        ({"tokenizer": 3}, TypeError, "tokenizer must be a tokenizer"),
        ({"tokenizer": CharacterTokenizer()}, ValueError, "must be fitted"),
        ({"features": 3}, ValueError, "expected one of tokenizer"),
        ({"multi_label": "yes"}, TypeError, "multi_label must be True or False"),
        ({"activation": "sigmoid"}, ValueError, "activation="),
    ],
)
def test_wrong_arguments(options, error, message):
    arguments = {"labels": None, "tokenizer": "character", **options}
    with pytest.raises(error, match=message):
        SequenceClassifier("gru", **arguments)


def test_labels_must_be_learned_first():
    model = SequenceClassifier("gru", tokenizer="character")
    for use in (model.predict, model.classify, model.evaluate):
        with pytest.raises(ValueError, match="labels and tokenizer. Call fit"):
            use(["a"])
    with pytest.raises(ValueError, match=r"at least two labels.*\['a'\]"):
        model.fit(["x", "y"], ["a", "a"])
    with pytest.raises(ValueError, match=r"y\[1\] is nan"):
        model.fit(["x", "y"], ["a", float("nan")])
    with pytest.raises(ValueError, match="class_weight must be None"):
        model_of(multi_label=True).fit(TEXTS, [[], [], []], class_weight="balanced")


def test_an_export_that_fails_names_the_other_one(tmp_path):
    with pytest.raises(ValueError, match="nope") as caught:
        model_of(labels=["a", "b"]).export(tmp_path / "m", "nope")
    assert "export_model(model, folder) writes ONNX" in caught.value.__notes__[0]

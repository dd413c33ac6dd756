"""SequenceTagger on words with tags by name, with and without a CRF."""

import keras
import numpy as np
import pytest
from keras import ops

import kerasseq
from kerasseq.models import SequenceTagger
from kerasseq.tasks.preprocessor import word_rows
from kerasseq.text import BytePairTokenizer, CharacterTokenizer, WordTokenizer
from kerasseq.training import entity_scores, label_report
from tests.tasks.helpers import array

pytestmark = pytest.mark.once("tags and words are plain Python")

VOCABULARY = ["a", "b", "c", "the", "on"]


def sentences(count=64, seed=0):
    """Words of which those after "the" belong to it: tags that depend on tags."""
    rng = np.random.default_rng(seed)
    x = [rng.choice(VOCABULARY, rng.integers(2, 9)).tolist() for _ in range(count)]
    y = []
    for words in x:
        tags, inside = [], False
        for word in words:
            inside = word == "the" or (inside and word != "on")
            tags.append("B" if word == "the" else "I" if inside else "O")
        y.append(tags)
    return x, y


@pytest.mark.everywhere("a CRF in training and evaluation; saved, loaded", cases=1)
@pytest.mark.parametrize("crf", [True, False])
def test_learns_tags_and_is_saved(crf, tmp_path):
    keras.utils.set_random_seed(0)
    x, y = sentences()
    model = SequenceTagger("gru", tokenizer="word", crf=crf, units=11)
    model.compile(keras.optimizers.Adam(0.05))
    held_out = sentences(16, seed=1)
    model.fit(x, y, epochs=12, validation_data=held_out, verbose=0)
    assert model.labels == ["B", "I", "O"]
    loss, accuracy = model.evaluate(*held_out, verbose=0)
    assert accuracy > 0.95
    found = model.tag(held_out[0])
    tags, expected = np.concatenate(found), np.concatenate(held_out[1])
    assert np.mean(tags == expected) == pytest.approx(accuracy, abs=1e-6)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.tag(held_out[0]) == found
    assert loaded.evaluate(*held_out, verbose=0)[0] == pytest.approx(loss, rel=1e-5)
    loaded.fit(x, y, verbose=0)


def objects(rows):
    array = np.empty(len(rows), object)
    array[:] = rows
    return array


def test_forms_of_words_and_tags():
    pandas = pytest.importorskip("pandas")
    x, y = sentences(8)
    model = SequenceTagger("gru", tokenizer="word", units=5)
    model.fit(x, y, verbose=0)
    expected, tags = model.evaluate(x, y, verbose=0), model.tag(x)
    frame = pandas.DataFrame({"words": x, "tags": y}).iloc[::-1]
    for words, other in (
        (tuple(x), tuple(y)),
        (objects(x), objects(y)),
        (frame["words"], frame["tags"]),
    ):
        found = model.evaluate(words, other, verbose=0)
        assert found == pytest.approx(expected, rel=1e-5)
        model.fit(words, other, verbose=0, epochs=0)
    assert model.tag(objects(x)) == tags and model.tag(frame["words"])[::-1] == tags


def test_a_data_set_of_tensorflow():
    tf = pytest.importorskip("tensorflow", exc_type=ImportError)
    x, y = sentences(8)
    rows = tf.TensorSpec((None,), tf.string)
    data = tf.data.Dataset.from_generator(
        lambda: zip(x, y, strict=True), output_signature=(rows, rows)
    )
    ragged = tf.data.Dataset.from_tensor_slices(
        (tf.ragged.constant(x), tf.ragged.constant(y))
    )
    model = SequenceTagger("gru", tokenizer="word", units=5)
    model.fit(data, verbose=0)
    assert model.labels == ["B", "I", "O"]
    expected, tags = model.evaluate(x, y, verbose=0), model.tag(x)
    for each in (data, data.padded_batch(3), ragged, ragged.batch(3)):
        assert model.evaluate(each, verbose=0) == pytest.approx(expected, rel=1e-5)
        assert model.tag(each.map(lambda words, tags: words)) == tags


def test_the_loss_is_that_of_the_crf():
    keras.utils.set_random_seed(1)
    x, y = sentences(7)
    tokenizer = CharacterTokenizer().fit("abc theon")
    model = SequenceTagger("gru", list("BIO"), tokenizer=tokenizer, crf=True, units=3)
    for weight in model.crf.weights:
        weight.assign(np.random.default_rng(2).normal(size=weight.shape))
    total = 0.0
    for words, tags, scores in zip(x, y, model.predict(x, verbose=0), strict=True):
        assert scores.shape == (len(words), 3)  # at the first letters of the words
        tags = np.array([["BIO".index(tag) for tag in tags]])
        total += array(ops.sum(model.crf.loss(tags, scores[None])))
        best = array(model.crf.decode(scores[None]))[0]
        assert model.tag(words) == ["BIO"[k] for k in best]
    expected = total / sum(map(len, x))
    assert model.evaluate(x, y, verbose=0)[0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    "tokenizer", [CharacterTokenizer(), BytePairTokenizer(260), WordTokenizer(50)]
)
def test_words_begin_at_their_first_tokens(tokenizer):
    tokenizer.fit("the cat sat on the mat. " * 3)
    words = ["the", "cat.", "on", "mat"]
    rows, first = word_rows(tokenizer, [words, ["sat"]])
    pieces = tokenizer.encode_with_offsets(" ".join(words))
    starts = [0, 4, 9, 12]
    for place, start in zip(first[0], starts, strict=True):
        begin, end = pieces.offsets[place]
        assert begin <= start < end and begin >= start - 1
    np.testing.assert_array_equal(rows[0], pieces.ids)
    assert first[1].tolist() == [0]


@pytest.mark.parametrize("crf", [True, False])
def test_ids_and_vectors(crf):
    rng = np.random.default_rng(0)
    rows = [rng.integers(1, 11, n) for n in (5, 2, 7)]
    tags = [rng.integers(0, 3, len(row)).tolist() for row in rows]
    model = SequenceTagger("gru", 3, vocabulary_size=11, units=5, crf=crf)
    padded = np.zeros((3, 7), "int32")
    labels = np.full((3, 7), -1)  # ignored
    for n, row in enumerate(rows):
        padded[n, : len(row)], labels[n, : len(row)] = row, tags[n]
    expected = model.evaluate(rows, tags, verbose=0)
    assert model.evaluate(padded, labels, verbose=0) == pytest.approx(expected)
    assert model.tag(rows) == model.tag(padded)
    x = rng.normal(size=(3, 7, 2)).astype("float32")
    model = SequenceTagger("gru", 3, features=2, units=5, crf=crf)
    _, accuracy = model.evaluate(x, labels, verbose=0)
    known, found = labels >= 0, np.array(model.tag(x))
    if not crf:  # with one, tags of ignored steps are not found between the others
        assert accuracy == pytest.approx(np.mean((found == labels)[known]))
    x[~known] = 7.0  # at the end: the steps before do not depend on it
    labels[~known] = -5
    assert model.evaluate(x, labels, verbose=0)[1] == pytest.approx(accuracy)
    assert len(model.tag(x)) == 3 and len(model.tag(x)[0]) == 7


def test_class_weights_of_tags():
    x, y = sentences(9)
    tokenizer = WordTokenizer(50).fit(" ".join(VOCABULARY))
    keras.utils.set_random_seed(1)
    model = SequenceTagger("gru", list("BIO"), tokenizer=tokenizer, units=3)
    model.compile(keras.optimizers.SGD(0.0))
    weights = {"B": 2.0, "O": 0.5}
    found = model.fit(x, y, class_weight=weights, batch_size=9, verbose=0).history
    scores = model.predict(x, verbose=0)
    each = []
    for row, tags in zip(scores, y, strict=True):
        p = np.exp(row) / np.exp(row).sum(-1, keepdims=True)
        each += [
            -weights.get(tag, 1.0) * np.log(p[t, "BIO".index(tag)])
            for t, tag in enumerate(tags)
        ]
    # Keras divides by all steps of the batch, weighted or not, but not the masked ones.
    assert found["loss"][0] == pytest.approx(np.sum(each) / len(each), rel=1e-4)


WORDS = [["a", "b"], ["the"]]


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (WORDS, [["O"], ["B"]], ValueError, r"y\[0\] must have a tag for each of 2"),
        (WORDS, [["O", "X"], ["B"]], ValueError, r"y\[0\]\[1\] must be one of"),
        (WORDS, [["O", "O"]], ValueError, "same number of rows.*2 and 1"),
        (["a b"], [["O", "O"]], TypeError, r"lists of words.* \[text\.split\(\) for"),
        ([["a", ""]], [["O", "O"]], ValueError, r"x\[0\] is \['a', ''\]"),
    ],
)
def test_wrong_data(x, y, error, message):
    tokenizer = WordTokenizer(50).fit(" ".join(VOCABULARY))
    model = SequenceTagger("gru", list("BIO"), tokenizer=tokenizer, units=3)
    with pytest.raises(error, match=message):
        model.fit(x, y)


def test_one_or_many():
    tokenizer = WordTokenizer(50).fit(" ".join(VOCABULARY))
    model = SequenceTagger("gru", list("BIO"), tokenizer=tokenizer, units=3)
    one = model.tag(["the", "a"])
    assert model.tag("the a") == one and len(one) == 2
    assert model.tag([["the", "a"], ["on"]])[0] == one
    assert model.tag(["the a", "on b c"])[0] == one
    with pytest.raises(TypeError, match=r"x\[0\] has no words: leave it out"):
        model.tag("")
    with pytest.raises(ValueError, match="activation="):
        SequenceTagger("gru", 3, features=2, crf=True, activation="softmax")
    with pytest.raises(ValueError, match="class_weight must be None with crf=True"):
        crf = SequenceTagger("gru", 3, vocabulary_size=5, crf=True)
        crf.fit([[1, 2]], [[0, 1]], class_weight="balanced")


def test_the_report_of_tags():
    tokenizer = WordTokenizer().fit("a b c d")
    model = SequenceTagger("gru", ["O", "B-X"], tokenizer=tokenizer, units=3)
    words, tags = [["a", "b"], ["c", "d", "a"]], [["O", "B-X"], ["B-X", "O", "O"]]
    report = model.report(words, tags)
    found = model.tag(words)
    assert (
        report.confusion.tolist() == label_report(tags, found, ["O", "B-X"])[1].tolist()
    )
    assert report.entities == entity_scores(tags, found)
    with pytest.raises(ValueError, match=r"y\[1\] must have 3 tags, received 2"):
        model.report(words, [["O", "B-X"], ["O", "O"]])
    with pytest.raises(ValueError, match=r"y\[0\]\[1\] must be one of the labels"):
        model.report(words, [["O", "?"], ["O", "O", "O"]])
    ids = np.array([[1, 2, 0], [3, 1, 2]])
    y = np.array([[0, 1, -1], [1, -1, 0]])  # -1 is not counted
    model = SequenceTagger("gru", 2, vocabulary_size=5, units=3)
    best = model.predict(ids, verbose=0).argmax(-1)
    assert model.report(ids, y).accuracy == np.mean((best == y)[y >= 0])


def test_balanced_weights_count_words():
    tokenizer = CharacterTokenizer().fit("abcd ")
    model = SequenceTagger("gru", ["x", "y"], tokenizer=tokenizer, units=3)
    batches = model.batches(
        [["abc", "d", "abcd"]], [["x", "y", "y"]], class_weight="balanced"
    )
    _, _, weights = batches.batch(0)
    assert weights[weights > 0].tolist() == [1.5, 0.75, 0.75]


@pytest.mark.once("messages")
def test_texts_in_place_of_words():
    tagger = SequenceTagger("gru", tokenizer="word", units=3)
    message = (
        r"expected lists of words, .*Split texts, \[text.split\(\) for text in x\]$"
    )
    with pytest.raises(TypeError, match=message):
        tagger.fit(["a b", "c"], [["X", "Y"], ["X"]], verbose=0)
    with pytest.raises(TypeError, match=r"lists of words, .*received x=\[3\]$"):
        tagger.fit([3], [["X", "Y"]], verbose=0)

"""Weights of data sets, no rows, NaN and infinity, floats as ids, y as a string."""

import keras
import numpy as np
import pytest

from kerasseq.models import (
    BERT,
    GPT,
    Forecaster,
    LanguageModel,
    Seq2Seq,
    SequenceClassifier,
    SequenceTagger,
    ViT,
)
from kerasseq.tasks.input_rows import are_batches
from kerasseq.text import CharacterTokenizer, WordPieceTokenizer, WordTokenizer

pytestmark = pytest.mark.once("checks of arguments before a backend computes")

SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 10, "dropout": 0.0}
TEXTS, LABELS = ["b a", "a", "a a b", "b", "b b"], ["x", "y", "y", "x", "y"]
WEIGHTS = [0.5, 2.0, 0.0, 1.0, 3.0]
WORDS = WordTokenizer().fit("a b")
CHARACTERS = CharacterTokenizer().fit("ab ")


def classifier(**options):
    return SequenceClassifier("gru", ["x", "y"], units=3, **options)


def tagger(**options):
    return SequenceTagger("gru", 2, units=3, **options)


def vit():
    return ViT(["x", "y"], image_size=(4, 6), patch_size=2, channels=1, **SIZES)


def head(name, *labels):
    pieces = WordPieceTokenizer(30).fit(["a b ab"])
    return BERT(pieces, **SIZES, max_sequence_length=23).with_head(name, *labels)


def gpt_head(name, *labels):
    return GPT(CHARACTERS, **SIZES).with_head(name, *labels)


def pairs(**options):
    return Seq2Seq("gru", target_tokenizer=CHARACTERS, units=3, **options)


def test_batches_are_told_from_rows():
    tf = pytest.importorskip("tensorflow", exc_type=ImportError)
    torch = pytest.importorskip("torch", exc_type=ImportError)

    class Adapter:  # as those that Keras takes
        def get_numpy_iterator(self):
            yield np.ones(3)

    class Rows(keras.utils.PyDataset):
        pass

    data = tf.data.Dataset.from_tensor_slices(np.ones((2, 3))).batch(2)
    replicas = tf.distribute.MirroredStrategy(["CPU:0"])
    shared = replicas.experimental_distribute_dataset(data)
    loader = torch.utils.data.DataLoader([1])
    for batches in (data, iter(data), shared, loader, Rows(), Adapter()):
        assert are_batches(batches)
    for rows in (np.ones(3), [1], tf.ones(3), torch.ones(3), "a", {"x": [1]}):
        assert not are_batches(rows)


@pytest.mark.parametrize("make", [lambda: classifier(tokenizer=WORDS), head, gpt_head])
def test_weights_of_a_data_set(make):
    tf = pytest.importorskip("tensorflow", exc_type=ImportError)
    model = make("classify", ["x", "y"]) if make in (head, gpt_head) else make()
    model.compile(keras.optimizers.SGD(0.0))
    data = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS, WEIGHTS))
    expected = model.evaluate(TEXTS, LABELS, sample_weight=WEIGHTS, verbose=0)
    plain = model.evaluate(TEXTS, LABELS, verbose=0)
    assert expected != pytest.approx(plain, rel=1e-3)
    for each in (data, data.batch(2)):
        assert model.evaluate(each, verbose=0) == pytest.approx(expected, rel=1e-5)
        history = model.fit(each, batch_size=5, validation_data=each, verbose=0).history
        both = [history["loss"][0], history["val_loss"][0]]
        assert both == pytest.approx([expected[0]] * 2, rel=1e-5)
    assert model.report(data).scores == model.report(TEXTS, LABELS).scores
    with pytest.raises(ValueError, match="sample_weight must be None for a data set"):
        model.fit(data, sample_weight=WEIGHTS)
    for use in (model.fit, model.evaluate, model.predict, model.classify):
        with pytest.raises(ValueError, match=r"received .* without end\. Leave"):
            use(data.repeat().batch(3))


def test_weights_of_a_data_set_of_words():
    tf = pytest.importorskip("tensorflow", exc_type=ImportError)
    model = SequenceTagger("gru", ["x", "y"], tokenizer=WORDS, units=3)
    words = [["a", "b"], ["b"], ["a", "a", "b"]]
    tags, weights = [["x", "y"], ["y"], ["x", "x", "y"]], [3.0, 0.5, 1.0]
    expected = model.evaluate(words, tags, sample_weight=weights, verbose=0)
    data = tf.data.Dataset.from_tensor_slices(
        (tf.ragged.constant(words), tf.ragged.constant(tags), weights)
    )
    for each in (data, data.batch(2)):
        assert model.evaluate(each, verbose=0) == pytest.approx(expected, rel=1e-5)
    assert model.evaluate(words, tags, verbose=0)[0] != pytest.approx(expected[0])


MODELS = {  # outputs of no rows, with the axes of the model
    "texts": (lambda: classifier(tokenizer=WORDS), (0, 2)),
    "ids": (lambda: classifier(vocabulary_size=5), (0, 2)),
    "vectors": (lambda: classifier(features=2), (0, 2)),
    "tags of words": (lambda: tagger(tokenizer=WORDS, crf=True), []),
    "tags of ids": (lambda: tagger(vocabulary_size=5), (0, 0, 2)),
    "tags of vectors": (lambda: tagger(features=2), (0, 0, 2)),
    "BERT": (lambda: head("classify", 2), (0, 2)),
    "tags of BERT": (lambda: head("tag", 2), []),
    "GPT": (lambda: gpt_head("compare", 2), (0, 2)),
    "choices": (lambda: gpt_head("choose"), (0, 1)),
    "tags of GPT": (lambda: gpt_head("tag", 2), []),
    "images": (vit, (0, 2)),
    "language": (lambda: LanguageModel("gru", CHARACTERS, units=3), []),
    "pairs": (lambda: pairs(source_tokenizer=CHARACTERS), (0, 1, 7)),
    "windows": (lambda: Forecaster("gru", units=3, horizon=5), (0, 5)),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_rows(name):
    make, shape = MODELS[name]
    model = make()
    found = model.predict([], verbose=0)
    assert (found if shape == [] else found.shape) == shape
    if "tags" in name:
        assert model.tag([]) == []
    elif shape == (0, 2) or name == "choices":
        assert model.classify([]) == []
    for method in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=f"{method.__name__} needs at least one"):
            method([], [])


@pytest.mark.everywhere("an eager call, whose outputs are cut")
def test_arrays_of_no_rows():
    ids, vectors = np.zeros((0, 7), int), np.zeros((0, 7, 2))
    of_ids, of_vectors = tagger(vocabulary_size=5), tagger(features=2)
    for model, x in ((of_ids, ids), (of_vectors, vectors)):
        assert model.predict(x, verbose=0).shape == (0, 7, 2) and model.tag(x) == []
    assert classifier(vocabulary_size=5).classify(ids) == []
    images = vit()
    assert images.predict(np.zeros((0, 4, 6)), verbose=0).shape == (0, 2)
    assert head("span").predict(ids, verbose=0)["end"].shape == (0, 7)
    assert head("span").answers([]) == []
    model = pairs(source_tokenizer=CHARACTERS)
    assert model.predict((ids, ids[:, :3]), verbose=0).shape == (0, 3, 7)
    with pytest.raises(ValueError, match="fit needs at least one row"):
        model.fit((ids, ids))
    assert GPT(CHARACTERS, **SIZES).predict(ids, verbose=0).shape == (0, 7, 4)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_row_that_is_not_finite(value):
    vectors = np.ones((5, 3, 2), "float32")
    vectors[3, 1, 0] = vectors[4, 0, 1] = value
    images = np.full((5, 4, 6, 1), 0.5)
    images[2, 3, 5] = value
    windows = np.ones((5, 7, 1))
    windows[1, 2] = value
    classes, targets = [0, 1, 0, 1, 0], np.ones((5, 1))
    received = f"received {value} in"
    for model, x, y, place in (
        (
            SequenceClassifier("gru", 2, features=2, units=3),
            vectors,
            classes,
            r"x\[3\]",
        ),
        (tagger(features=2), vectors, np.zeros((5, 3), int), r"x\[3\]"),
        (tagger(features=2), vectors.tolist(), np.zeros((5, 3), int), r"x\[3\]"),
        (vit(), images, LABELS, r"images\[2\]"),
        (Forecaster("gru", units=3), windows, targets, r"x\[1\]"),
    ):
        for use in (lambda: model.fit(x, y), lambda: model.predict(x)):  # noqa: B023
            with pytest.raises(ValueError, match=f"{received} {place}"):
                use()
    more = r"x\[3\], and in 1 more row\. .*np.isfinite\(x\).all\(axis=\(1, 2\)\)"
    with pytest.raises(ValueError, match=more):
        tagger(features=2).tag(keras.ops.convert_to_tensor(vectors))
    wrong = targets * [[1.0], [1.0], [1.0], [1.0], [value]]
    with pytest.raises(ValueError, match=r"y must be finite .* y\[4\]"):
        Forecaster("gru", units=3).fit(np.ones((5, 7, 1)), wrong)
    for model, x in (
        (classifier(tokenizer=WORDS), TEXTS),
        (head("classify", ["x", "y"]), TEXTS),
        (vit(), np.full((5, 4, 6, 1), 0.5)),
    ):
        with pytest.raises(ValueError, match=r"sample_weight must be .* \w+\[4\]"):
            model.fit(x, LABELS, sample_weight=wrong[:, 0])


@pytest.mark.parametrize("x", [np.full((2, 3), 0.5), [[0.2, 0.7], [0.1]], [0.2, 0.7]])
def test_floats_are_not_ids(x):
    for model in (classifier(vocabulary_size=5), tagger(vocabulary_size=5)):
        for use in (model.predict, lambda x: model.fit(x, [0, 1])):  # noqa: B023
            with pytest.raises(TypeError, match="integers, as|ids, .*whole numbers"):
                use(x)


def test_ids_of_other_forms():
    pandas = pytest.importorskip("pandas")
    model, rows = classifier(vocabulary_size=5), [[1, 2, 0], [4, 0, 0]]
    expected = model.predict(np.array(rows), verbose=0)
    for x in (rows, tuple(map(tuple, rows)), pandas.DataFrame(rows)):
        np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-6)
    tensor = keras.ops.convert_to_tensor(np.array(rows))
    assert tagger(vocabulary_size=5).predict(tensor, verbose=0).shape == (2, 3, 2)


def test_a_string_is_no_list_of_labels():
    message = r"y must be a list of labels, received 'ab', .*For one label: \['ab'\]"
    model = SequenceClassifier("gru", tokenizer="character", units=3)
    for use in (
        lambda: model.fit(["b", "a"], "ab"),
        lambda: SequenceClassifier("gru", ["a", "b"], tokenizer=WORDS).fit(
            ["b", "a"], "ab"
        ),
        lambda: head("classify").fit(["b", "a"], "ab"),
        lambda: head("classify", ["a", "b"]).report(["b", "a"], "ab"),
        lambda: vit().fit(np.ones((2, 4, 6)), "ab"),
    ):
        with pytest.raises(TypeError, match=message):
            use()
    tags = SequenceTagger("gru", ["a", "b"], tokenizer=WORDS, units=3)
    with pytest.raises(TypeError, match=r"y\[1\] must be a list of labels"):
        tags.fit([["a"], ["b", "a"]], [["a"], "ab"])


@pytest.mark.everywhere("a compiled step of TensorFlow that reads any length")
def test_rows_without_steps_have_no_tags():
    model = SequenceTagger("elman", 2, tokenizer=WORDS, units=3, crf=True)
    for steps in (3, 20):  # two lengths, of which it learns that others may follow
        assert len(model.tag(np.zeros((1, steps), "int32"))[0]) == steps
    assert model.tag(np.zeros((2, 0), "int32")) == [[], []]


@pytest.mark.parametrize("make", [SequenceClassifier, SequenceTagger])
def test_rows_of_ids_without_steps(make):
    """Recurrent layers need a step: it is one of padding."""
    model = make("gru", 2, vocabulary_size=11, units=3)
    full, empty = model.predict([[4, 7], []], verbose=0)
    alone = model.predict([[]], verbose=0)
    np.testing.assert_array_equal(alone[0], empty[: alone.shape[1]])
    method = model.classify if make is SequenceClassifier else model.tag
    assert len(method([[]])) == 1 and len(method([[], [4, 7]])) == 2
    expected = (1, 2) if make is SequenceClassifier else (1, 0, 2)
    assert alone.shape == expected and np.isfinite(full).all()

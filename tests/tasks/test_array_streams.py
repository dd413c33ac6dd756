"""Streams of single arrays give what their rows give; `steps` ends a prediction."""

import itertools

import keras
import numpy as np
import pytest

from kerasseq.models import (
    Forecaster,
    LanguageModel,
    Seq2Seq,
    SequenceClassifier,
    SequenceTagger,
    T5Encoder,
    ViT,
)
from kerasseq.text import CharacterTokenizer
from tests.tasks.test_sources import grains
from tests.tasks.test_sources_of_models import X, Y, tensors_of

pytestmark = pytest.mark.once("data become arrays before a backend computes")

CLASSES = ["x", "y"]
IDS = np.array([[1, 2, 3], [2, 1, 1], [1, 1, 2], [3, 1, 1], [2, 2, 2]])
VECTORS = np.random.default_rng(3).normal(size=(5, 7, 2)).astype("float32")
IMAGES = np.random.default_rng(1).integers(0, 255, (5, 4, 6, 1), "uint8")
INDICES = np.array([0, 1, 1, 0, 1])
NAMES = [CLASSES[n] for n in INDICES]
LETTERS = CharacterTokenizer().fit("ab ")
SIZES = {"image_size": (4, 6), "patch_size": 2, "channels": 1, "num_layers": 1}
SIZES |= {"num_heads": 3, "hidden_dim": 12}
MODELS = {  # the model, its rows, their labels as names and as indices
    "ids": (
        lambda: SequenceClassifier("gru", CLASSES, vocabulary_size=5, units=3),
        (IDS, NAMES, INDICES),
    ),
    "vectors": (
        lambda: SequenceClassifier("gru", CLASSES, features=2, units=3),
        (VECTORS, NAMES, INDICES),
    ),
    "tags": (
        lambda: SequenceTagger("gru", CLASSES, vocabulary_size=5, units=3),
        (IDS, [[CLASSES[i % 2] for i in row] for row in IDS], IDS % 2),
    ),
    "images": (lambda: ViT(CLASSES, **SIZES), (IMAGES, NAMES, INDICES)),
}
STREAMS = {
    "rows": lambda x, y: zip(x, y, strict=True),
    "lists": lambda x, y: zip(x.tolist(), y.tolist(), strict=True),
    "dictionaries": lambda x, y: (
        {"label": b, "pixels": a} for a, b in zip(x, y, strict=True)
    ),
    "tf.data": lambda x, y: tensors_of((x, y)),
    "grain": grains,
}


def ready(make):
    keras.utils.set_random_seed(3)
    model = make()
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    return model


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_single_arrays_are_rows(name):
    make, (x, names, indices) = MODELS[name]
    expected, options = ready(make), {"batch_size": 5, "verbose": 0}
    expected.fit(x, names, **options)
    losses = expected.evaluate(x, names, verbose=0)
    for source, stream in STREAMS.items():
        if name == "images" and source == "lists":
            continue  # images are arrays
        model = ready(make)
        model.fit(stream(x, indices), **options)
        assert_same(model.get_weights(), expected.get_weights())
        assert model.evaluate(stream(x, indices), verbose=0) == pytest.approx(losses)
        outputs = model.predict(stream(x, indices), verbose=0)
        assert_same(outputs, expected.predict(x, verbose=0))
    for labels in (indices, names):  # names in a stream as well
        rows = itertools.cycle(list(zip(x, labels, strict=True)))
        model = ready(make)
        model.fit(rows, steps_per_epoch=1, **options)
        assert_same(model.get_weights(), expected.get_weights())
        assert model.evaluate(rows, steps=1, **options) == pytest.approx(losses)
        outputs = model.predict(rows, steps=1, **options)
        assert_same(outputs, expected.predict(x, verbose=0))


def test_an_array_of_lists_is_a_list_of_rows():
    lengths = [[1, 2], [3], [2, 2, 1], [1], [4, 1]]
    column = np.empty(5, object)  # as `to_numpy` of a column of lists
    column[:] = lengths
    for name in ("ids", "tags"):
        model = ready(MODELS[name][0])
        outputs = (model.predict(x, verbose=0) for x in (column, lengths))
        assert_same(*outputs)


def test_labels_of_single_arrays():
    rows = list(zip(IMAGES, ["dog", "cat", "cat", "dog", "cat"], strict=True))
    model = ViT(**SIZES)
    model.fit(iter(rows), verbose=0)  # which learns them
    assert model.labels == ["cat", "dog"]
    several = ViT(CLASSES, **SIZES, multi_label=True)
    targets = np.array([[1, 0], [1, 1], [0, 0], [0, 1], [1, 1]])
    losses = several.evaluate(IMAGES, targets, verbose=0)
    for y in (targets, targets.astype("float32")):
        found = several.evaluate(zip(IMAGES, y, strict=True), verbose=0)
        assert found == pytest.approx(losses)
    names = [[CLASSES[n] for n in np.flatnonzero(row)] for row in targets]
    found = several.evaluate(zip(IMAGES, names, strict=True), verbose=0)
    assert found == pytest.approx(losses)
    with pytest.raises(ValueError, match=r"labels 'x', 'y'; received 2"):
        ViT(CLASSES, **SIZES).fit(iter([(IMAGES[0], 2)]))
    # Rows of several lengths.
    model = ready(MODELS["ids"][0])
    lengths = [[1, 2], [3], [2, 2, 1]]
    stream = itertools.cycle(list(zip(lengths, [0, 1, 1], strict=True)))
    found = model.evaluate(stream, steps=1, batch_size=3, verbose=0)
    assert found == pytest.approx(model.evaluate(lengths, NAMES[:3], verbose=0))


def test_windows_one_by_one_and_without_end():
    pairs = list(zip(X, Y, strict=True))
    sizes = {"batch_size": 4, "verbose": 0}

    def make():
        return Forecaster("elman", horizon=2, units=3)

    expected = ready(make)
    expected.fit(X, Y, epochs=2, **sizes)
    for stream in (itertools.cycle(pairs), grains(X, Y), tensors_of((X, Y)).repeat()):
        model = ready(make)
        options = {"steps_per_epoch": 1, "epochs": 2, "validation_steps": 1, **sizes}
        data = itertools.cycle(pairs)
        history = model.fit(stream, validation_data=data, **options).history
        assert_same(model.get_weights(), expected.get_weights())
        losses = model.evaluate(itertools.cycle(pairs), steps=1, **sizes)
        assert losses == pytest.approx(expected.evaluate(X, Y, verbose=0))
        assert history["val_loss"][-1:] == pytest.approx(losses[:1])
        outputs = model.predict(itertools.cycle(X), steps=1, **sizes)
        assert_same([outputs], [expected.predict(X, verbose=0)])
    with pytest.raises(ValueError, match="without end.* validation_steps="):
        make().fit(itertools.cycle(pairs))


TEXTS, TARGETS = ["b a", "a", "a a b", "b", "b b"], ["a", "b b", "b", "a b", "a"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SequenceClassifier("gru", CLASSES, tokenizer=LETTERS, units=3),
        lambda: LanguageModel("elman", LETTERS, units=3),
        lambda: T5Encoder(LETTERS, num_layers=1, num_heads=2, hidden_dim=4),
        lambda: Seq2Seq("elman", LETTERS, LETTERS, units=3, attention=None),
    ],
)
def test_steps_end_a_prediction_of_texts(make):
    model, sizes = make(), {"steps": 2, "batch_size": 2, "verbose": 0}
    is_of_pairs = isinstance(model, Seq2Seq)
    rows = list(zip(TEXTS, TARGETS, strict=True)) if is_of_pairs else TEXTS
    outputs = model.predict(itertools.cycle(rows), **sizes)
    x = (TEXTS[:4], TARGETS[:4]) if is_of_pairs else TEXTS[:4]
    assert_same(outputs, model.predict(x, verbose=0))
    with pytest.raises(ValueError, match=r"steps=\.\.\. to evaluate and predict"):
        model.predict(itertools.cycle(rows), verbose=0)


def test_tables_in_parts_and_tables_to_be_read(tmp_path):
    pandas, pyarrow, polars = map(pytest.importorskip, ("pandas", "pyarrow", "polars"))
    model = SequenceClassifier("gru", CLASSES, tokenizer=LETTERS, units=3)
    columns = {"text": TEXTS, "label": NAMES}
    expected = model.evaluate(TEXTS, NAMES, verbose=0)
    file = tmp_path / "table.csv"
    pandas.DataFrame(columns).to_csv(file, index=False)
    table = pyarrow.table(columns)
    batches = table.to_batches(2)
    parts = pyarrow.RecordBatchReader.from_batches(table.schema, batches)
    for data in (parts, iter(batches), pandas.read_csv(file, chunksize=2)):
        assert model.evaluate(data, verbose=0) == pytest.approx(expected)
    assert model.evaluate(batches[0], verbose=0) == pytest.approx(
        model.evaluate(TEXTS[:2], NAMES[:2], verbose=0)
    )
    parts = itertools.cycle(batches)
    assert len(model.predict(parts, steps=1, batch_size=4, verbose=0)) == 4
    lazy = polars.DataFrame(columns).lazy()
    series = Forecaster("elman", units=3)
    for use in (model.fit, model.evaluate, model.predict, series.fit, series.forecast):
        with pytest.raises(TypeError, match=r"a LazyFrame\. Pass x\.collect\(\)"):
            use(lazy)
    sales = {"sales": np.arange(19.0)}
    reader = pyarrow.table(sales).to_reader()
    series.fit(reader, epochs=1, verbose=0)
    found, expected = (np.array(series.forecast(each)) for each in (None, sales))
    np.testing.assert_allclose(found.astype(float), expected.astype(float))

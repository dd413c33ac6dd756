"""Data of other libraries give what lists give; what cannot be read is explained."""

import itertools
import warnings

import keras
import numpy as np
import pytest

from kerasseq.models import BERT, GPT, SequenceClassifier, SequenceTagger
from kerasseq.text import CharacterTokenizer, WordPieceTokenizer

pytestmark = pytest.mark.once("data become lists before a backend computes")

SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6, "dropout": 0.0}
TEXTS, LABELS = ["b a", "a", "a a b", "b", "b b"], ["x", "y", "y", "x", "y"]
WORDS = [text.split() for text in TEXTS]
TAGS = [["x" if word == "a" else "y" for word in row] for row in WORDS]
CLASSES = ["x", "y"]


class Batches(keras.utils.PyDataset):
    """Two rows at a time."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return -(-len(self.x) // 2)

    def __getitem__(self, number):
        rows = slice(2 * number, 2 * number + 2)
        return self.x[rows], self.y[rows]


def table(x, y):
    """A data set of Hugging Face whose labels are the indices of their names."""
    datasets = pytest.importorskip("datasets")
    label, text = datasets.ClassLabel(names=CLASSES), datasets.Value("string")
    if isinstance(x[0], list):
        label, text = map(datasets.Sequence, (label, text))
    features = datasets.Features({"text": text, "label": label})
    return datasets.Dataset.from_dict({"text": x, "label": y}, features=features)


def frame(name, x, y):
    library = pytest.importorskip(name)
    columns = {"text": x, "label": y}
    make = library.table if name == "pyarrow" else library.DataFrame
    return make(columns)


def columns_of(name, x, y):
    found = table(x, y) if name == "datasets" else frame(name, x, y)
    return found["text"], found["label"]


def loader(x, y, **options):
    torch = pytest.importorskip("torch", exc_type=ImportError)
    pairs = list(zip(x, y, strict=True))
    if isinstance(x[0], list):  # of several lengths
        options["collate_fn"] = lambda rows: tuple(zip(*rows, strict=True))
    return torch.utils.data.DataLoader(pairs, batch_size=2, **options)


def tensors(x, y):
    tf = pytest.importorskip("tensorflow", exc_type=ImportError)
    constant = tf.ragged.constant if isinstance(x[0], list) else tf.constant
    return tf.data.Dataset.from_tensor_slices((constant(x), constant(y)))


def grains(x, y):
    grain = pytest.importorskip("grain")
    return grain.MapDataset.source(list(zip(x, y, strict=True)))


def grain_loader(x, y):
    grain = pytest.importorskip("grain")
    return grain.DataLoader(
        data_source=list(zip(x, y, strict=True)),
        sampler=grain.samplers.SequentialSampler(len(x)),
    )


def of_loader_with_names(x, y):
    torch = pytest.importorskip("torch", exc_type=ImportError)
    if isinstance(x[0], list):
        pytest.skip("rows of several lengths, which PyTorch does not collate")
    return torch.utils.data.DataLoader(table(x, y), batch_size=2)


def batches_of(x, y):
    yield x[:2], y[:2]
    yield x[2:], y[2:]


SOURCES = {  # of x and y: what is passed for both
    "columns of pandas": lambda x, y: columns_of("pandas", x, y),
    "columns of polars": lambda x, y: columns_of("polars", x, y),
    "columns of Arrow": lambda x, y: columns_of("pyarrow", x, y),
    "columns of datasets": lambda x, y: columns_of("datasets", x, y),
    "pandas": lambda x, y: (frame("pandas", x, y),),
    "polars": lambda x, y: (frame("polars", x, y),),
    "Arrow": lambda x, y: (frame("pyarrow", x, y),),
    "datasets": lambda x, y: (table(x, y),),
    "an IterableDataset": lambda x, y: (table(x, y).to_iterable_dataset(),),
    "tf.data": lambda x, y: (tensors(x, y),),
    "batches of tf.data": lambda x, y: (tensors(x, y).batch(2),),
    "a DataLoader": lambda x, y: (loader(x, y),),
    "a DataLoader of a table": lambda x, y: (of_loader_with_names(x, y),),
    "a PyDataset": lambda x, y: (Batches(x, y),),
    "a generator": lambda x, y: (batches_of(x, y),),
    "an iterator of rows": lambda x, y: (zip(x, y, strict=True),),
    "a MapDataset": lambda x, y: (grains(x, y),),
    "an IterDataset": lambda x, y: (grains(x, y).to_iter_dataset(),),
    "a DataLoader of grain": lambda x, y: (grain_loader(x, y),),
}


def classifier():
    tokenizer = CharacterTokenizer().fit("ab ")
    return SequenceClassifier("gru", tokenizer=tokenizer, units=3)


def tagger():
    tokenizer = CharacterTokenizer().fit("ab ")
    return SequenceTagger("gru", tokenizer=tokenizer, units=3)


def bert(head="classify"):
    pieces = WordPieceTokenizer(30).fit(["a b ab"])
    return BERT(pieces, **SIZES, max_sequence_length=11).with_head(head)


def gpt():
    return GPT(CharacterTokenizer().fit("ab "), **SIZES).with_head("classify")


MODELS = {
    "classifier": classifier,
    "tagger": tagger,
    "BERT": bert,
    "tags of BERT": lambda: bert("tag"),
    "GPT": gpt,
}


def trained(make, *data, **options):
    keras.utils.set_random_seed(3)
    model = make()
    model.fit(*data, batch_size=2, epochs=2, verbose=0, **options)
    return model


@pytest.fixture(scope="module")
def expected():
    """For each model the weights, the evaluation and the report of lists."""
    found = {}
    for name, make in MODELS.items():
        x, y = (WORDS, TAGS) if "tag" in name else (TEXTS, LABELS)
        model = trained(make, x, y, validation_data=(x, y))
        found[name] = (
            model.get_weights(),
            model.evaluate(x, y, verbose=0),
            model.report(x, y).scores,
            model.predict(x, verbose=0),
            model,
        )
    return found


TRAINED = ("classifier", "tagger")  # the others have the same adapter
SEVERAL = ("pandas", "datasets", "tf.data", "a DataLoader", "a generator")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        pytest.param(
            source,
            name,
            marks=()
            if name in TRAINED or source in SEVERAL
            else pytest.mark.full("the same adapter", cheap=False),
        )
        for source in SOURCES
        for name in MODELS
    ],
)
def test_data_give_what_lists_give(source, name, expected):
    weights, losses, scores, outputs, known = expected[name]
    x, y = (WORDS, TAGS) if known.per_step else (TEXTS, LABELS)
    make = SOURCES[source]
    if source in ("columns of datasets", "datasets"):
        y = [[CLASSES.index(tag) for tag in row] for row in y] if known.per_step else y
    if name in TRAINED:
        model = trained(
            MODELS[name], *make(x, y), validation_data=validation(make, x, y)
        )
        assert model.labels == CLASSES
        for a, b in zip(model.get_weights(), weights, strict=True):
            np.testing.assert_array_equal(a, b)
    assert known.evaluate(*make(x, y), verbose=0) == pytest.approx(losses)
    assert known.report(*make(x, y)).scores == scores
    found = known.predict(make(x, y)[0], verbose=0)
    for a, b in zip(found, outputs, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    answers = known.tag if known.per_step else known.classify
    assert answers(make(x, y)[0]) == answers(x)


def validation(make, x, y):
    found = make(x, y)
    return found if len(found) > 1 else found[0]


def ready(name):
    keras.utils.set_random_seed(5)
    make = {"classifier": SequenceClassifier, "tagger": SequenceTagger}
    if name in make:
        tokenizer = CharacterTokenizer().fit("ab ")
        return make[name]("gru", CLASSES, tokenizer=tokenizer, units=3)
    return MODELS[name]().with_head("tag" if "tag" in name else "classify", CLASSES)


def endless(x, y):
    return itertools.cycle(zip(x, y, strict=True))


def repeated(x, y):
    return tensors(x, y).repeat()


REPEATED = {
    "a generator": endless,
    "tf.data": repeated,
    "grain": lambda x, y: grains(x, y).repeat(),
    "a DataLoader, again and again": loader,
}


@pytest.mark.parametrize("name", MODELS)
def test_an_endless_stream_is_trained_on_batch_by_batch(name):
    x, y = (WORDS, TAGS) if "tag" in name else (TEXTS, LABELS)
    reached = []
    for source in REPEATED.values():
        model, data = ready(name), source(x, y)
        model.fit(
            data,
            batch_size=5,
            steps_per_epoch=2,
            epochs=2,
            validation_data=source(x, y),
            validation_steps=1,
            verbose=0,
        )
        reached.append(model.get_weights())
        losses = model.evaluate(source(x, y), steps=1, batch_size=5, verbose=0)
        assert losses == pytest.approx(model.evaluate(x, y, verbose=0))
    # Each batch has all rows, whose order in a batch does not matter.
    model = ready(name)
    model.fit(x, y, batch_size=5, epochs=4, verbose=0)
    reached.append(model.get_weights())
    for others in reached[1:]:
        for a, b in zip(reached[0], others, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


STATIC = pytest.mark.everywhere("axes that agree in two batches are compiled as static")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("tagger", marks=STATIC),
        pytest.param("tags of BERT", marks=pytest.mark.full("two fits, compiled")),
    ],
)
def test_batches_of_a_stream_have_any_lengths(name):
    lengths = {"tagger": [[1, 1, 20, 3]], "tags of BERT": [[1, 1, 9, 2], [9, 9, 2]]}
    for sizes in lengths[name]:
        x = [["a"] * size for size in sizes]
        y = [["x"] * size for size in sizes]
        model = ready(name)
        data, steps = zip(x, y, strict=True), len(sizes)
        found = model.fit(data, batch_size=1, steps_per_epoch=steps, verbose=0)
        assert np.isfinite(found.history["loss"]).all()


def test_several_texts_and_answers():
    polars = pytest.importorskip("polars")
    pairs = [("a", "b a"), ("b", "a"), ("b b", "a")]
    table = polars.DataFrame({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]})
    model = ready("BERT")
    expected = model.evaluate(pairs, LABELS[:3], verbose=0)
    labels = polars.Series(LABELS[:3])
    batches = loader(pairs, LABELS[:3])
    rows = [((a, b), label) for (a, b), label in zip(pairs, LABELS, strict=False)]
    for data in ((table, labels), (batches,), (iter(rows),), (tensors_of_pairs(rows),)):
        assert model.evaluate(*data, verbose=0) == pytest.approx(expected)
    assert model.classify(table) == model.classify(pairs)
    for name, batch in model.encode(table).items():
        np.testing.assert_array_equal(batch, model.encode(pairs)[name])
    span = ready("BERT").with_head("span")
    assert span.answers(table) == span.answers(pairs)
    choose = gpt().with_head("choose")
    examples = [("a", ["b", "a"]), ("b", ["a b", "b"])]
    expected = choose.classify(examples)
    for each in (
        iter([(row,) for row in examples]),
        frame("polars", *columns(examples)),
    ):
        if not isinstance(each, polars.DataFrame):
            assert choose.predict(each, verbose=0).shape == (2, 2)
            continue
        assert choose.classify(each.rename({"label": "answers"})) == expected


def columns(rows):
    return map(list, zip(*rows, strict=True))


def tensors_of_pairs(rows):
    tf = pytest.importorskip("tensorflow", exc_type=ImportError)
    pairs, labels = columns(rows)
    return tf.data.Dataset.from_tensor_slices((tuple(columns(pairs)), labels)).batch(2)


def test_words_of_a_text_are_encoded_from_a_column():
    polars = pytest.importorskip("polars")
    model = ready("classifier")
    texts, labels = polars.Series(TEXTS), polars.Series(LABELS)
    np.testing.assert_array_equal(model.encode(texts), model.encode(TEXTS))
    batches = model.batches(texts, labels, batch_size=5)
    for a, b in zip(
        batches.batch(0),
        model.batches(TEXTS, LABELS, batch_size=5).batch(0),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_names_of_classes():
    datasets = pytest.importorskip("datasets")
    data = table(TEXTS, LABELS)
    with_numbers = SequenceClassifier("gru", 2, tokenizer="character", units=3)
    with_numbers.fit(data["text"], data["label"], verbose=0)
    assert with_numbers.labels == [0, 1]
    assert with_numbers.report(data).labels == ["0", "1"]
    others = SequenceClassifier("gru", ["a", "x"], tokenizer="character", units=3)
    with pytest.raises(ValueError, match=r"the labels 'a', 'x'; received 'y'"):
        others.fit(data, verbose=0)
    features = data.features
    unlabeled = datasets.Dataset.from_dict(
        {"text": TEXTS, "label": [0, 1, -1, 0, 1]}, features=features
    )
    model = ready("classifier")
    for each in (unlabeled, unlabeled.to_iterable_dataset()):
        with pytest.raises(ValueError, match=r"1 row with one, of 5: y\[2\] is None"):
            model.evaluate(each)
    with pytest.warns(UserWarning, match="1 of 5 rows"):
        model.fit(unlabeled, missing="skip", verbose=0)
    assert model.classify(unlabeled["text"]) == model.classify(TEXTS)
    torch = pytest.importorskip("torch", exc_type=ImportError)
    formatted = data.with_format("torch")
    assert isinstance(formatted["label"][0], torch.Tensor)
    assert model.report(formatted).scores == model.report(TEXTS, LABELS).scores


def test_empty_cells():
    polars = pytest.importorskip("polars")
    model = ready("classifier")
    column = polars.Series([None, "a", " "])
    with pytest.raises(ValueError, match=r"x\[0\] is None, x\[2\] is ' '"):
        model.classify(column)
    with pytest.warns(UserWarning, match="2 of 3 rows"):
        found = model.classify(column, missing="skip")
    assert found[0] is None and found[1] == model.classify("a") and found[2] is None
    rows = [("a", "x"), ("", "y"), ("b", None), ("b", "y")]
    with pytest.raises(ValueError, match=r"x\[1\] is ''"):
        ready("classifier").fit(itertools.cycle(rows), steps_per_epoch=1, verbose=0)
    kept = [rows[0], rows[3]]
    weights = []
    options = {"steps_per_epoch": 3, "batch_size": 2, "missing": "skip", "verbose": 0}
    for data in (rows, kept):
        model = ready("classifier")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", UserWarning)
            model.fit(itertools.cycle(data), **options)
        found = [str(one.message) for one in said if "empty cell" in str(one.message)]
        assert len(found) == (data is rows) and all("('', 'y')" in f for f in found)
        weights.append(model.get_weights())
    for a, b in zip(*weights, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore:rows of the stream")
def test_a_stream_of_empty_cells_is_not_read_without_end():
    data = loader(["", " ", ""], ["x", "y", "x"])
    options = {"steps_per_epoch": 1, "missing": "skip", "verbose": 0}
    with pytest.raises(ValueError, match="needs a row without an empty cell"):
        ready("classifier").fit(data, **options)


def test_a_dictionary_of_lists_is_a_table():
    model, expected = ready("classifier"), ready("classifier")
    model.fit({"text": TEXTS, "label": LABELS}, verbose=0)
    expected.fit(TEXTS, LABELS, verbose=0)
    for a, b in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match=r"columns 'a', 'b', 'label'. Choose columns"):
        model.fit({"a": TEXTS, "b": TEXTS, "label": LABELS}, verbose=0)


def test_weights_of_streams():
    weights = [0.5, 2.0, 0.0, 1.0, 3.0]
    model = ready("classifier")
    expected = model.evaluate(TEXTS, LABELS, sample_weight=weights, verbose=0)
    rows = list(zip(TEXTS, LABELS, weights, strict=True))
    pandas = pytest.importorskip("pandas")
    for data in (rows, [tuple(zip(*rows, strict=True))]):
        assert model.evaluate(iter(data), verbose=0) == pytest.approx(expected)
    column = pandas.Series(weights)
    given = model.evaluate(TEXTS, LABELS, sample_weight=column, verbose=0)
    assert given == pytest.approx(expected)
    history = model.fit(
        itertools.cycle(rows), batch_size=5, steps_per_epoch=1, verbose=0
    ).history
    assert history["loss"][0] == pytest.approx(expected[0])
    assert model.evaluate(iter(TEXTS), LABELS, verbose=0) == pytest.approx(
        model.evaluate(TEXTS, LABELS, verbose=0)
    )


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # of Keras
def test_streams_of_arrays_are_those_of_keras():
    ids = np.array([[1, 2, 0], [2, 1, 1], [1, 1, 0], [2, 2, 2]])
    y = np.array([0, 1, 0, 1])
    arrays = [(ids[:1], y[:1]), (ids[1:], y[1:])]
    for model in (
        SequenceClassifier("gru", 2, vocabulary_size=5, units=3),
        ready("classifier"),
    ):
        model.compile(keras.optimizers.SGD(0.0))
        names = [model.labels[n] for n in y]
        expected = model.evaluate(ids, names, verbose=0)
        assert model.evaluate(iter(arrays), verbose=0) == pytest.approx(expected)
        history = model.fit(iter(arrays), validation_data=iter(arrays), verbose=0)
        assert history.history["val_loss"] == pytest.approx(expected[:1])
    head = ready("BERT")
    arrays = [(head.encode([list(row) for row in ids]), y)]
    assert len(head.predict(iter(arrays), verbose=0)) == 4
    history = head.fit(iter(arrays), validation_data=iter(arrays), verbose=0)
    assert np.isfinite(history.history["val_loss"]).all()


def fresh():
    return SequenceClassifier("gru", tokenizer="character", units=3)


def test_errors_of_data():
    datasets = pytest.importorskip("datasets")
    data = table(TEXTS, LABELS)
    splits = datasets.DatasetDict({"train": data, "test": data})
    with pytest.raises(ValueError, match=r"'train', 'test'\. Choose one: data\['train"):
        fresh().fit(splits)
    wide = data.add_column("title", TEXTS).add_column("number", [1, 2, 3, 4, 5])
    message = (
        r"one column of texts and one of labels, received the columns 'text', 'label', "
        r"'title', 'number'\. Choose columns: x=data\['text'\], y=data\['label'\]"
    )
    for each in (wide, wide.to_iterable_dataset(), wide.to_pandas(), wide.to_polars()):
        with pytest.raises(ValueError, match=message):
            fresh().fit(each)
    fresh().fit(wide["title"], wide["label"], verbose=0)
    for use in (fresh().fit, ready("BERT").classify, ready("tagger").tag):
        with pytest.raises(ValueError, match="without end. Leave .* steps_per_epoch"):
            use(grains(TEXTS, LABELS).repeat())
    with pytest.raises(ValueError, match=r"Pass labels=\[\.\.\.\] and a fitted token"):
        fresh().fit(endless(TEXTS, LABELS), steps_per_epoch=2)
    with pytest.raises(ValueError, match=r"Pass labels=\[\.\.\.\]"):
        bert().fit(endless(TEXTS, LABELS), steps_per_epoch=2)
    for options in (
        {"class_weight": "balanced"},
        {"validation_split": 0.2},
        {"sample_weight": [1.0] * 5},
        {"y": LABELS},
    ):
        for name in ("classifier", "BERT"):
            with pytest.raises(ValueError, match=f"{next(iter(options))} must be left"):
                ready(name).fit(endless(TEXTS, LABELS), steps_per_epoch=2, **options)
    with pytest.raises(ValueError, match="y must be None for a data set"):
        fresh().fit(iter([(TEXTS, LABELS)]), LABELS)
    with pytest.raises(ValueError, match=r"all rows or none.*at row 1, \('b',\)"):
        fresh().fit(iter([("a", "x"), "b"]))
    with pytest.raises(ValueError, match="same number of rows, received 5 and 2"):
        fresh().fit(iter([(TEXTS, LABELS[:2])]))
    arrays = np.zeros((2, 3), "int32")
    with pytest.raises(ValueError, match=r"must be indices, received \['a', 'b'\]"):
        fresh().fit(iter([(arrays, ["a", "b"])]))
    with pytest.raises(ValueError, match="must be indices"):
        ready("classifier").evaluate([(arrays, np.array(["a", "b"]))].__iter__())
    with pytest.raises(ValueError, match="expected labels y"):
        fresh().fit(iter(TEXTS))
    with pytest.raises(ValueError, match="expected labels y"):
        ready("classifier").fit(itertools.cycle(TEXTS), steps_per_epoch=1)
    with pytest.raises(ValueError, match="expected labels y"):
        ready("GPT").fit(itertools.cycle(TEXTS), steps_per_epoch=1)
    numbers = SequenceClassifier("gru", 2, vocabulary_size=5, units=3)
    with pytest.raises(TypeError, match="Build the model with a tokenizer"):
        numbers.fit(iter([(TEXTS, [0, 1, 0, 1, 0])]))
    # A stream with an end, of known length, is read for its labels.
    model = fresh()
    model.fit(loader(TEXTS, LABELS), steps_per_epoch=1, verbose=0)
    assert model.labels == CLASSES


def test_tables_of_numbers_and_without_rows():
    polars = pytest.importorskip("polars")
    model = SequenceClassifier("gru", 2, vocabulary_size=5, units=3)
    ids, y = [[1, 2], [2, 2], [1, 1]], [0, 1, 0]
    expected = model.evaluate(ids, y, verbose=0)
    columns = {"first": [1, 2, 1], "second": [2, 2, 1]}
    for data in (
        (polars.Series(ids), polars.Series(y)),
        (polars.DataFrame(columns), y),
        (polars.DataFrame(columns).to_arrow(), y),
        (polars.DataFrame(columns).to_pandas(), y),
        (polars.DataFrame({"ids": ids, "label": y}),),
    ):
        assert model.evaluate(*data, verbose=0) == pytest.approx(expected)
    assert ready("classifier").classify(polars.DataFrame({"text": []})) == []
    with pytest.raises(ValueError, match="fit needs at least one row"):
        fresh().fit(polars.DataFrame({"text": [], "label": []}))
    several = SequenceClassifier(
        "gru", CLASSES, tokenizer="character", units=3, multi_label=True
    )
    several.fit(TEXTS, [["x"]] * 5, verbose=0)
    expected = several.evaluate(["a", "b"], np.array([[1, 1], [0, 1]]), verbose=0)
    sets = polars.DataFrame({"x": [1, 0], "y": [1, 1]})
    for table in (sets, sets.to_pandas(), sets.to_arrow()):
        assert several.evaluate(["a", "b"], table, verbose=0) == pytest.approx(expected)
    rows = iter([("a", ["x", "y"]), ("b", ["y"])])
    assert several.evaluate(rows, verbose=0) == pytest.approx(expected)


def test_a_column_of_an_iterable_data_set():
    data = table(TEXTS, LABELS)
    rows, model = data.to_iterable_dataset(), ready("classifier")
    found = model.report(rows["text"], rows["label"])
    assert found.scores == model.report(TEXTS, LABELS).scores

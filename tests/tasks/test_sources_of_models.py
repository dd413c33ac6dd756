"""Language models, translators and forecasters: other data give what lists give."""

import itertools

import keras
import numpy as np
import pytest

from kerasseq.models import GPT, T5, Forecaster, LanguageModel, Seq2Seq, Transformer
from kerasseq.models.seq2seq.t5 import T5Encoder
from kerasseq.text import CharacterTokenizer
from tests.tasks.test_sources import REPEATED, SOURCES, Batches, grains

pytestmark = pytest.mark.once("data become lists before a backend computes")

LETTERS = CharacterTokenizer().fit("ab ")
TEXTS, TARGETS = ["b a", "a", "a a b", "b", "b b"], ["a", "b b", "b", "a b", "a"]
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "dropout": 0.0}
MODELS = {
    "a language model": lambda: LanguageModel("elman", LETTERS, units=3),
    "pairs": lambda: Seq2Seq("elman", LETTERS, LETTERS, units=3, attention=None),
    "windows": lambda: Forecaster("elman", horizon=2, units=3),
}


def made(name):
    keras.utils.set_random_seed(3)
    model = MODELS[name]()
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    return model


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


class Texts(Batches):
    def __getitem__(self, number):
        return self.x[2 * number : 2 * number + 2]


def of_library(name, values, column="text"):
    """A table with one column."""
    library = pytest.importorskip(name)
    if name == "datasets":
        return library.Dataset.from_dict({column: values})
    make = library.table if name == "pyarrow" else library.DataFrame
    return make({column: values})


LIBRARIES = ("pandas", "polars", "pyarrow", "datasets")


def tensors_of(values):
    tf = pytest.importorskip("tensorflow", exc_type=ImportError)
    return tf.data.Dataset.from_tensor_slices(values)


def loader_of(values):
    torch = pytest.importorskip("torch", exc_type=ImportError)
    return torch.utils.data.DataLoader(values, batch_size=2)


def grain_of(values):
    return pytest.importorskip("grain").MapDataset.source(values)


OF_TEXTS = {  # of texts alone
    "NumPy": np.array,
    "a dictionary": lambda x: {"text": x},
    **{f"a table of {n}": lambda x, n=n: of_library(n, x) for n in LIBRARIES},
    **{f"a column of {n}": lambda x, n=n: of_library(n, x)["text"] for n in LIBRARIES},
    "an IterableDataset": lambda x: of_library("datasets", x).to_iterable_dataset(),
    "tf.data": tensors_of,
    "batches of tf.data": lambda x: tensors_of(x).batch(2),
    "a DataLoader": loader_of,
    "a DataLoader of a table": lambda x: loader_of(of_library("datasets", x)),
    "a PyDataset": lambda x: Texts(x, x),
    "a generator": lambda x: (each for each in (x[0], x[1:])),
    "grain": grain_of,
    "an IterDataset": lambda x: grain_of(x).to_iter_dataset(),
}


@pytest.mark.parametrize("source", OF_TEXTS)
def test_texts_of_language_models(source):
    make, options = OF_TEXTS[source], {"sequence_length": 3, "verbose": 0}
    model, expected = made("a language model"), made("a language model")
    for each, data in ((model, make), (expected, list)):
        found = each.fit(data(TEXTS), validation_data=data(TEXTS), **options).history
    assert found["val_loss"] == pytest.approx(
        expected.evaluate(TEXTS, **options)[:1], rel=1e-5
    )
    assert_same(model.get_weights(), expected.get_weights())
    losses = model.evaluate(make(TEXTS), **options)
    assert losses == pytest.approx(model.evaluate(TEXTS, **options))
    assert_same(*(model.predict(x, verbose=0) for x in (make(TEXTS), TEXTS)))
    assert model.cross_entropy(make(TEXTS)) == model.cross_entropy(TEXTS)
    np.testing.assert_array_equal(model.encode(make(TEXTS)), model.encode(TEXTS))


def test_vectors_and_prompts_of_a_column():
    model = T5Encoder(LETTERS, **SIZES)
    column = of_library("pandas", TEXTS)["text"]
    for x in (column, column.to_numpy(), iter(TEXTS)):
        assert_same([model.predict(x, verbose=0)], [model.predict(TEXTS, verbose=0)])
    for model in (MODELS["a language model"](), MODELS["pairs"]()):
        answers = [model.generate(x, max_new_tokens=3, seed=5) for x in (column, TEXTS)]
        assert answers[0] == answers[1]
    with pytest.raises(ValueError, match=r"texts alone, received labels.* 'x'\. Pass"):
        made("a language model").fit(iter(zip(TEXTS, "xyxyx", strict=True)))


def pairs_of_datasets(x, y):
    return pytest.importorskip("datasets").Dataset.from_dict({"en": x, "fr": y})


OF_PAIRS = {
    **SOURCES,
    "columns of datasets": lambda x, y: tuple(pairs_of_datasets(x, y)[:].values()),
    "datasets": lambda x, y: (pairs_of_datasets(x, y),),
    "an IterableDataset": lambda x, y: (pairs_of_datasets(x, y).to_iterable_dataset(),),
    "a DataLoader of a table": lambda x, y: (loader_of(pairs_of_datasets(x, y)),),
    "tuples": lambda x, y: (list(zip(x, y, strict=True)),),
    "rows of translations": lambda x, y: (
        [{"en": a, "fr": b} for a, b in zip(x, y, strict=True)],
    ),
}


def trained_on_pairs(forms):
    """A translator that was trained on these forms of the pairs, and its history."""
    model = made("pairs")
    held_out = forms(TEXTS, TARGETS)
    held_out = held_out if len(held_out) == 2 else held_out[0]
    options = {"validation_data": held_out, "verbose": 0}
    return model, model.fit(*forms(TEXTS, TARGETS), **options).history


@pytest.fixture(scope="module")
def of_lists():
    return trained_on_pairs(lambda *pairs: pairs)[0]


@pytest.mark.parametrize("source", OF_PAIRS)
def test_pairs_of_translators(source, of_lists):
    expected, make = of_lists, OF_PAIRS[source]
    model, found = trained_on_pairs(make)
    assert found["val_loss"] == pytest.approx(
        expected.evaluate(TEXTS, TARGETS, verbose=0)[:1], rel=1e-5
    )
    assert_same(model.get_weights(), expected.get_weights())
    losses = model.evaluate(*make(TEXTS, TARGETS), verbose=0)
    assert losses == pytest.approx(model.evaluate(TEXTS, TARGETS, verbose=0))
    data = make(TEXTS, TARGETS)
    logits = model.predict(data if len(data) == 2 else data[0], verbose=0)
    assert_same([logits], [model.predict((TEXTS, TARGETS), verbose=0)])


VALUES = [*np.sin(np.arange(20.0)).round(3).tolist()]
OF_SERIES = {
    "a dictionary": lambda: {"sales": VALUES},
    **{
        f"a table of {n}": lambda n=n: of_library(n, VALUES, "sales") for n in LIBRARIES
    },
    "an IterableDataset": lambda: of_library(
        "datasets", VALUES, "sales"
    ).to_iterable_dataset(),
    "NumPy": lambda: np.array(VALUES),
    **{
        f"a column of {n}": lambda n=n: of_library(n, VALUES, "sales")["sales"]
        for n in LIBRARIES
    },
}


@pytest.mark.parametrize("source", OF_SERIES)
def test_series_of_forecasters(source):
    model, expected, make = made("windows"), made("windows"), OF_SERIES[source]
    for each, data in ((model, make), (expected, lambda: VALUES)):
        options = {"length": 7, "epochs": 1, "verbose": 0}
        found = each.fit(data(), validation_data=data(), **options).history
    assert found["val_loss"] == pytest.approx(
        model.evaluate(make(), verbose=0)[:1], rel=1e-5
    )
    assert_same(model.get_weights(), expected.get_weights())
    for history in ((), (make(),)):
        found = np.ravel(np.array(model.forecast(*history)))
        np.testing.assert_allclose(found, expected.forecast(), rtol=1e-6)
    with pytest.raises(TypeError, match=r"(?s)received a table.*Use forecast\(table"):
        model.predict(make())


X = np.random.default_rng(0).normal(size=(4, 7, 1)) * 3 + 10
Y = X[:, :2, 0]
OF_WINDOWS = {
    "tf.data": lambda x, y: tensors_of((x, y)),
    "batches of tf.data": lambda x, y: tensors_of((x, y)).batch(3),
    "a DataLoader": lambda x, y: loader_of(list(zip(x, y, strict=True))),
    "a PyDataset": Batches,
    "a generator": lambda x, y: (each for each in zip(x, y, strict=True)),
    "grain": grains,
}


@pytest.mark.parametrize("source", OF_WINDOWS)
def test_windows_of_forecasters(source):
    model, expected, make = made("windows"), made("windows"), OF_WINDOWS[source]
    model.fit(make(X, Y), validation_data=make(X, Y), shuffle=False, verbose=0)
    expected.fit(X, Y, shuffle=False, verbose=0)
    assert_same(model.get_weights(), expected.get_weights())
    losses = model.evaluate(make(X, Y), verbose=0)
    assert losses == pytest.approx(model.evaluate(X, Y, verbose=0))
    assert_same(*(model.predict(x, verbose=0) for x in (make(X, Y), X)))


def test_rows_of_a_series_are_no_windows():
    for each in (loader_of(VALUES), iter([{"sales": value} for value in VALUES])):
        for use in (made("windows").fit, made("windows").evaluate):
            with pytest.raises(
                TypeError, match=r"order of their dates: .*DataFrame\(r"
            ):
                use(each)
    with pytest.raises(ValueError, match="without end.* validation_steps="):
        made("windows").fit(grains(X, Y).repeat())


@pytest.mark.parametrize("source", REPEATED)
def test_an_endless_stream_of_pairs_and_of_windows(source):
    make, options = REPEATED[source], {"steps_per_epoch": 2, "epochs": 2, "verbose": 0}
    model, expected = made("pairs"), made("pairs")
    limit = {"validation_steps": 1, "batch_size": 5}
    data = make(TEXTS, TARGETS), make(TEXTS, TARGETS)
    model.fit(data[0], validation_data=data[1], **limit, **options)
    expected.fit(TEXTS, TARGETS, batch_size=5, epochs=4, verbose=0)
    assert_same(model.get_weights(), expected.get_weights())
    losses = model.evaluate(make(TEXTS, TARGETS), steps=1, batch_size=5, verbose=0)
    assert losses == pytest.approx(model.evaluate(TEXTS, TARGETS, verbose=0))


@pytest.mark.parametrize("source", REPEATED)
def test_an_endless_stream_of_texts(source):
    make = {
        "a generator": itertools.cycle,
        "tf.data": lambda x: tensors_of(x).repeat(),
        "grain": lambda x: grain_of(x).repeat(),
    }.get(source, loader_of)
    sizes = {"sequence_length": 3, "batch_size": 2}
    model, expected = made("a language model"), made("a language model")
    ids = np.concatenate([LETTERS.encode(text) for text in TEXTS * 2])
    rows = [slice(n, n + 6) for n in (0, 6, 12)]
    batches = [(ids[r].reshape(2, 3), ids[1:][r].reshape(2, 3)) for r in rows]
    held_out = {"validation_data": make(TEXTS), "validation_steps": 2}
    options = {"steps_per_epoch": 3, "shuffle": False, "verbose": 0}
    found = model.fit(make(TEXTS), **sizes, **held_out, **options).history
    expected.fit(iter(batches), **options)
    assert_same(model.get_weights(), expected.get_weights())
    x, y = map(np.concatenate, zip(*batches[:2], strict=True))
    losses = model.evaluate(make(TEXTS), steps=2, **sizes, verbose=0)
    assert losses == pytest.approx(model.evaluate(x, y, verbose=0))
    assert found["val_loss"] == pytest.approx(losses[:1], rel=1e-5)


def test_an_endless_stream_of_windows():
    model, expected = made("windows"), made("windows")
    stream, held_out = (itertools.cycle([(X, Y)]) for _ in range(2))
    options = {"steps_per_epoch": 1, "epochs": 2, "validation_steps": 1, "verbose": 0}
    model.fit(stream, validation_data=held_out, **options)
    expected.fit(X, Y, epochs=2, verbose=0)
    assert_same(model.get_weights(), expected.get_weights())


@pytest.mark.full("sources and targets of any lengths, compiled")
def test_batches_of_a_stream_of_pairs_have_any_lengths():
    rows = zip(["a", "a", "b" * 20, "ab"], ["b", "b", "b" * 3, "b" * 17], strict=True)
    model, options = MODELS["pairs"](), {"steps_per_epoch": 4, "verbose": 0}
    losses = model.fit(itertools.cycle(rows), batch_size=1, **options).history["loss"]
    assert np.isfinite(losses).all()


def test_errors_of_streams():
    for name, data in (("pairs", (TEXTS, TARGETS)), ("a language model", (TEXTS,))):
        make = zip if name == "pairs" else lambda x: x
        with pytest.raises(ValueError, match="validation_split must be left out"):
            made(name).fit(
                itertools.cycle(make(*data)), steps_per_epoch=1, validation_split=0.5
            )
        with pytest.raises(ValueError, match="without end.* validation_steps="):
            made(name).evaluate(grain_of(list(make(*data))).repeat())
    with pytest.raises(TypeError, match="its sample weight, a number, received 'CC"):
        made("pairs").fit(iter([("a", "b", "CC-BY")]))
    for make in (GPT, T5, Transformer):
        model = make(*[LETTERS] * (1 + (make is Transformer)), **SIZES)
        texts = iter(
            ["a b a b"] * 9 if make is GPT else zip(TEXTS, TARGETS, strict=True)
        )
        options = {"sequence_length": 7} if make is GPT else {}
        history = model.fit(texts, **options, verbose=0).history
        assert np.isfinite(history["loss"]).all()

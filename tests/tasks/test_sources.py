"""Data of other libraries give what lists give; what cannot be read is explained."""

import itertools

import keras
import numpy as np
import pytest

from kerasseq.models import BERT, GPT, SequenceClassifier, SequenceTagger
from kerasseq.tasks import sources
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
    "a generator": lambda x, y: (pair for pair in [(x[:2], y[:2]), (x[2:], y[2:])]),
    "an iterator of rows": lambda x, y: (zip(x, y, strict=True),),
    "a MapDataset": lambda x, y: (grains(x, y),),
    "an IterDataset": lambda x, y: (grains(x, y).to_iter_dataset(),),
    "a DataLoader of grain": lambda x, y: (grain_loader(x, y),),
}
SOURCES["a generator"] = lambda x, y: (
    (pair for pair in [(x[:2], y[:2]), (x[2:], y[2:])]),
)


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


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("source", SOURCES)
def test_data_give_what_lists_give(source, name, expected):
    weights, losses, scores, outputs, known = expected[name]
    x, y = (WORDS, TAGS) if known.per_step else (TEXTS, LABELS)
    make = SOURCES[source]
    if source in ("columns of datasets", "datasets"):
        y = [[CLASSES.index(tag) for tag in row] for row in y] if known.per_step else y
    if name in ("classifier", "tagger"):  # the others have the same adapter
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

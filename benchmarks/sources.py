"""Data of other libraries: which model reads which source in fit, evaluate and predict.

A cell says "same" if the three methods give what they give for lists: the weights after
a step, the losses, the outputs; else it names what differs; the errors stand above the
table. Needs the libraries that are named; a source whose library is missing is left
out. An endless stream is read with `steps_per_epoch=1` and `steps=1`.
"""

import functools
import importlib
import importlib.util
import itertools
import tempfile

import keras
import numpy as np

from kerasseq import models, text

METHODS = ("fit", "evaluate", "predict")
CLASSES, ROWS = ["x", "y"], 5
TEXTS, LABELS = ["b a", "a", "a a b", "b", "b b"], ["x", "y", "y", "x", "y"]
WORDS = [row.split() for row in TEXTS]
TAGS = [["x" if word == "a" else "y" for word in row] for row in WORDS]
TARGETS = ["a", "b b", "b", "a b", "a"]
SERIES = np.sin(np.arange(23.0)).round(3).tolist()
WINDOWS = np.random.default_rng(0).normal(size=(ROWS, 7, 1)).astype("float32")
SIZES = {"num_layers": 1, "num_heads": 2, "hidden_dim": 6, "dropout": 0.0}
IMAGE = {"image_size": (4, 6), "patch_size": 2, "channels": 1}


@functools.cache
def letters():
    """A tokenizer of the characters of the texts."""
    return text.CharacterTokenizer().fit("ab ")


def bert():
    """A BERT without a head."""
    pieces = text.WordPieceTokenizer(30).fit(["a b ab"])
    return models.BERT(pieces, **SIZES, max_sequence_length=11)


MODELS = {
    "SequenceClassifier": lambda: models.SequenceClassifier(
        "gru", CLASSES, tokenizer=letters(), units=3
    ),
    "SequenceTagger": lambda: models.SequenceTagger(
        "gru", CLASSES, tokenizer=letters(), units=3
    ),
    "Forecaster": lambda: models.Forecaster("elman", horizon=2, units=3),
    "BERT": lambda: bert().with_head("classify", CLASSES),
    "GPTTask": lambda: models.GPT(letters(), **SIZES).with_head("classify", CLASSES),
    "ViT": lambda: models.ViT(CLASSES, **IMAGE, **SIZES),
    "LanguageModel": lambda: models.LanguageModel("elman", letters(), units=3),
    "Seq2Seq": lambda: models.Seq2Seq(
        "elman", letters(), letters(), units=3, attention=None
    ),
}


@functools.cache
def files():
    """Paths of small images, and the images as arrays."""
    from PIL import Image

    arrays = np.random.default_rng(1).integers(0, 255, (ROWS, 4, 6), "uint8")
    folder = tempfile.mkdtemp()
    paths = [f"{folder}/{n}.png" for n in range(ROWS)]
    for path, array in zip(paths, arrays, strict=True):
        Image.fromarray(array).save(path)
    return paths, arrays[..., None]


def columns_of(model):
    """What the table of a model has, by column."""
    return {
        "Forecaster": {"sales": SERIES},
        "LanguageModel": {"text": TEXTS},
        "Seq2Seq": {"en": TEXTS, "fr": TARGETS},
        "SequenceTagger": {"words": WORDS, "label": TAGS},
        "ViT": {"image": files()[0], "label": LABELS},
    }.get(model, {"text": TEXTS, "label": LABELS})


def rows_of(model):
    """The rows of a stream: images and windows are arrays there, labels indices."""
    if model == "Forecaster":
        return list(zip(WINDOWS, WINDOWS[:, :2, 0] / 2, strict=True))
    if model == "ViT":
        indices = [CLASSES.index(label) for label in LABELS]
        return list(zip(files()[1], indices, strict=True))
    columns = list(columns_of(model).values())
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def frame(library, model):
    """A table of pandas, polars or Arrow."""
    module = importlib.import_module(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    return make(columns_of(model))


def dataset(model):
    """A data set of Hugging Face, with `ClassLabel` and `Image`."""
    import datasets

    columns, features = dict(columns_of(model)), {}
    for name, values in columns.items():
        several = isinstance(values[0], list)
        kind = "float64" if model == "Forecaster" else "string"
        feature = datasets.Image() if name == "image" else datasets.Value(kind)
        if name == "label":
            feature, index = datasets.ClassLabel(names=CLASSES), CLASSES.index
            columns[name] = [
                [*map(index, value)] if several else index(value) for value in values
            ]
        features[name] = datasets.Sequence(feature) if several else feature
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def tensors(model):
    """A `tf.data` set of single rows."""
    import tensorflow as tf

    rows = rows_of(model)
    constant = tf.ragged.constant if model == "SequenceTagger" else tf.constant
    if not isinstance(rows[0], tuple):
        return tf.data.Dataset.from_tensor_slices(constant(rows))
    parts = [list(part) for part in zip(*rows, strict=True)]
    parts = map(constant, map(np.array, parts) if model == "ViT" else parts)
    return tf.data.Dataset.from_tensor_slices(tuple(parts))


def loader(model):
    """A `DataLoader` of PyTorch that yields one batch."""
    import torch

    options = {"batch_size": ROWS}
    if model == "SequenceTagger":  # rows of several lengths
        options["collate_fn"] = lambda rows: tuple(zip(*rows, strict=True))
    return torch.utils.data.DataLoader(rows_of(model), **options)


class Batches(keras.utils.PyDataset):
    """One batch of all rows."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def __len__(self):
        return 1

    def __getitem__(self, number):
        if not isinstance(self.rows[0], tuple):
            return self.rows
        parts = [list(part) for part in zip(*self.rows, strict=True)]
        is_array = hasattr(parts[0][0], "shape")
        return tuple(map(np.array, parts)) if is_array else tuple(parts)


def grains(model):
    """A `MapDataset` of grain."""
    import grain

    return grain.MapDataset.source(rows_of(model))


def arrays(model):
    """NumPy arrays; of words, which have several lengths, an array of lists."""
    columns = []
    for values in columns_of(model).values():
        column = np.empty(len(values), object if isinstance(values[0], list) else None)
        column = column if column.dtype == object else np.array(values)
        column[:] = values
        columns.append(column)
    return tuple(columns)


def split(table, model):
    """The columns of a table."""
    return tuple(table[name] for name in columns_of(model))


SOURCES = {  # the packages each needs, and what is passed to `fit`
    "lists": ("", lambda m: tuple(columns_of(m).values())),
    "NumPy": ("", arrays),
    "pandas": ("pandas", lambda m: (frame("pandas", m),)),
    "polars": ("polars", lambda m: (frame("polars", m),)),
    "Arrow": ("pyarrow", lambda m: (frame("pyarrow", m),)),
    "HF Dataset": ("datasets", lambda m: (dataset(m),)),
    "HF Column": ("datasets", lambda m: split(dataset(m), m)),
    "tf.data": ("tensorflow", lambda m: (tensors(m),)),
    "DataLoader": ("torch", lambda m: (loader(m),)),
    "PyDataset": ("", lambda m: (Batches(rows_of(m)),)),
    "generator": ("", lambda m: (iter(rows_of(m)),)),
    "grain": ("grain", lambda m: (grains(m),)),
    "endless stream": ("", lambda m: (itertools.cycle(rows_of(m)),)),
}
TABLES = ("lists", "NumPy", "pandas", "polars", "Arrow", "HF Dataset", "HF Column")


def add_arguments(parser):
    """Adds the options of the benchmark."""
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--sources", default=",".join(SOURCES))


def run(options):
    """Returns a row for each source, and the errors."""
    errors, table = {}, []
    for source in options.sources.split(","):
        if all(map(importlib.util.find_spec, SOURCES[source][0].split())):
            cells = {m: cell(m, source, errors) for m in options.models.split(",")}
            table.append({"source": source, **cells})
    return {**errors, "table": table}


def cell(model, source, errors):
    """What the three methods do with a source."""
    found = []
    for method in METHODS:
        try:
            value = outcome(model, source, method)
        except (TypeError, ValueError) as error:
            errors[f"{model}.{method}, {source}"] = " ".join(str(error).split())
            found.append(f"{method}: see above")
            continue
        expected = outcome(model, expected_source(model, source, method), method)
        if not all(map(is_same, value, expected)):
            found.append(f"{method}: DIFFERENT")
    return ", ".join(found) or "same"


def expected_source(model, source, method):
    """The source whose rows are the same: of a series a table, or its windows."""
    is_endless = source == "endless stream" and method != "predict"
    if model == "LanguageModel" and is_endless:
        return "twice"  # blocks continue with the first text
    is_of_windows = model == "Forecaster" and source not in TABLES
    return "windows" if is_of_windows else "lists"


def is_same(a, b):
    """Whether two arrays are equal but for rounding."""
    return np.shape(a) == np.shape(b) and np.allclose(a, b, atol=1e-5)


def outcome(model, source, method):
    """Weights, losses or outputs of a new model for a source."""
    keras.utils.set_random_seed(3)
    network = MODELS[model]()
    network.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    data = given(model, source)
    sizes, one = {"batch_size": ROWS, "verbose": 0}, source == "endless stream"
    own = {"sequence_length": 2} if model == "LanguageModel" else {}
    if method == "predict":
        x = data if model == "Seq2Seq" and len(data) == 2 else data[0]
        steps = {"steps": 1} if one else {}
        return keras.tree.flatten(network.predict(x, **sizes, **steps))
    if method == "evaluate":
        if model == "Forecaster":
            network.fit(SERIES, length=7, epochs=1, verbose=0)
        steps = {"steps": 1} if one else {}
        return [network.evaluate(*data, **sizes, **own, **steps)]
    if model == "Forecaster" and source in TABLES:
        own = {"length": 7}
    steps = {"steps_per_epoch": 1} if one else {}
    network.fit(*data, epochs=1, **sizes, **own, **steps)
    return network.get_weights()


def given(model, source):
    """What is passed to a method."""
    if source == "windows":
        return tuple(map(np.array, zip(*rows_of(model), strict=True)))
    if source == "twice":
        ids = np.concatenate([letters().encode(each) for each in TEXTS * 2])
        return ids[:10].reshape(5, 2), ids[1:11].reshape(5, 2)
    return SOURCES[source][1](model)

"""Data of other libraries as inputs: columns, tables, and streams of texts.

Columns of pandas, polars, Arrow and Hugging Face, and what a `tf.data` set, a loader or
a generator of texts yields, become lists of inputs, labels and sample weights. None of
these packages is imported: their public methods tell what an object is.
"""

import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.tasks import data_checks

ENDLESS = 1 << 48  # more batches than any data have; grain counts up to 2^63 - 1
KNOWN: weakref.WeakSet[Any] = weakref.WeakSet()  # generators without texts
LABEL_COLUMNS = ("label", "labels")
Row = tuple[Any, ...]  # an input, and its label and sample weight if there are


def read(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    words: bool = False,
    labels: int | Sequence[Any] | None = None,
    rows: int | None = None,
) -> tuple[Any, Any, Any]:
    """Returns inputs, labels and sample weights as lists.

    Args:
        x: A column, which becomes a list; several columns of texts in a table or an
            array, tuples; a table with one column of texts and one of labels, if `y`
            is None; or a stream of texts, with labels and weights or without, in
            batches or row by row, which is read to its end. Others are returned as
            they are: lists, arrays, and streams of arrays.
        y: Labels: a list, an array or a column; None if `x` has them.
        sample_weight: A weight for each row; None if `x` has them.
        words: Whether a row is a list of words with a list of labels. In a stream it is
            a list or a tensor `(words,)`; in batches, rows may be filled with "".
        labels: The labels of the model: their number, their names, or None if they are
            to be learned. The indices of a Hugging Face `ClassLabel` become its names,
            if these are labels of the model or can be learned.
        rows: How many rows of a stream to read; all if None.

    Raises:
        TypeError: If the inputs are neither rows nor batches.
        ValueError: If a stream of texts has no end, the columns of a table are
            ambiguous, or there are labels or weights twice.

    Examples:
        >>> read(pair for pair in [("a b", "x"), ("b", "y")])
        (['a b', 'b'], ['x', 'y'], None)
    """
    stream = text_stream(x, words=words, labels=labels)
    if stream is None:
        x, y = _columns(x, y, words, labels)
        data_checks.check_data(x)
        return x, y, _values(sample_weight)
    if not isinstance(stream, TextStream):  # of arrays, whose first batch was read
        return stream, _values(y, labels), _values(sample_weight)
    return stream.lists(_values(y, labels), _values(sample_weight), rows)


def text_stream(
    x: Any, *, words: bool = False, labels: int | Sequence[Any] | None = None
) -> Any:
    """Returns a stream of texts as a `TextStream`; None if `x` is no stream.

    Args:
        x: As for `read`.
        words: As for `read`.
        labels: As for `read`.

    Returns:
        A `TextStream` if the first element holds texts, else the stream; None for rows.
    """
    if isinstance(x, TextStream):
        return x
    if not _is_stream(x):
        return None
    if x in KNOWN or not _has_strings(getattr(x, "element_spec", "string")):
        return x
    elements = elements_of(x)
    first = [*itertools.islice(elements, 1)]
    rest = itertools.chain(first, elements)
    if first and _holds_texts(first[0]):
        return TextStream(x, rest, words, labels)
    data_checks.check_labels_of_batch(first)
    return generator_of(rest) if isinstance(x, Iterator) else x


class TextStream:
    """The rows of a stream of texts.

    Args:
        source: What yields the texts.
        elements: An iterator over it, at its first element.
        words: As for `read`.
        labels: As for `read`.
    """

    def __init__(
        self,
        source: Any,
        elements: Iterator[Any],
        words: bool,
        labels: int | Sequence[Any] | None,
    ) -> None:
        self.source = source
        self.elements = elements
        self.words = words
        self.labels = labels
        self.features: Any = _features(source)

    def again(self) -> "TextStream":
        """Returns the stream from its beginning, which a generator cannot repeat."""
        return type(self)(
            self.source, elements_of(self.source), self.words, self.labels
        )

    @property
    def has_end(self) -> bool | None:
        """Whether the stream has an end; None if it does not tell."""
        count = count_of(self.source)
        return None if count is None else count < ENDLESS

    def rows(self) -> Iterator[Row]:
        """Yields the rows, each `(x,)`, `(x, y)` or `(x, y, sample_weight)`."""
        for element in self.elements:
            yield from self._rows_of(element)

    def lists(
        self, y: Any, sample_weight: Any, rows: int | None = None
    ) -> tuple[Any, Any, Any]:
        """Reads the stream to its end, and returns inputs, labels and weights.

        Args:
            y: Labels, if the stream has none.
            sample_weight: Sample weights, if the stream has none.
            rows: How many rows to read; all if None.

        Raises:
            ValueError: If it has no end, or there are labels or weights twice.
        """
        if rows is None and self.has_end is False:
            raise ValueError(
                "x must be a data set with an end, as its texts are read before "
                f"training, received {checks.short(self.source)}, which repeats "
                "without end. Leave .repeat() out, and pass epochs=...; or, if the "
                "model has its labels and tokenizer, pass steps_per_epoch=..."
            )
        x, own, weights = as_columns([*itertools.islice(self.rows(), rows)])
        pairs = {"y": (y, own), "sample_weight": (sample_weight, weights)}
        for name, (given, streamed) in pairs.items():
            if given is not None and streamed is not None:
                raise ValueError(
                    f"{name} must be None for a data set (x, y, weight), which has its "
                    f"own, received {checks.short(given)}"
                )
        y = own if y is None else y
        return x, y, sample_weight if weights is None else weights

    def _rows_of(self, element):
        """The rows of an element of the stream."""
        is_table = isinstance(element, Mapping)
        chosen = _chosen(element, self.features) if is_table else None
        if chosen is not None:
            texts, label = chosen
            x = tuple(element[name] for name in texts)
            parts = [x if len(texts) > 1 else x[0]]
            if label is not None:
                names = _class_names(self.features, label)
                parts.append(_named(_plain(element[label]), names, self.labels))
        else:
            parts = _parts(element, self.words)
        x, *others = map(_plain, parts)
        is_of_columns = chosen is not None and isinstance(x, tuple)
        is_array = isinstance(parts[0], np.ndarray)
        is_row = is_of_columns and isinstance(x[0], str)
        if is_row or _is_one_row(x, others, self.words, is_array):
            yield _without_padding(x, others) if self.words else (x, *others)
            return
        if not self.words and _are_columns(x, parts[0]):
            x = list(zip(*x, strict=True))
        x, others = list(x), [part for part in others if part is not None]
        for part in others:
            data_checks.check_labels_of_rows(part, len(x))
        for row, *more in zip(x, *others, strict=True):
            yield _without_padding(row, more) if self.words else (row, *more)


def as_columns(rows: Sequence[Row]) -> tuple[list[Any], Any, Any]:
    """Returns rows as inputs, labels and sample weights; None if there are none.

    Args:
        rows: Rows `(x,)`, `(x, y)` or `(x, y, sample_weight)`.

    Raises:
        ValueError: If only some rows have labels or weights.

    Examples:
        >>> as_columns([("a", 1), ("b", 0)])
        (['a', 'b'], [1, 0], None)
    """
    for n, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(
                "a stream must have labels for all rows or none, and so sample "
                f"weights, received {checks.short(rows[0])} and, at row {n}, "
                f"{checks.short(row)}"
            )
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]]
    return tuple([*columns, None, None][:3])


def generator_of(elements: Iterable[Any]) -> Iterator[Any]:
    """A generator, the only iterator that Keras takes, whose first element is known."""
    generator = (element for element in elements)
    KNOWN.add(generator)
    return generator


def _is_stream(x):
    """Whether data come one after the other, also as an `IterableDataset`."""
    if isinstance(x, type | str | Mapping) or is_column(x):
        return False
    return data_checks.are_batches(x)


def elements_of(x: Any) -> Iterator[Any]:
    """Iterates over a stream; a `PyDataset` is one of batches by number."""
    if isinstance(x, keras.utils.PyDataset):
        count = count_of(x)
        numbers = itertools.count() if count >= ENDLESS else range(count)
        return (x[number] for number in numbers)
    if hasattr(x, "as_numpy_iterator"):
        return iter(x.as_numpy_iterator())
    return iter(x) if hasattr(x, "__iter__") else iter(())


def count_of(x: Any) -> int | None:
    """The number of elements of a stream, `ENDLESS` if it repeats, None if unknown."""
    if isinstance(x, keras.utils.PyDataset):
        count = x.num_batches
        return ENDLESS if count is None else count
    if hasattr(x, "cardinality"):  # of tf.data: -1 without end, -2 unknown
        count = int(x.cardinality())
        return {-1: ENDLESS, -2: None}.get(count, count)
    try:
        return min(len(x), ENDLESS)
    except (TypeError, NotImplementedError):
        return None


def _has_strings(spec):
    dtypes = [getattr(part, "dtype", part) for part in keras.tree.flatten(spec)]
    return "string" in dtypes


def _parts(element, words):
    """Inputs, labels and weights of an element of a stream."""
    if isinstance(element, list):
        is_rows = words and all(isinstance(row, list) for row in element)
        if not is_rows and not all(isinstance(row, str) for row in element):
            return tuple(element)  # as PyTorch collates pairs (x, y)
        return (element,)
    return element if isinstance(element, tuple) else (element,)


def _is_one_row(x, others, words, is_array):
    """Whether the inputs of an element are one row, and no batch."""
    if isinstance(x, str) or hasattr(x, "getexif"):
        return True
    are_texts = all(isinstance(part, str) for part in x)
    if words:
        return are_texts
    if are_texts:  # a pair has one label
        has_label = bool(others) and not isinstance(others[0], list | tuple)
        return isinstance(x, tuple) and has_label
    # A text with its answers.
    return not is_array and isinstance(x, tuple) and isinstance(x[0], str)


def _are_columns(x, given):
    """Whether inputs are several columns of texts, and not rows of several texts."""
    if isinstance(given, np.ndarray) or len(x) < 2:
        return False
    return all(
        isinstance(column, list | tuple)
        and all(isinstance(text, str) for text in column)
        for column in x
    )


def _without_padding(row, others):
    """Words without the empty strings at the end, and as many labels.

    Examples:
        >>> _without_padding(["a", "b", "", ""], [[1, 2, 0, 0]])
        (['a', 'b'], [1, 2])
    """
    if isinstance(row, str):
        return row, *others
    count = len(row)
    while count and row[count - 1] == "":
        count -= 1
    row = list(row[:count])
    return row, *[part[:count] for part in others[:1]], *others[1:]


def _plain(value):
    """Tensors of bytes or numbers as plain lists of text or numbers.

    Examples:
        >>> _plain(np.array([b"a", b"b"])), _plain(b"a")
        (['a', 'b'], 'a')
    """
    for method in ("to_list", "tolist"):  # of ragged tensors and of arrays
        if hasattr(value, method):
            value = getattr(value, method)()
    if isinstance(value, list):
        return list(map(_plain, value))
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if keras.ops.is_tensor(value):
        return _plain(keras.ops.convert_to_numpy(value))
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _holds_texts(value):
    """Whether an element of a stream, or a cell of a table, holds texts or pictures.

    Examples:
        >>> _holds_texts((["a"], [1])), _holds_texts(np.array(["a"])), _holds_texts(1)
        (True, True, False)
    """
    if isinstance(value, Mapping):
        return any(map(_holds_texts, value.values()))
    if isinstance(value, list | tuple):
        return bool(value) and _holds_texts(value[0])
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return value.size > 0 and _holds_texts(value.flat[0])
    if getattr(value, "dtype", None) == "string" or hasattr(value, "getexif"):
        return True  # of TensorFlow, or an image of pillow
    is_array = isinstance(value, np.ndarray)
    return isinstance(value, str | bytes) or (is_array and value.dtype.kind in "SU")


def is_column(values: Any) -> bool:
    """Whether this is a column of Hugging Face, also of a data set without length."""
    return hasattr(values, "column_name") and hasattr(values, "source")


def _is_table(values):
    """Whether this is a table: of pandas, polars, Arrow, Hugging Face, or of lists."""
    if isinstance(values, Mapping):
        return any(map(_holds_texts, values.values()))
    if isinstance(values, type):
        return False
    return hasattr(values, "columns") or hasattr(values, "column_names")


def _features(source):
    """The types of columns of Hugging Face, also of the data set in a loader."""
    for each in (source, getattr(source, "dataset", None)):
        if isinstance(features := getattr(each, "features", None), Mapping):
            return features
    return {}


def _class_names(features, column):
    """The names of a column of `ClassLabel`, or of lists of them; else None."""
    feature = features.get(column)
    while hasattr(feature, "feature"):
        feature = feature.feature
    return getattr(feature, "names", None)


def _named(values, names, labels):
    """Indices of a `ClassLabel` as names, if the model has these labels."""
    own = not hasattr(labels, "__len__") or any(name in labels for name in names or ())
    if not names or isinstance(labels, int) or not own:
        return values
    if isinstance(values, list | tuple):
        return [_named(each, names, labels) for each in values]
    if not isinstance(values, int):
        return values
    return names[values] if values >= 0 else None  # -1 is no label


def _values(values, labels=None):
    """A column as a list; other values as they are."""
    if isinstance(values, type | Mapping):
        return values
    if _is_table(values):
        return np.asarray(_array_of(values))
    if is_column(values):
        names = _class_names(_features(values.source), values.column_name)
        return _named([_plain(value) for value in values], names, labels)
    if not hasattr(values, "to_numpy"):
        return values
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, method):
            return getattr(values, method)()
    return values.to_numpy()


def _columns(x, y, words, labels):
    """Inputs and labels, columns and tables of which become lists."""
    if isinstance(x, Mapping) and x and all(map(_is_table, x.values())):
        raise ValueError(
            "x must be one data set, received a dictionary of data sets, "
            f"{', '.join(map(repr, x))}. Choose one: data[{next(iter(x))!r}]"
        )
    if not _is_table(x):
        return _texts(_values(x, labels), words), _texts(_values(y, labels), words)
    if not len(x):
        return [], [] if y is None else _values(y, labels)
    names, features = _names_of(x), _features(x)
    samples = {name: _first_value(x[name]) for name in names}
    is_of_numbers = not any(map(_holds_texts, samples.values()))
    if is_of_numbers and not (y is None and _label_columns(names, features)):
        return _array_of(x), _values(y, labels)
    texts = names
    if y is None:
        texts, label = _chosen(samples, features)
        y = None if label is None else x[label]
    columns = [_values(x[name], labels) for name in texts]
    rows = columns[0] if len(texts) == 1 else list(zip(*columns, strict=True))
    return rows, _texts(_values(y, labels), words)


def _names_of(table):
    names = getattr(table, "column_names", getattr(table, "columns", table))
    return list(names)  # of a dictionary its keys


def _array_of(table):
    """A table of numbers as an array; of pandas as it is."""
    if hasattr(table, "to_numpy"):
        array = table.to_numpy()
        return table if array.dtype.kind != "O" and hasattr(table, "index") else array
    return np.array([_values(table[name]) for name in _names_of(table)]).T


def _first_value(column):
    """The first value of a column that is not empty."""
    for value in column:
        cell = value.as_py() if hasattr(value, "as_py") else _values(value)  # of Arrow
        if cell is not None and not isinstance(cell, float):
            return cell
    return None


def _label_columns(names, features):
    columns = [name for name in names if _class_names(features, name)]
    return columns or [name for name in names if name in LABEL_COLUMNS]


def _chosen(samples, features):
    """The columns of texts, and the one of labels, None if there are none.

    Args:
        samples: A value of each column.
        features: The types of the columns of Hugging Face, or none.

    Raises:
        ValueError: If several columns might be meant.
    """
    names = list(samples)
    label = _label_columns(names, features)
    others = [name for name in names if name not in label]
    texts = [name for name in others if _holds_texts(samples[name])]
    if not texts and len(others) == 1:
        texts = others  # of ids
    if len(label) == 1 and len(texts) == 1:
        return texts, label[0]
    if not label and len(texts) == len(names):
        return texts, None
    x, y = [*texts, *names][0], [*label, names[-1]][0]
    raise ValueError(
        "x must be a column of texts, or a table with one column of texts and one of "
        f"labels, received the columns {', '.join(map(repr, names))}. Choose columns: "
        f"x=data[{x!r}], y=data[{y!r}]"
    )


def _texts(values, words):
    """An array of strings of rank 2 as tuples; of words, or a higher rank, as lists."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "OU":
        return values
    if words or values.ndim > 2:
        return values.tolist()
    return list(map(tuple, values.tolist())) if values.ndim == 2 else values

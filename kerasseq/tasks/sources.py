"""Streams of other libraries as inputs: rows of texts, or arrays, one after the other.

What a `tf.data` set, a loader or a generator yields, in batches or row by row, becomes
lists of inputs, labels and sample weights. None of these packages is imported: their
public methods tell what an object is.
"""

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.tasks import data_checks
from kerasseq.tasks.data_checks import as_array
from kerasseq.tasks.input_rows import (
    as_mapping,
    chosen_columns,
    class_names,
    features_of,
    holds_texts,
    is_stream,
    label_columns,
    named,
    plain,
    rank,
    read_columns,
    values_of,
)

ENDLESS = 1 << 48  # more batches than any data have; grain counts up to 2^63 - 1
KNOWN: weakref.WeakSet[Any] = weakref.WeakSet()  # generators without texts
Row = tuple[Any, ...]  # an input, and its label and sample weight if there are
Labels = int | Sequence[Any] | None


def read(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    words: bool = False,
    labels: Labels = None,
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
        return read_columns(x, y, sample_weight, words=words, labels=labels)
    if not isinstance(stream, TextStream):  # of arrays, whose first batch was read
        return stream, values_of(y, labels), values_of(sample_weight)
    return stream.lists(values_of(y, labels), values_of(sample_weight), rows)


def text_stream(
    x: Any,
    *,
    words: bool = False,
    labels: Labels = None,
    is_row: Callable[[Any], bool] | None = None,
    multi_label: bool = False,
) -> Any:
    """Returns a stream of rows as a `TextStream`; None if `x` is no stream.

    Args:
        x: As for `read`.
        words: As for `read`.
        labels: As for `read`. Of rows that are arrays, indices become these names.
        is_row: Whether an array is one row, and no batch, which is left to Keras; all
            are batches if None.
        multi_label: Whether a row that is an array has 0 or 1 for each label.

    Returns:
        A `TextStream` if the first element holds texts, or one row that is an array;
        else the stream; None for rows.
    """
    if isinstance(x, TextStream):
        return x
    if not is_stream(x):
        return None
    has_strings = _has_strings(getattr(x, "element_spec", "string"))
    if x in KNOWN or not (has_strings or is_row):
        return x
    elements = elements_of(x)
    first = [*itertools.islice(elements, 1)]
    rest = itertools.chain(first, elements)
    if first and holds_texts(as_mapping(first[0])):
        return TextStream(x, rest, words, labels)
    if first and is_row is not None and is_row(_parts_of_row(first[0])[0]):
        return ArrayStream(x, rest, words, labels, multi_label=multi_label)
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
        labels: Labels,
    ) -> None:
        self.source = source
        self.elements = elements
        self.words = words
        self.labels = labels
        self.features: Any = features_of(source)

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
                "x must be a data set with an end, as its rows are read at once, "
                f"received {checks.short(self.source)}, which repeats without end. "
                "Leave .repeat() out, and pass epochs=...; or, if the model has its "
                "labels and tokenizer, pass steps_per_epoch=... to fit, "
                "validation_steps=... for validation_data, and steps=... to evaluate "
                "and predict"
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
        """Yields the rows of an element of the stream."""
        element = as_mapping(element)
        has_columns = isinstance(element, Mapping)
        chosen = chosen_columns(element, self.features) if has_columns else None
        if chosen is not None:
            texts, label = chosen
            x = tuple(element[name] for name in texts)
            parts = [x if len(texts) > 1 else x[0]]
            if label is not None:
                names = class_names(self.features, label)
                parts.append(named(plain(element[label]), names, self.labels))
        else:
            parts = _parts(element, self.words)
        x, *others = map(plain, parts)
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


class ArrayStream(TextStream):
    """The rows of a stream of arrays: ids, vectors or images, one by one.

    Labels that are indices become the names that the model has for them, so that rows
    are trained on as those of lists.

    Args:
        *args: As for `TextStream`.
        multi_label: Whether a label is an array of 0 and 1 for all labels.
    """

    def __init__(self, *args: Any, multi_label: bool = False) -> None:
        super().__init__(*args)
        self.multi_label = multi_label

    def again(self) -> "ArrayStream":
        stream = super().again()
        stream.multi_label = self.multi_label
        return stream

    def _rows_of(self, element):
        x, *others = _parts_of_row(element)
        if others:
            others[0] = self._label(plain(others[0]))
        yield as_array(x), *map(plain, others)

    def _label(self, label):
        """Returns the label of a row; a list of them for several, or for each step."""
        names = self.labels
        if isinstance(names, int):
            names = range(names)
        if names is None or self.multi_label and not isinstance(label, list):
            return label
        if self.multi_label and len(label) == len(names):
            return [name for name, is_on in zip(names, label, strict=True) if is_on]
        several = label if isinstance(label, list) else [label]
        if all(isinstance(n, int) and 0 <= n < len(names) for n in several):
            several = [names[n] for n in several]
        return several if isinstance(label, list) else several[0]


def _parts_of_row(element):
    """Returns input, label, weight, if any, of an element that may hold one row."""
    element = as_mapping(element)
    if isinstance(element, Mapping):
        labels = label_columns(element, {})
        others = [name for name in element if name not in labels]
        is_row = len(others) == 1 and len(labels) < 2
        return [element[name] for name in [*others, *labels]] if is_row else [element]
    if isinstance(element, tuple):
        return list(element)
    is_pair = isinstance(element, list) and len(element) > 0 and rank(element[0])
    return element if is_pair else [element]  # PyTorch collates pairs to lists


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
    x, *others = [list(column) for column in zip(*rows, strict=True)] or [[]]
    shapes = {np.shape(row) for row in x if isinstance(row, np.ndarray)}
    if len(shapes) == 1 and len(*shapes) > 1:
        x = np.stack(x)  # vectors or images
    return tuple([x, *others, None, None][:3])


def generator_of(elements: Iterable[Any]) -> Iterator[Any]:
    """Makes a generator, Keras' only iterator, whose first element is known."""
    generator = (element for element in elements)
    KNOWN.add(generator)
    return generator


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
    """Returns the length of a stream, `ENDLESS` if it repeats, None if unknown."""
    if isinstance(x, keras.utils.PyDataset):
        count = x.num_batches
        return ENDLESS if count is None else count
    if hasattr(x, "cardinality"):  # of tf.data: -1 without end, -2 unknown
        count = int(x.cardinality())
        return {-1: ENDLESS, -2: None}.get(count, count)
    if isinstance(x, itertools.cycle):
        return ENDLESS
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
    """Returns whether the inputs of an element are one row, and no batch."""
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
    """Returns whether inputs are columns of texts, and not rows of several texts."""
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

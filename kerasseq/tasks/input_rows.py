"""Rows of inputs: what can be rows or batches, and columns and tables as lists.

None of the packages of these tables is imported: their public methods tell what an
object is.
"""

import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks

LABEL_COLUMNS = ("label", "labels")
# Batches that `keras.Model.fit` takes, besides generators and `keras.utils.PyDataset`:
# classes of PyTorch, Grain and Hugging Face,
LOADERS = {"DataLoader", "MapDataset", "IterDataset", "IterableDataset"}
# and attributes of data sets of TensorFlow and of Keras' data adapters.
OF_DATASETS = ("element_spec", "get_numpy_iterator")


def number_of_rows(x: Any) -> int | None:
    """Returns the number of rows of lists and arrays; None for streams of batches.

    Args:
        x: A list, an array, a column or table; or several arrays in a tuple or dict.

    Examples:
        >>> number_of_rows(["a", "b"]), number_of_rows({"ids": np.ones((3, 5))})
        (2, 3)
        >>> number_of_rows(iter([])) is None
        True
    """
    if isinstance(x, Mapping):
        x = next(iter(x.values()), [])
    if isinstance(x, tuple) and x and all(hasattr(part, "shape") for part in x):
        x = x[0] if len(x[0].shape) > 1 else x  # arrays of several inputs
    shape = getattr(x, "shape", None)
    if shape is not None:
        return shape[0] if len(shape) else None
    return len(x) if isinstance(x, list | tuple) else None


def rank(x: Any) -> int | None:
    """Returns the number of axes of a tensor, array or list; None if it has no shape.

    Examples:
        >>> rank(np.ones((2, 3))), rank([[1], [2]]), rank([[1], [2, 3]]), rank({})
        (2, 2, None, None)
    """
    if isinstance(x, Mapping | str | type):
        return None
    try:
        return len(x.shape) if hasattr(x, "shape") else np.ndim(x)
    except (TypeError, ValueError):  # rows of several lengths
        return None


def is_empty_list(x: Any) -> bool:
    """Returns whether this is a list without rows, or an array made from one.

    Examples:
        >>> is_empty_list(np.array([])), is_empty_list(np.zeros((0, 5)))
        (True, False)
    """
    if isinstance(x, list | tuple):
        return not x
    return tuple(getattr(x, "shape", (1,))) == (0,)


def check_not_empty(x: Any, method: str = "fit") -> None:
    """Raises if there are no rows.

    Args:
        x: The inputs, as for `number_of_rows`.
        method: The name of the method that needs them.

    Examples:
        >>> check_not_empty([])
        Traceback (most recent call last):
        ...
        ValueError: fit needs at least one row of x, received x=[]. Check how the rows \
were read or filtered
    """
    if number_of_rows(x) == 0:
        raise ValueError(
            f"{method} needs at least one row of x, received x={checks.short(x)}. "
            "Check how the rows were read or filtered"
        )


def check_finite(name: str, values: Any) -> Any:
    """Returns an array of numbers, if none of them is NaN or infinity.

    Args:
        name: The name of the array, for the message.
        values: An array `(rows, ...)`. Integers and streams are returned as they are.

    Raises:
        ValueError: If there is one. The message names the first row that has it.

    Examples:
        >>> check_finite("x", np.array([[1.0], [np.nan], [np.inf]]))
        Traceback (most recent call last):
        ...
        ValueError: x must be finite numbers, received nan in x[1], and in 1 more row. \
Fill such values, or leave the rows out: keep = np.isfinite(x).all(axis=1)
    """
    dtype = getattr(values, "dtype", None)
    if dtype is None or "float" not in keras.backend.standardize_dtype(dtype):
        return values
    array = np.asarray(keras.ops.convert_to_numpy(values), copy=None)
    if array.dtype.kind not in "f":  # such as bfloat16, of which NumPy knows nothing
        array = array.astype("float32")
    if not array.ndim or np.isfinite(array.sum()) or np.isfinite(array).all():
        return values
    finite = np.isfinite(array).reshape(len(array), -1)
    rows = np.flatnonzero(~finite.all(axis=1))
    first = array.reshape(len(array), -1)[rows[0]][~finite[rows[0]]][0]
    others = len(rows) - 1
    more = f", and in {others} more row{'s' * (others > 1)}" if others else ""
    axes = ", ".join(map(str, range(1, array.ndim)))
    keep = f"np.isfinite({name})"
    if axes:
        keep += f".all(axis={axes if array.ndim == 2 else f'({axes})'})"
    raise ValueError(
        f"{name} must be finite numbers, received {first} in {name}[{rows[0]}]{more}. "
        f"Fill such values, or leave the rows out: keep = {keep}"
    )


def outputs_of_none(model: keras.Model, x: Any = None) -> Any:
    """Returns the outputs of a model for arrays of 0 rows: arrays of 0 rows.

    Args:
        model: A model.
        x: Its inputs, an array, or several in a tuple, list or dict. If None, one step
            of each.

    Examples:
        >>> model = keras.Sequential([keras.layers.Dense(3)])
        >>> outputs_of_none(model, np.zeros((0, 5))).shape
        (0, 3)
    """

    def of_one_row(part):
        shape = [size or 1 for size in part.shape[1:]]  # one step, if there are none
        return np.zeros((1, *shape), keras.backend.standardize_dtype(part.dtype))

    x = model.input if x is None else x
    outputs = model(keras.tree.map_structure(of_one_row, x), training=False)
    return keras.tree.map_structure(
        lambda part: keras.ops.convert_to_numpy(part)[:0], outputs
    )


def is_ids(x: Any) -> bool:
    """Returns whether inputs are an array of ids, `(rows, time)`."""
    is_table = isinstance(x, np.ndarray) and x.ndim == 2
    return is_table and np.issubdtype(x.dtype, np.integer)


def plain(value: Any) -> Any:
    """Returns tensors of bytes or numbers as plain lists of text or numbers.

    Args:
        value: A tensor, an array, a list or a tuple of them, or a cell.

    Examples:
        >>> plain(np.array([b"a", b"b"])), plain(b"a")
        (['a', 'b'], 'a')
    """
    for method in ("to_list", "tolist"):  # of ragged tensors and of arrays
        if hasattr(value, method):
            value = getattr(value, method)()
    if isinstance(value, list):
        return list(map(plain, value))
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if keras.ops.is_tensor(value):
        return plain(keras.ops.convert_to_numpy(value))
    return value.decode("utf-8") if isinstance(value, bytes) else value


def holds_texts(value: Any) -> bool:
    """Returns whether an element of a stream, or a cell, holds texts or pictures.

    Examples:
        >>> holds_texts((["a"], [1])), holds_texts(np.array(["a"])), holds_texts(1)
        (True, True, False)
    """
    if isinstance(value, Mapping):
        return any(map(holds_texts, value.values()))
    if isinstance(value, list | tuple):
        return bool(value) and holds_texts(value[0])
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return value.size > 0 and holds_texts(value.flat[0])
    if getattr(value, "dtype", None) == "string" or hasattr(value, "getexif"):
        return True  # of TensorFlow, or an image of pillow
    is_array = isinstance(value, np.ndarray)
    return isinstance(value, str | bytes) or (is_array and value.dtype.kind in "SU")


def is_column(values: Any) -> bool:
    """Returns whether this is a column of Hugging Face, also without a length."""
    return hasattr(values, "column_name") and hasattr(values, "source")


def is_table(values: Any) -> bool:
    """Returns whether this is a table of pandas, polars, Arrow, Hugging Face or lists.

    Raises:
        TypeError: If it is a table that polars has yet to read.
    """
    if isinstance(values, Mapping):
        return any(map(holds_texts, values.values()))
    if isinstance(values, type):
        return False
    check_is_read(values)
    return hasattr(values, "columns") or hasattr(values, "column_names")


def check_is_read(values: Any) -> None:
    """Raises if polars has yet to read a table."""
    if all(hasattr(type(values), name) for name in ("collect", "collect_schema")):
        raise TypeError(
            "x must be a table in memory, received a LazyFrame. Pass x.collect(), or "
            "x.collect_batches(), which reads a part at a time"
        )


def as_mapping(element: Any) -> Any:
    """Returns a table as a dictionary of lists; others as they are.

    Args:
        element: A part of a table, as readers of pandas and Arrow yield them, or what
            another stream yields.
    """
    if isinstance(element, Mapping) or not is_table(element):
        return element
    return {name: values_of(element[name]) for name in names_of(element)}


def features_of(source: Any) -> Mapping[str, Any]:
    """Returns the types of columns of Hugging Face, also of data in a loader."""
    for each in (source, getattr(source, "dataset", None)):
        if isinstance(features := getattr(each, "features", None), Mapping):
            return features
    return {}


def class_names(features: Mapping[str, Any], column: str) -> list[str] | None:
    """Returns the names of a column of `ClassLabel`, or of lists of them; else None."""
    feature = features.get(column)
    while hasattr(feature, "feature"):
        feature = feature.feature
    return getattr(feature, "names", None)


def named(values: Any, names: Sequence[str] | None, labels: Any) -> Any:
    """Returns indices of a `ClassLabel` as names, if the model has these labels.

    Args:
        values: An index, or a list of them.
        names: The names of the `ClassLabel`, or None.
        labels: The labels of the model: their number, their names, or None.
    """
    own = not hasattr(labels, "__len__") or any(name in labels for name in names or ())
    if not names or isinstance(labels, int) or not own:
        return values
    if isinstance(values, list | tuple):
        return [named(each, names, labels) for each in values]
    if not isinstance(values, int):
        return values
    return names[values] if values >= 0 else None  # -1 is no label


def values_of(values: Any, labels: Any = None) -> Any:
    """Returns a column as a list; other values as they are.

    Args:
        values: A column of pandas, polars, Arrow or Hugging Face.
        labels: As for `named`.
    """
    if isinstance(values, type | Mapping):
        return values
    if is_table(values):
        return in_order_of(labels, values, np.asarray(array_of(values)))
    if is_column(values):
        names = class_names(features_of(values.source), values.column_name)
        return named([plain(value) for value in values], names, labels)
    if not hasattr(values, "to_numpy"):
        return values
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, method):
            return getattr(values, method)()
    return values.to_numpy()


def in_order_of(labels: Any, table: Any, array: np.ndarray) -> np.ndarray:
    """Returns the array of a table with a column for each label, in their order.

    Args:
        labels: As for `named`.
        table: The table. Its columns stay in their order if they are not the labels.
        array: Its values, `(rows, columns)`.
    """
    names = names_of(table)
    if not hasattr(labels, "__len__") or sorted(map(str, names)) != sorted(
        map(str, labels)
    ):
        return array
    place = {str(name): n for n, name in enumerate(names)}
    return array[:, [place[str(label)] for label in labels]]


def names_of(table: Any) -> list[str]:
    """Returns the names of the columns of a table."""
    names = getattr(table, "column_names", getattr(table, "columns", table))
    return list(names)  # of a dictionary its keys


def array_of(table: Any) -> Any:
    """Returns a table of numbers as an array; of pandas as it is."""
    if hasattr(table, "to_numpy"):
        array = table.to_numpy()
        return table if array.dtype.kind != "O" and hasattr(table, "index") else array
    return np.array([values_of(table[name]) for name in names_of(table)]).T


def first_value(column: Any) -> Any:
    """Returns the first value of a column that is not empty."""
    for value in column:
        cell = (
            value.as_py() if hasattr(value, "as_py") else values_of(value)
        )  # of Arrow
        if cell is not None and not isinstance(cell, float):
            return cell
    return None


def label_columns(names: Iterable[str], features: Mapping[str, Any]) -> list[str]:
    """Returns the columns of labels, of a type or with a name that says so."""
    columns = [name for name in names if class_names(features, name)]
    return columns or [name for name in names if name in LABEL_COLUMNS]


def chosen_columns(
    samples: Mapping[str, Any], features: Mapping[str, Any]
) -> tuple[list[str], str | None]:
    """Returns the columns of texts, and the one of labels, None if there are none.

    Args:
        samples: A value of each column.
        features: The types of the columns of Hugging Face, or none.

    Raises:
        ValueError: If several columns might be meant.
    """
    names = list(samples)
    label = label_columns(names, features)
    others = [name for name in names if name not in label]
    texts = [name for name in others if holds_texts(samples[name])]
    if not texts and len(others) == 1:
        texts = others  # of ids
    if len(label) == 1 and len(texts) == 1:
        return texts, label[0]
    if not label and len(texts) == len(names):
        return texts, None
    x = max(texts or names, key=lambda name: len(str(samples[name])))
    y = [*label, *(name for name in reversed(texts) if name != x), names[-1]][0]
    raise ValueError(
        "x must be a column of texts, or a table with one column of texts and one of "
        f"labels, received the columns {', '.join(map(repr, names))}. Choose columns: "
        f"x=data[{x!r}], y=data[{y!r}]"
    )


def are_batches(x: Any) -> bool:
    """Returns whether this gives batches one after the other, such as a `tf.data` set.

    Examples:
        >>> are_batches(each for each in [1]), are_batches([1])
        (True, False)
    """
    if isinstance(x, types.GeneratorType | keras.utils.PyDataset):
        return True
    if any(hasattr(x, name) for name in ("__next__", *OF_DATASETS)):
        return True
    return any(each.__name__ in LOADERS for each in type(x).__mro__)


def check_data(x: Any, name: str = "x") -> None:
    """Raises unless inputs have rows, or are batches.

    Args:
        x: A list, an array of rank 1 or more, a column, a table, a dictionary of
            arrays, batches, or one text.
        name: The name of the argument, for the message.

    Raises:
        TypeError: If they are something else.

    Examples:
        >>> check_data(["a", "b"])
        >>> check_data(3)
        Traceback (most recent call last):
        ...
        TypeError: x must be a list, an array (rows, ...), a column of a table or \
batches, received 3. Put a single row into a list, [row]
    """
    if not _is_data(x):
        raise TypeError(
            f"{name} must be a list, an array (rows, ...), a column of a table or "
            f"batches, received {checks.short(x)}. Put a single row into a list, [row]"
        )


def is_stream(x: Any) -> bool:
    """Returns whether data come one after the other, also as an `IterableDataset`."""
    if isinstance(x, type | str | Mapping) or is_column(x):
        return False
    return are_batches(x)


def read_columns(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    words: bool = False,
    labels: Any = None,
) -> tuple[Any, Any, Any]:
    """Returns inputs, labels and sample weights that are no stream, as `sources.read`.

    Args:
        x: A column, a table, a list or an array.
        y: Labels; None if a table has them.
        sample_weight: A weight for each row, or None.
        words: Whether a row is a list of words with a list of labels.
        labels: As for `named`.
    """
    x, y = _columns(x, y, words, labels)
    check_data(x)
    return x, y, values_of(sample_weight)


def _columns(x, y, words, labels):
    """Inputs and labels, columns and tables of which become lists."""
    if isinstance(x, Mapping) and x and all(map(is_table, x.values())):
        raise ValueError(
            "x must be one data set, received a dictionary of data sets, "
            f"{', '.join(map(repr, x))}. Choose one: data[{next(iter(x))!r}]"
        )
    if not is_table(x):
        return _texts(values_of(x, labels), words), _texts(values_of(y, labels), words)
    if not len(x):
        return [], [] if y is None else values_of(y, labels)
    names, features = names_of(x), features_of(x)
    samples = {name: first_value(x[name]) for name in names}
    is_of_numbers = not any(map(holds_texts, samples.values()))
    if is_of_numbers and not (y is None and label_columns(names, features)):
        return array_of(x), values_of(y, labels)
    texts = names
    if y is None:
        texts, label = chosen_columns(samples, features)
        y = None if label is None else x[label]
    columns = [values_of(x[name], labels) for name in texts]
    rows = columns[0] if len(texts) == 1 else list(zip(*columns, strict=True))
    return rows, _texts(values_of(y, labels), words)


def _texts(values, words):
    """Returns tuples for strings of rank 2; for words, or a higher rank, lists."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "OU":
        return values
    of_lists = values.size and isinstance(values.flat[0], list | tuple | np.ndarray)
    if words or of_lists or values.ndim > 2:
        return values.tolist()
    return list(map(tuple, values.tolist())) if values.ndim == 2 else values


def _is_data(x):
    if isinstance(x, type):
        return False
    if isinstance(x, Mapping):
        return bool(x) and all(map(_has_rows, x.values()))
    return isinstance(x, str) or _has_rows(x) or are_batches(x)


def _has_rows(x):
    shape = getattr(x, "shape", None)
    if shape is not None:
        return len(shape) > 0
    return isinstance(x, list | tuple) or hasattr(x, "to_numpy")

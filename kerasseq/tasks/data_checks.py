"""Checks of what users pass as data: inputs, labels and sample weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.core.ids import check_ids
from kerasseq.core.messages import are_messages
from kerasseq.core.padding import pad_rows
from kerasseq.tasks.input_rows import (
    are_batches,
    check_data,
    check_finite,
    number_of_rows,
)
from kerasseq.tasks.labels import plain_list


def check_arrays(x: Any) -> None:
    """Raises if inputs are neither arrays of finite numbers nor batches."""
    check_data(x)
    if are_batches(x):
        return
    for part in keras.tree.flatten(x):
        if not hasattr(part, "dtype"):
            continue  # lists, which Keras converts
        dtype = keras.backend.standardize_dtype(part.dtype)
        if dtype.startswith("complex"):
            raise TypeError(f"x must be an array of real numbers, received {dtype}")
        check_finite("x", part)


def sample_weights(given: Any, rows: int, steps: int | None = None) -> Any:
    """Returns the weights of rows as float32, checked; None if there are none.

    Args:
        given: A number for each row; or an array `(rows, steps)`.
        rows: Number of rows.
        steps: Number of steps of all rows, if steps may have weights.

    Raises:
        TypeError: If they are not numbers.
        ValueError: If their shape is wrong, or one is NaN or infinity.

    Examples:
        >>> sample_weights([1, 2], 2).tolist()
        [1.0, 2.0]
        >>> sample_weights([1, 2], 3)
        Traceback (most recent call last):
        ...
        ValueError: sample_weight must have a number for each of 3 rows, received 2 \
in [1, 2]
    """
    if given is None:
        return None
    weights = number_array("sample_weight", given)
    shapes = [(rows,), (rows, 1)]
    if steps is not None:
        shapes.append((rows, steps))
    if weights.shape not in shapes:
        also = "" if steps is None else f", or be an array ({rows}, {steps})"
        count = len(weights) if weights.ndim == 1 else f"the shape {weights.shape}"
        raise ValueError(
            f"sample_weight must have a number for each of {rows} rows{also}, received "
            f"{count} in {checks.short(given)}"
        )
    check_finite("sample_weight", weights)
    return weights[:, 0] if weights.shape == (rows, 1) and steps != 1 else weights


def array_weights(x: Any, sample_weight: Any) -> Any:
    """Returns sample weights for Keras, lists as arrays, or None.

    Args:
        x: Arrays, one or several, or batches.
        sample_weight: A weight for each of their rows, or more of several outputs.

    Raises:
        TypeError: If they are not numbers.
        ValueError: If they are not as many as the rows, or not finite.

    Examples:
        >>> array_weights(np.zeros((2, 3)), [1, 2]).tolist()
        [1.0, 2.0]
        >>> array_weights(np.zeros((2, 3)), [1, 2, 3])
        Traceback (most recent call last):
        ...
        ValueError: sample_weight must have a number for each of 2 rows, received 3 \
in array([1., 2., 3.], dtype=float32)
    """
    is_list = isinstance(sample_weight, list | tuple)
    if isinstance(sample_weight, str) or (is_list and not _are_arrays(sample_weight)):
        sample_weight = number_array("sample_weight", sample_weight)
    rows = number_of_rows(tuple(x) if isinstance(x, list) and _are_arrays(x) else x)
    for part in keras.tree.flatten(sample_weight):
        shape = tuple(getattr(part, "shape", ()))
        if rows is not None and shape and shape[0] != rows and not are_batches(x):
            raise ValueError(
                f"sample_weight must have a number for each of {rows} rows, received "
                f"{shape[0]} in {checks.short(part)}"
            )
        check_finite("sample_weight", part)
    return sample_weight


def _are_arrays(parts):
    return all(hasattr(part, "shape") for part in parts)


def product_of_weights(weights: Any, given: np.ndarray | None) -> Any:
    """Returns weights of rows or steps, times the given weight of each row.

    Args:
        weights: An array, or a list of arrays `(time,)`; None for 1.
        given: `(rows,)`; None for 1.

    Examples:
        >>> product_of_weights(np.ones((2, 3)), np.array([1, 2])).sum(axis=1).tolist()
        [3.0, 6.0]
    """
    if weights is None or given is None:
        return given if weights is None else weights
    if isinstance(weights, list):
        return [w * row for w, row in zip(weights, given, strict=True)]
    return weights * given.reshape(*given.shape, *[1] * (weights.ndim - given.ndim))


def number_array(name: str, values: Any) -> np.ndarray:
    """Returns real numbers of a list, an array or a tensor as float32.

    Args:
        name: The name of the argument, for messages.
        values: The numbers.

    Raises:
        TypeError: If they are something else.

    Examples:
        >>> number_array("x", ["a"])
        Traceback (most recent call last):
        ...
        TypeError: x must be an array of real numbers, received ['a']
    """
    if keras.ops.is_tensor(values):
        values = keras.ops.convert_to_numpy(values)
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O" and array.ndim:  # such as of a table
            array = array.astype("float64")
    except (TypeError, ValueError):
        array = np.array("")  # of several lengths
    is_number = array.dtype.kind in "biuf" or "float" in array.dtype.name
    if isinstance(values, str | bytes | Mapping) or not is_number:
        raise TypeError(
            f"{name} must be an array of real numbers, received {checks.short(values)}"
        )
    with np.errstate(over="ignore"):  # infinity, which `check_finite` finds
        return array.astype("float32")


def array_rows(
    x: Any,
    vocabulary_size: int | None,
    padding: int = 0,
    features: int | None = None,
    name: str | None = None,
) -> Any:
    """Returns ids or vectors as a model reads them, and other inputs as they are.

    Args:
        x: Ids, a list of rows or an array `(rows, time)`; or vectors `(rows, time,
            features)`.
        vocabulary_size: Number of ids, padding included; None for vectors.
        padding: The id of padding.
        features: The number of features of vectors.
        name: The name of the input of the model, for a dictionary.

    Returns:
        A list of rows of ids; an array of ids, padded to one of a few lengths; or an
        array of vectors.

    Raises:
        TypeError: If a row is neither ids nor vectors.
        ValueError: If an id is out of range, a number is not finite, sequences of
            vectors have several lengths, or the shape is wrong.

    Examples:
        >>> array_rows(np.array([[2, 1]]), 3)[:, :3].tolist()
        [[2, 1, 0]]
    """
    if isinstance(x, Mapping):
        x = _only_part(x, name)
    if are_batches(x):
        return x
    if hasattr(x, "to_numpy"):
        x = np.asarray(x)
    elif keras.ops.is_tensor(x):
        x = keras.ops.convert_to_numpy(x)
    if vocabulary_size is None:
        return _vectors(x, features)
    if isinstance(x, list | tuple) and any(map(_has_length, x)):
        return id_rows(x, vocabulary_size)
    return _id_array(x, vocabulary_size, padding)


def _id_array(x, vocabulary_size, padding):
    """Returns an array of ids, padded to one of a few lengths."""
    array = np.asarray(x)
    if array.ndim != 2:
        raise TypeError(
            "x must be rows of ids, lists of whole numbers or an array (rows, time), "
            f"received the shape {array.shape}: {checks.short(x)}. For one row: [ids]"
        )
    if not array.size:
        array = np.zeros(array.shape, "int32")
    check_ids(array, "x", "vocabulary_size", vocabulary_size)
    return pad_rows(array, padding)


def _only_part(x, name):
    if name is not None and set(x) != {name}:
        raise ValueError(
            f"x must be a dictionary of {name!r} alone, received {checks.short(x)}"
        )
    return next(iter(x.values()))


def _has_length(row):
    return hasattr(row, "__len__") and not isinstance(row, type)


def _vectors(x, features):
    """Sequences of vectors, all of one length, as an array."""
    if isinstance(x, list | tuple) and as_array(x) is None:
        raise ValueError(
            "x must be an array (rows, time, features), with sequences of one length, "
            f"received a list of several lengths, {checks.short(x)}. Pad them, and "
            "name the value of the padding with mask_value="
        )
    array = x if hasattr(x, "dtype") else number_array("x", x)
    shape = tuple(array.shape)
    if len(shape) != 3 or features not in (None, shape[-1]):
        raise ValueError(
            f"x must be an array (rows, time, features={features}), received the shape "
            f"{shape}. For one sequence: x[None]"
        )
    if keras.backend.standardize_dtype(array.dtype).startswith(("complex", "str")):
        number_array("x", array)
    return check_finite("x", array)


def id_rows(x: Sequence[Any], size: int) -> list[np.ndarray]:
    """Returns rows of ids as int32 arrays, checked.

    Args:
        x: Lists or arrays of ids.
        size: The number of ids.

    Raises:
        TypeError: If a row is something else.
        ValueError: If an id is out of range.

    Examples:
        >>> id_rows([[1, 2], 3], 5)
        Traceback (most recent call last):
        ...
        TypeError: x[1] must be a list of ids, whole numbers, received 3
    """
    return [id_row(row, size, f"x[{n}]") for n, row in enumerate(x)]


def id_row(row: Any, size: int, name: str) -> np.ndarray:
    """Returns one row of ids as an int32 array, checked; see `id_rows`."""
    ids = as_array(row)
    is_row = ids is not None and ids.ndim == 1 and not isinstance(row, Mapping | set)
    if not is_row or (ids.size and ids.dtype.kind not in "iu"):
        raise TypeError(
            f"{name} must be a list of ids, whole numbers, received {checks.short(row)}"
        )
    check_ids(ids, name, "vocabulary_size", size)
    return ids.astype("int32")


def check_id_arrays(x: Any) -> None:
    """Raises unless these are arrays of ids, `(rows, time)`, or batches.

    Args:
        x: One array, or several in a tuple, list or dictionary.

    Raises:
        TypeError: If they are something else.

    Examples:
        >>> check_id_arrays(np.ones((2, 3), int))
        >>> check_id_arrays([[]])
        Traceback (most recent call last):
        ...
        TypeError: x must be a text, a list of texts, a file, ids (tokens,) or an \
array of ids (rows, time), received [[]]
    """
    if isinstance(x, str):
        raise TypeError(
            "a text has its targets in itself: y must be None, or with a list of "
            "prompts the list of their answers"
        )
    if are_messages(x):
        raise TypeError("a conversation must stand in a list of them, as in [messages]")
    check_data(x)
    several = isinstance(x, list | tuple | Mapping)
    parts = [*(x.values() if isinstance(x, Mapping) else x)] if several else [x]
    if not are_batches(x) and not all(map(_is_matrix, parts)):
        raise TypeError(
            "x must be a text, a list of texts, a file, ids (tokens,) or an array of "
            f"ids (rows, time), received {checks.short(x)}"
        )


def check_targets(x: Any, y: Any) -> None:
    """Raises if rows of ids come without targets, which batches may have."""
    if y is None and not are_batches(x):
        raise ValueError(
            "expected targets y for rows of ids, received y=None and "
            f"x={checks.short(x)}. For one text, pass its ids (tokens,)"
        )


def _is_matrix(part):
    array = as_array(part)
    return array is not None and array.ndim == 2


def as_array(values: Any) -> np.ndarray | None:
    """Returns an array; None for lists of several lengths, which are no array.

    Examples:
        >>> as_array([[1], [2, 3]]) is None, as_array([1, 2]).shape
        (True, (2,))
    """
    if keras.ops.is_tensor(values):
        return keras.ops.convert_to_numpy(values)
    try:
        return np.asarray(values)
    except (TypeError, ValueError):
        return None


def check_labels_of_batch(first: Sequence[Any]) -> None:
    """Raises if the labels of a batch of arrays are names.

    Args:
        first: The first batch of a stream, in a list; or nothing.

    Examples:
        >>> check_labels_of_batch([(np.zeros((2, 3)), ["cat", "dog"])])
        Traceback (most recent call last):
        ...
        ValueError: labels of batches of arrays must be indices, received ['cat', \
'dog']. Convert them by labels.index(name), or pass lists of inputs and labels
    """
    for batch in first:
        if not isinstance(batch, list | tuple) or len(batch) < 2:
            continue
        labels, cells = batch[1], [batch[1]]
        if isinstance(labels, list | tuple | np.ndarray):
            cells = np.asarray(labels, "O").reshape(-1)[:1]
        if any(isinstance(cell, str | bytes) for cell in cells):
            raise ValueError(
                "labels of batches of arrays must be indices, received "
                f"{checks.short(labels)}. Convert them by labels.index(name), or pass "
                "lists of inputs and labels"
            )


def check_labels_of_rows(y: Any, rows: int, name: str = "y") -> None:
    """Raises unless there is something for each row.

    Args:
        y: Labels.
        rows: Number of rows.
        name: The name of the argument, for the message.

    Raises:
        TypeError: If they are no list and no array.
        ValueError: If there are more or fewer.

    Examples:
        >>> check_labels_of_rows(["a"], 2)
        Traceback (most recent call last):
        ...
        ValueError: x and y must have the same number of rows, received 2 and 1: y=['a']
    """
    if isinstance(y, str | bytes):
        plain_list(y, name)  # says that its letters would be the labels
    is_one = isinstance(y, Mapping | set | type)
    count = None if is_one else number_of_rows(y)
    if count is None and hasattr(y, "to_numpy") and not is_one:
        count = len(y)
    if count is None:
        raise TypeError(
            f"{name} must be a list of labels or an array, received {checks.short(y)}"
        )
    if count != rows:
        raise ValueError(
            f"x and {name} must have the same number of rows, received {rows} and "
            f"{count}: {name}={checks.short(y)}"
        )

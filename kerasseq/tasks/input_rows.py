"""Rows of inputs: how many there are, whether they are finite, and what none give."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks


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

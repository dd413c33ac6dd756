"""Argument checks shared by the text tools: each one names what is wrong.

They stand alone, so that `kerasseq.text` needs nothing but NumPy.
"""

import operator

import numpy as np


def whole_number(name: str, value, *, at_least: int) -> int:
    """Return `value` as an int, or say why it is not one that will do.

    Args:
        name: The argument's name, for the message.
        value: What the caller passed.
        at_least: The smallest value allowed.

    Returns:
        The value as a plain `int`.

    Raises:
        TypeError: If `value` is not a whole number.
        ValueError: If it is below `at_least`.

    Examples:
        >>> whole_number("n", 3, at_least=1)
        3
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"`{name}` must be a whole number, got {value!r}.")
    if number < at_least:
        raise ValueError(f"`{name}` must be at least {at_least}, got {number}.")
    return number


def id_array(ids, size: int, *, name: str = "ids") -> np.ndarray:
    """Return `ids` as one row of int64, all within a vocabulary.

    Args:
        ids: A list, array or tensor of whole numbers with one axis.
        size: The vocabulary's size: ids run from 0 to `size - 1`.
        name: The argument's name, for the message.

    Returns:
        An int64 array of shape `(time,)`.

    Raises:
        TypeError: If the ids are not whole numbers.
        ValueError: If there is not exactly one axis, or an id is outside the range.

    Examples:
        >>> id_array([2, 0], 3)
        array([2, 0])
    """
    array = np.asarray(ids)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(
            f"`{name}` must be whole numbers, got dtype {array.dtype}. A "
            "tokenizer's `encode` turns text into ids."
        )
    if array.ndim != 1:
        raise ValueError(
            f"`{name}` must be one row of ids, got an array of shape {array.shape}. "
            "Pass one sequence at a time."
        )
    outside = (array < 0) | (array >= size)
    if outside.any():
        position = int(outside.argmax())
        raise ValueError(
            f"`{name}` holds {array[position]} at position {position}, outside the "
            f"vocabulary: ids run from 0 to {size - 1}."
        )
    return array.astype("int64")

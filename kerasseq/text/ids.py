"""Ids as the text tools take them, or a message that says what is wrong with them."""

import numpy as np

from kerasseq.core.checks import short


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
    try:
        array = np.asarray(ids)
    except ValueError as error:  # rows of unequal lengths
        raise ValueError(
            f"`{name}` must be one row of ids, got {short(ids)}. Pass one sequence at "
            "a time."
        ) from error
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(
            f"`{name}` must be whole numbers, got {short(ids)} of {array.dtype}. A "
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

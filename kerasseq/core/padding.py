"""Rows of unequal length as one array, in few lengths, as each new one is compiled."""

from collections.abc import Sequence

import numpy as np

# The ids that models of pairs keep for themselves, before all tokens.
PADDING, START, END = 0, 1, 2
FIRST = 3  # the first id of a token


def bucket(length: int) -> int:
    """Rounds a length up to one of a few: multiples of 8, then four to each doubling.

    Rows without steps get steps of padding, as recurrent layers need one.

    Examples:
        >>> [bucket(n) for n in (0, 8, 9, 24, 65, 100, 1000)]
        [8, 8, 16, 24, 80, 112, 1024]
    """
    length = max(length, 1)
    step = max(8, 1 << max((length - 1).bit_length() - 3, 0))
    return -(-length // step) * step


def pad_rows(rows: np.ndarray | Sequence[Sequence[int]], value: int = 0) -> np.ndarray:
    """Fills rows of ids on the right with `value`, up to a `bucket`.

    Args:
        rows: Array `(rows, time)`, or a list of sequences of unequal length.
        value: The id of padding.

    Returns:
        Array of int32, `(rows, bucket)`.

    Examples:
        >>> pad_rows([[3, 1], [2]])[:, :3].tolist()
        [[3, 1, 0], [2, 0, 0]]
    """
    if isinstance(rows, np.ndarray):
        padded = np.full((len(rows), bucket(rows.shape[1])), value, "int32")
        padded[:, : rows.shape[1]] = rows
        return padded
    longest = max((len(row) for row in rows), default=1)
    padded = np.full((len(rows), bucket(longest)), value, "int32")
    for row, ids in enumerate(rows):
        padded[row, : len(ids)] = ids
    return padded


def padded(
    rows: Sequence[Sequence[float] | np.ndarray],
    length: int | None = None,
    dtype: str = "int32",
    value: float = 0,
) -> np.ndarray:
    """Fills rows on the right with a value, up to a length, or that of the longest."""
    length = length or max(map(len, rows))
    array = np.full((len(rows), length), value, dtype)
    for place, values in zip(array, rows, strict=True):
        place[: len(values)] = values
    return array

"""Ids in several files as one array, of which the slices that are used are read."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.core.checks import short


class JoinedIds:
    """Arrays of ids, one after the other, as one array `(tokens,)` of int32.

    A slice is another `JoinedIds`, and reads nothing; `np.asarray` reads it.

    Args:
        arrays: Arrays of integers, of one dimension, also memory-mapped ones.

    Examples:
        >>> ids = JoinedIds([np.arange(3), np.arange(3, 7)])
        >>> len(ids), ids[2], np.asarray(ids[1:5]).tolist()
        (7, 2, [1, 2, 3, 4])
    """

    ndim: int = 1
    dtype: np.dtype[np.int32] = np.dtype("int32")

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self._arrays = list(arrays)
        lengths = [len(array) for array in self._arrays]
        self._starts = np.concatenate([[0], np.cumsum(lengths, dtype="int64")])

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, slice):
            first = range(len(self))[key]  # which raises for one outside
            return int(np.asarray(self[first : first + 1])[0])
        start, stop, step = key.indices(len(self))
        if step != 1:
            raise ValueError(f"a slice of ids must have step 1, received {short(key)}")
        if start >= stop:
            return JoinedIds([])
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        parts = [
            array[max(start - begin, 0) : stop - begin]
            for array, begin in zip(
                self._arrays[first:last], self._starts[first:last].tolist(), strict=True
            )
        ]
        return JoinedIds(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("ids in files cannot be read without a copy")
        parts = [np.zeros(0, self.dtype), *self._arrays]
        return np.concatenate(parts, dtype=dtype or self.dtype, casting="unsafe")

    def __repr__(self) -> str:
        return f"<JoinedIds: {len(self):,} ids>"

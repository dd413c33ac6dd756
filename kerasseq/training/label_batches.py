"""Batches of rows of ids with labels, padded to a few lengths, as each is compiled."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import numpy as np

from kerasseq.core.padding import bucket
from kerasseq.training.batches import GroupedBatches, padded

Row: TypeAlias = Sequence[int] | np.ndarray
# Inputs, labels and, if there are any, sample weights.
LabelArrays: TypeAlias = tuple[np.ndarray, ...]


class LabelBatches(GroupedBatches):
    """Batches of rows with a label, or one for each id, for training.

    Args:
        rows: Ids, a list of integer arrays `(time,)` of any lengths.
        y: Array of labels `(rows, ...)`; or a list of labels of each id, `(time,)`.
        weights: Sample weights, in the form of `y`; or None.
        batch_size: Rows in a batch.
        seed: Seed of the order.
        groups: Maximum number of lengths.
        padding: The id of padding.

    Raises:
        ValueError: If there are no rows, or the numbers of rows and labels differ.

    Examples:
        >>> batches = LabelBatches([[7], [7, 8]], np.array([0, 1]), batch_size=1)
        >>> x, y = batches.batch(0)
        >>> x.shape[0], y.shape
        (1, (1,))
    """

    def __init__(
        self,
        rows: Sequence[Row],
        y: np.ndarray | Sequence[Row],
        weights: np.ndarray | Sequence[np.ndarray] | None = None,
        batch_size: int = 32,
        seed: int = 0,
        groups: int = 3,
        padding: int = 0,
    ) -> None:
        check_rows(rows, y)
        lengths = np.array([len(row) for row in rows])[:, None]
        super().__init__(lengths, batch_size, seed, groups)
        self.inputs = rows
        self.y = y
        self.weights = weights
        self.padding = padding

    def take(self, rows: np.ndarray) -> LabelArrays:
        (length,) = self.shape_of(rows)
        data = self.inputs, self.y, self.weights
        return arrays_of(*data, rows, length, self.padding)


class TrimmedBatches(GroupedBatches):
    """Batches of padded arrays with labels, cut to a few lengths.

    Args:
        x: Dictionary of arrays `(rows, ..., time)`, padded on the right.
        y: Array of labels `(rows, ...)`, or a dictionary of arrays.
        weights: Sample weights, in the form of `y`; or None.
        lengths: `(rows,)`, the length of each row without padding.
        per_step: Whether labels and weights are `(rows, time)`.
        batch_size: Rows in a batch.
        seed: Seed of the order.
        groups: Maximum number of lengths.

    Examples:
        >>> x = {"ids": np.array([[7, 0, 0], [7, 8, 9]])}
        >>> lengths = real_lengths(x["ids"], padding=0)
        >>> batches = TrimmedBatches(x, np.array([0, 1]), None, lengths, batch_size=1)
        >>> sorted(batches.batch(n)[0]["ids"].shape for n in range(2))
        [(1, 1), (1, 3)]
    """

    def __init__(
        self,
        x: dict[str, np.ndarray],
        y: Any,
        weights: Any,
        lengths: np.ndarray,
        *,
        per_step: bool = False,
        batch_size: int = 32,
        seed: int = 0,
        groups: int = 3,
    ) -> None:
        super().__init__(lengths[:, None], batch_size, seed, groups)
        self.x = x
        self.y = y
        self.weights = weights
        self.per_step = per_step

    def take(self, rows: np.ndarray) -> tuple[Any, ...]:
        (length,) = self.shape_of(rows)
        data = self.x, self.y, self.weights
        return trimmed(*data, rows, length, self.per_step)


class SortedArrays(keras.utils.PyDataset):
    """All rows of padded arrays once, for evaluation, in the order of `longest_first`.

    Args:
        x: As for `TrimmedBatches`, like the next four.
        y: Labels; None to predict.
        weights: Sample weights, or None.
        lengths: The length of each row.
        per_step: Whether labels and weights are `(rows, time)`.
        batch_size: Rows in a batch.
    """

    def __init__(
        self,
        x: dict[str, np.ndarray],
        y: Any,
        weights: Any,
        lengths: np.ndarray,
        *,
        per_step: bool = False,
        batch_size: int = 32,
    ) -> None:
        super().__init__()
        self.x = x
        self.y = y
        self.weights = weights
        self.lengths = lengths
        self.per_step = per_step
        self.batch_size = batch_size
        self.order: np.ndarray = longest_first(lengths, batch_size)

    def __len__(self) -> int:
        return -(-len(self.order) // self.batch_size)

    def __getitem__(self, number: int) -> Any:
        rows = self.order[number * self.batch_size :][: self.batch_size]
        length = bucket(int(self.lengths[rows].max()))
        data = self.x, self.y, self.weights
        return trimmed(*data, rows, length, self.per_step)


def longest_first(lengths: Sequence[int] | np.ndarray, batch_size: int) -> np.ndarray:
    """Returns the order of rows: the longest batch, then the others by their length.

    A compiling backend compares the first two batches to find dynamic axes. They are
    the longest and the shortest, and differ if any two batches do.

    Args:
        lengths: The length of each row.
        batch_size: Rows in a batch.

    Examples:
        >>> longest_first([1, 3, 9, 5, 7], batch_size=2).tolist()
        [4, 2, 0, 1, 3]
    """
    order = np.argsort(lengths, kind="stable")
    return np.concatenate([order[-batch_size:], order[:-batch_size]])


def trimmed(
    x: dict[str, np.ndarray],
    y: Any,
    weights: Any,
    rows: np.ndarray,
    length: int,
    per_step: bool,
) -> tuple[Any, ...]:
    """Returns some rows of padded arrays: inputs, labels and sample weights, cut."""

    def whole(values):
        return values[rows]

    def cut(values):
        return values[rows][..., :length]

    labels = cut if per_step else whole
    found = [keras.tree.map_structure(cut, x)]
    if y is not None:
        found.append(keras.tree.map_structure(labels, y))
    if weights is not None:
        found.append(keras.tree.map_structure(labels, weights))
    return tuple(found)


def real_lengths(ids: np.ndarray, padding: int) -> np.ndarray:
    """Returns the number of ids up to the last that is not padding.

    Args:
        ids: `(rows, ..., time)`; of several sequences in a row, the longest counts.
        padding: The id of padding.

    Examples:
        >>> real_lengths(np.array([[7, 0, 8, 0], [7, 0, 0, 0]]), padding=0).tolist()
        [3, 1]
    """
    real = (ids != padding).reshape(len(ids), -1, ids.shape[-1]).any(axis=1)
    return np.maximum(np.where(real, np.arange(1, ids.shape[-1] + 1), 0).max(axis=1), 1)


class SortedBatches(keras.utils.PyDataset):
    """All rows once, for evaluation; rows of ids in the order of `longest_first`.

    Args:
        rows: Ids, a list of integer arrays `(time,)` of any lengths; or an array
            `(rows, ...)` of any inputs.
        y: As for `LabelBatches`.
        weights: As for `LabelBatches`.
        batch_size: Rows in a batch.
        padding: The id of padding.
    """

    def __init__(
        self,
        rows: Sequence[Row] | np.ndarray,
        y: np.ndarray | Sequence[Row],
        weights: np.ndarray | Sequence[np.ndarray] | None = None,
        batch_size: int = 32,
        padding: int = 0,
    ) -> None:
        super().__init__()
        check_rows(rows, y)
        self.rows = rows
        self.y = y
        self.weights = weights
        self.batch_size = batch_size
        self.padding = padding
        self.order: np.ndarray = np.arange(len(rows))
        if isinstance(rows, list):
            self.order = longest_first([len(row) for row in rows], batch_size)

    def __len__(self) -> int:
        return -(-len(self.rows) // self.batch_size)

    def __getitem__(self, number: int) -> Any:
        rows = self.order[number * self.batch_size :][: self.batch_size]
        length = 0
        if isinstance(self.rows, list):
            length = bucket(max(len(self.rows[row]) for row in rows))
        data = self.rows, self.y, self.weights
        return arrays_of(*data, rows, length, self.padding)


def check_rows(rows: Sequence[Any], y: Sequence[Any] | np.ndarray) -> None:
    """Raises if there are no rows, or not as many labels."""
    if len(rows) != len(y) or not len(rows):
        raise ValueError(
            "x and y must have the same number of rows, at least one, received "
            f"{len(rows)} and {len(y)}"
        )


def arrays_of(
    inputs: Sequence[Row],
    y: np.ndarray | Sequence[Row],
    weights: np.ndarray | Sequence[np.ndarray] | None,
    rows: np.ndarray,
    length: int,
    padding: int = 0,
) -> LabelArrays:
    """Returns some rows as arrays: inputs, labels and sample weights."""
    found = []
    for values in (inputs, y, weights):
        if values is None:
            continue
        if hasattr(values, "shape"):
            found.append(values[rows])
        else:
            dtype = "float32" if values is weights else "int32"
            fill = padding if values is inputs else 0
            found.append(padded([values[row] for row in rows], length, dtype, fill))
    return tuple(found)

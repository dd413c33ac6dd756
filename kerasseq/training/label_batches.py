"""Rows with labels as a model reads them, and batches of them.

Rows of ids are padded to a few lengths, as each new one is compiled.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import bucket, padded
from kerasseq.datasets.splitting import split_by_class
from kerasseq.training.batches import (
    HELD_OUT,
    GroupedBatches,
    KerasData,
    OrderedBatches,
    TrainingRows,
    cut,
)

Row: TypeAlias = Sequence[int] | np.ndarray
# Inputs, labels and, if there are any, sample weights.
LabelArrays: TypeAlias = tuple[Any, ...]


@dataclasses.dataclass
class Rows(TrainingRows):
    """Rows as a model reads them, with their labels.

    Attributes:
        arrays: Ids, a list of integer arrays `(time,)` of any lengths; or an array
            `(rows, ...)`, or several by name.
        y: Labels: an array `(rows, ...)`, or several by name; or a list of the labels
            of each step, `(time,)`. None before they are known.
        weights: Sample weights, in the form of `y`; or None.
        lengths: `(rows,)`, the length of each row without padding; None if the arrays
            stay as they are.
        padding: The id of padding.
        per_step: Whether labels and weights of arrays are `(rows, time)`.
        steps: The number of steps that the user gave, if arrays are padded to more.
        is_array: Whether the user gave arrays, of which Keras makes the batches.
        by_class: Whether `split` takes a fraction of each class.
        places: For words, the index of the id of each one's label, a list of rows;
            for choices, the answers of each row; for a text with an answer, offsets
            `(tokens, 2)` of its tokens, the place of the first, and the place of no
            answer.
        batched_by_length: Whether `batches` needs `lengths`.

    Examples:
        >>> rows = Rows([[7], [7, 8]], np.array([0, 1]), lengths=np.array([1, 2]))
        >>> x, y = rows.batches(batch_size=1).batch(0)
        >>> x.shape[0], y.shape
        (1, (1,))
    """

    arrays: Any
    y: Any = None
    weights: Any = None
    lengths: np.ndarray | None = None
    padding: int = 0
    per_step: bool = False
    steps: int | None = None
    is_array: bool = False
    by_class: bool = False
    places: Any = None
    batched_by_length: ClassVar[bool] = True

    def __len__(self) -> int:
        parts = [self.arrays] if isinstance(self.arrays, list) else None
        return len((parts or keras.tree.flatten(self.arrays))[0])

    def take(self, rows: np.ndarray, length: int | None = None) -> LabelArrays:
        """Returns some rows as arrays: inputs, labels and sample weights.

        Args:
            rows: Their indices.
            length: The length of rows of ids; None if they stay as they are.
        """
        parts = [_taken(self.arrays, rows, length, fill=self.padding)]
        cut = length if self.per_step else None
        for values, dtype in ((self.y, "int32"), (self.weights, "float32")):
            if values is not None:
                at = length if isinstance(values, list) else cut
                parts.append(_taken(values, rows, at, dtype))
        return tuple(parts)

    def part(self, rows: slice | np.ndarray) -> Self:
        """Returns some of the rows."""
        indices = np.arange(len(self))[rows]

        def chosen(values):
            if values is None:
                return None
            if isinstance(values, list):
                return [values[row] for row in indices]
            return keras.tree.map_structure(lambda each: each[indices], values)

        names = ("arrays", "y", "weights", "lengths", "places")
        return dataclasses.replace(
            self, **{name: chosen(getattr(self, name)) for name in names}
        )

    def split(self, fraction: float, seed: int = 0) -> tuple[Self, Self]:
        """Splits the rows into those to train on and those for validation.

        Args:
            fraction: The fraction for validation: the last rows, or rows of each class
                at random if `by_class`. 0 for 15 % of each class, or of all rows if a
                row has not one label.
            seed: Seed of the random choice.

        Raises:
            ValueError: If no rows are left on a side.

        Examples:
            >>> rows = Rows(np.arange(20.0), np.array([0, 1] * 10))
            >>> training, held_out = rows.split(0.0)
            >>> len(training), sorted(held_out.y.tolist())
            (16, [0, 0, 1, 1])
        """
        count = len(self)
        checks.fraction("validation_split", fraction)
        training: Any = slice(count - round(count * fraction))
        held_out: Any = slice(training.stop, None)
        if self.by_class or not fraction:
            y = self.y
            if getattr(y, "ndim", None) != 1 or not np.issubdtype(y.dtype, np.integer):
                y = np.zeros(count, int)
            training, held_out = split_by_class(y.tolist(), fraction or HELD_OUT, seed)
        parts = self.part(training), self.part(held_out)
        if all(map(len, parts)):
            return parts
        if not fraction:
            raise ValueError(
                "patience needs two rows of a label, to hold one out for validation, "
                "received one of each. Give validation_data"
            )
        raise ValueError(
            "validation_split must leave rows for training and validation, received "
            f"{fraction} for {count} rows"
        )

    def for_keras(self) -> KerasData | None:
        """Returns arrays of which Keras makes the batches; None to make them here."""
        return KerasData(self.arrays, self.y, self.weights) if self.is_array else None

    def batches(self, batch_size: int = 32, seed: int = 0) -> Any:
        """Returns batches to train on, of which no two epochs have the same order.

        Args:
            batch_size: Rows in a batch.
            seed: Seed of the order.
        """
        longest = math.inf
        if not isinstance(self.arrays, list):  # their padding
            longest = min(x.shape[-1] for x in keras.tree.flatten(self.arrays))
        options = {"longest": longest, "arrays_of": self.take}
        return GroupedBatches(self.lengths[:, None], batch_size, seed, **options)

    def in_order(self, batch_size: int = 32) -> Any:
        """Returns all rows once, for evaluation; by `longest_first` if they differ."""
        if self.lengths is None:
            return OrderedBatches(cut(np.arange(len(self)), batch_size), self.take)

        def take(rows):
            return self.take(rows, bucket(int(self.lengths[rows].max())))

        return OrderedBatches(
            cut(longest_first(self.lengths, batch_size), batch_size), take
        )

    def held_out(self, call: Any) -> Any:
        """Returns the rows for validation, in a call of `fit`."""
        return self.in_order(call.batch_size)

    def batch(self) -> Any:
        """Returns the inputs of all rows, without padding at the end of all."""
        length = None if self.lengths is None else max(int(self.lengths.max()), 1)
        return self.take(np.arange(len(self)), length)[0]

    def by_length(self, batch_size: int) -> Iterator[tuple[np.ndarray, Any]]:
        """Yields the indices and inputs of rows of about the same length.

        Args:
            batch_size: Rows that are processed at once, for inputs that are batches.
        """
        buckets = np.array([bucket(int(length)) for length in self.lengths])
        for length in np.unique(buckets):
            rows = np.flatnonzero(buckets == length)
            yield rows, self.take(rows, int(length))[0]


def _taken(values, rows, length, dtype="int32", fill=0):
    """Returns some rows of a list, or of arrays whose last axis is cut."""
    if isinstance(values, list):
        return padded([values[row] for row in rows], length, dtype, fill)
    return keras.tree.map_structure(lambda each: each[rows][..., :length], values)


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

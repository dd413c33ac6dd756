"""Batches of pairs of sequences, padded to a few lengths, as each is compiled.

The inputs of the decoder are the start token and the target; its labels are the target
and the end token.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import END, PADDING, START, padded
from kerasseq.training.batches import GroupedBatches

# Ids of any lengths, or an array of other sources, such as images.
Sources: TypeAlias = Sequence[Sequence[int] | np.ndarray] | np.ndarray
# The inputs, sources and targets, and the labels.
PairArrays: TypeAlias = tuple[tuple[np.ndarray, np.ndarray], np.ndarray]


class PairBatches(GroupedBatches):
    """Batches of sources and targets, of a few shapes; see `GroupedBatches`.

    Args:
        sources: Ids, a list of integer arrays `(time,)` of any lengths; or one array
            `(rows, ...)` of other sources, such as images.
        targets: Ids, a list of integer arrays `(time,)`.
        batch_size: Pairs in a batch.
        seed: Seed of the order.
        groups: Maximum number of shapes.
        marks: The ids of start and end.
        padding: The id of padding.
        sample_weight: A number for each pair, the third part of a batch; or None.

    Raises:
        TypeError: If sources or targets are no list, or weights no numbers.
        ValueError: If there are no pairs, or the numbers of sources, targets and
            weights differ.

    Examples:
        >>> batches = PairBatches([[7], [7, 8], [7, 8, 9]], [[4], [5], [6, 6]], 1)
        >>> (source, target), wanted = batches.batch(0)
        >>> target[0, 0], wanted[0, (wanted != 0).sum() - 1]  # start and end
        (np.int32(1), np.int32(2))
    """

    def __init__(
        self,
        sources: Sources,
        targets: Sequence[Sequence[int] | np.ndarray],
        batch_size: int = 64,
        seed: int = 0,
        groups: int = 3,
        *,
        marks: Sequence[int] = (START, END),
        padding: int = PADDING,
        sample_weight: Any = None,
    ) -> None:
        marks = checks.several("marks", marks, "two ids, start and end")
        if len(marks) != 2:
            raise ValueError(f"marks must be two ids, start and end, received {marks}")
        marks = tuple(checks.whole_number("one of marks", mark, 0) for mark in marks)
        for name, rows in (("sources", sources), ("targets", targets)):
            if not hasattr(rows, "__len__"):
                raise TypeError(f"{name} must be a list, received {checks.short(rows)}")
        if len(sources) != len(targets) or not len(sources):
            raise ValueError(
                "sources and targets must have the same length, at least 1, received "
                f"{len(sources)} and {len(targets)}"
            )
        lengths = [
            (_length(source), 1 + len(target))  # and the end
            for source, target in zip(sources, targets, strict=True)
        ]
        super().__init__(np.array(lengths), batch_size, seed, groups)
        self.sources = sources
        self.targets = targets
        self.marks: tuple[int, ...] = marks
        self.padding: int = checks.whole_number("padding", padding, 0)
        self.sample_weight: np.ndarray | None = _weights(sample_weight, len(sources))

    def take(self, rows: np.ndarray) -> tuple[Any, ...]:
        arrays = pair_arrays(
            _rows(self.sources, rows),
            [self.targets[row] for row in rows],
            *self.shape_of(rows),
            marks=self.marks,
            padding=self.padding,
        )
        if self.sample_weight is None:
            return arrays
        return *arrays, self.sample_weight[rows]


def pair_arrays(
    sources: Sources,
    targets: Iterable[Sequence[int] | np.ndarray],
    source_length: int | None = None,
    target_length: int | None = None,
    *,
    marks: Sequence[int] = (START, END),
    padding: int = PADDING,
) -> PairArrays:
    """Returns pairs as the arrays that a model trains on.

    Args:
        sources: As for `PairBatches`.
        targets: As for `PairBatches`.
        source_length: Length to pad to; that of the longest if None.
        target_length: The same, for the target with its end token.
        marks: The ids of start and end.
        padding: The id of padding.

    Returns:
        The inputs, sources and targets, and the labels.

    Examples:
        >>> (source, target), wanted = pair_arrays([[7, 8], [9]], [[4, 5], [6]])
        >>> source.tolist(), target.tolist(), wanted.tolist()
        ([[7, 8], [9, 0]], [[1, 4, 5], [1, 6, 0]], [[4, 5, 2], [6, 2, 0]])
    """
    if not hasattr(sources, "shape"):
        sources = padded(sources, source_length, value=padding)
    start, end = marks
    target = padded([[start, *ids] for ids in targets], target_length, value=padding)
    wanted = padded([[*ids, end] for ids in targets], target_length, value=padding)
    return (sources, target), wanted


def _weights(given: Any, rows: int) -> np.ndarray | None:
    """Returns the weights of pairs as float32, checked; None if there are none."""
    if given is None:
        return None
    weights = checks.several("sample_weight", given, "numbers")
    if len(weights) != rows:
        raise ValueError(
            f"sample_weight must have a number for each of {rows} pairs, received "
            f"{len(weights)} in {checks.short(given)}"
        )
    weights = [checks.finite("one of sample_weight", weight) for weight in weights]
    return np.array(weights, "float32")


def _length(source: Sequence[int] | np.ndarray) -> int:
    """Returns the length of a source; images have all the same size."""
    return len(source) if np.ndim(source) == 1 else 1


def _rows(
    sources: Sources, rows: np.ndarray
) -> list[Sequence[int] | np.ndarray] | np.ndarray:
    if hasattr(sources, "shape"):
        return sources[rows]
    return [sources[row] for row in rows]

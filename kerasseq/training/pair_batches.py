"""Batches of pairs of sequences, padded to a few lengths, as each is compiled.

The inputs of the decoder are the start token and the target; its labels are the target
and the end token.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import END, PADDING, START
from kerasseq.training.batches import _Batches

# Ids of any lengths, or an array of other sources, such as images.
Sources: TypeAlias = Sequence[Sequence[int] | np.ndarray] | np.ndarray
# The inputs, sources and targets, and the labels.
PairArrays: TypeAlias = tuple[tuple[np.ndarray, np.ndarray], np.ndarray]


class PairBatches(_Batches):
    """Batches of sources and targets, of a few shapes.

    The pairs are sorted by length into groups of equal size. A batch comes from one
    group, and the groups alternate, so that training sees short and long pairs mixed.

    Args:
        sources: Ids, a list of integer arrays `(time,)` of any lengths; or one array
            `(rows, ...)` of other sources, such as images.
        targets: Ids, a list of integer arrays `(time,)`.
        batch_size: Pairs in a batch.
        seed: Seed of the order.
        groups: Maximum number of shapes.
        marks: The ids of start and end.

    Raises:
        ValueError: If there are no pairs, or the numbers of sources and targets differ.

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
    ) -> None:
        groups = checks.whole_number("groups", groups)
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
        super().__init__(len(sources), batch_size, seed)
        self.sources = sources
        self.targets = targets
        self.marks: tuple[int, ...] = marks
        most = max(1, min(groups, self.rows // self.batch_size))
        self.groups: list[np.ndarray] = self._grouped(most)
        shapes = [self._shape(rows) for rows in self.groups]
        self.shapes: list[tuple[int, int]] = _growing(shapes)
        self.group_of: np.ndarray = np.empty(self.rows, int)
        for group, rows in enumerate(self.groups):
            self.group_of[rows] = group
        self.turns: int = min(map(len, self.groups)) // self.batch_size
        self.steps_per_epoch: int = self.turns * len(self.groups)

    def _grouped(self, count: int) -> list[np.ndarray]:
        """Splits the rows into groups by length; one group if all have one shape."""
        pairs = zip(self.sources, self.targets, strict=True)
        lengths = [max(_length(s), len(t)) for s, t in pairs]
        by_length = np.argsort(lengths, kind="stable")
        groups = np.array_split(by_length, count)
        return groups if len(set(map(self._shape, groups))) > 1 else [by_length]

    def _shape(self, rows: np.ndarray) -> tuple[int, int]:
        """Lengths of the longest source and of the longest target with its end."""
        source = max(_length(self.sources[row]) for row in rows)
        return source, 1 + max(len(self.targets[row]) for row in rows)

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Returns the rows of an epoch: groups alternate, each in random order."""
        shuffled = [
            rng.permutation(group)[: self.turns * self.batch_size]
            for group in self.groups
        ]
        batches = [
            np.reshape(group, (self.turns, self.batch_size)) for group in shuffled
        ]
        return np.concatenate(np.stack(batches, axis=1)).reshape(-1)

    def take(self, rows: np.ndarray) -> PairArrays:
        # The shape of the group, even if a smaller one suffices: see `_growing`.
        shape = self.shapes[self.group_of[rows[0]]]
        return pair_arrays(
            _rows(self.sources, rows),
            [self.targets[row] for row in rows],
            *shape,
            marks=self.marks,
        )


def pair_arrays(
    sources: Sources,
    targets: Iterable[Sequence[int] | np.ndarray],
    source_length: int | None = None,
    target_length: int | None = None,
    *,
    marks: Sequence[int] = (START, END),
) -> PairArrays:
    """Returns pairs as the arrays that a model trains on.

    Args:
        sources: As for `PairBatches`.
        targets: As for `PairBatches`.
        source_length: Length to pad to; that of the longest if None.
        target_length: The same, for the target with its end token.
        marks: The ids of start and end.

    Returns:
        The inputs, sources and targets, and the labels. 0 is padding.

    Examples:
        >>> (source, target), wanted = pair_arrays([[7, 8], [9]], [[4, 5], [6]])
        >>> source.tolist(), target.tolist(), wanted.tolist()
        ([[7, 8], [9, 0]], [[1, 4, 5], [1, 6, 0]], [[4, 5, 2], [6, 2, 0]])
    """
    if not hasattr(sources, "shape"):
        sources = _filled(sources, source_length)
    start, end = marks
    target = _filled([[start, *ids] for ids in targets], target_length)
    wanted = _filled([[*ids, end] for ids in targets], target_length)
    return (sources, target), wanted


def _filled(
    rows: Sequence[Sequence[int] | np.ndarray], length: int | None = None
) -> np.ndarray:
    length = length or max(map(len, rows))
    array = np.full((len(rows), length), PADDING, "int32")
    for place, ids in zip(array, rows, strict=True):
        place[: len(ids)] = ids
    return array


def _length(source: Sequence[int] | np.ndarray) -> int:
    """Length of a source; images have all the same size."""
    return len(source) if np.ndim(source) == 1 else 1


def _rows(
    sources: Sources, rows: np.ndarray
) -> list[Sequence[int] | np.ndarray] | np.ndarray:
    if hasattr(sources, "shape"):
        return sources[rows]
    return [sources[row] for row in rows]


def _growing(shapes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Enlarges shapes so that each is larger than the one before, in both lengths.

    A compiling backend compares the first two batches to find dynamic axes. An axis of
    the same length in both would be compiled as static.

    Examples:
        >>> _growing([(3, 2), (3, 5), (7, 4)])
        [(3, 2), (4, 5), (7, 6)]
    """
    grown = shapes[:1]
    for source, target in shapes[1:]:
        last_source, last_target = grown[-1]
        grown.append((max(source, last_source + 1), max(target, last_target + 1)))
    return grown

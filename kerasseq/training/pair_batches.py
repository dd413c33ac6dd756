"""Batches of pairs of sequences: sorted into a few lengths, as each is compiled.

What a decoder reads is its target behind a start; what it is to say is the target and
an end.
"""

import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import END, PADDING, START
from kerasseq.training.batches import _Batches


class PairBatches(_Batches):
    """Batches of sources and targets, each of one of a few shapes.

    The pairs are sorted by length into groups of equal size. A batch comes from one
    group, and the groups take turns, so that short and long ones are learned together.

    Args:
        sources: Ids, a list of integer arrays `(time,)` of any lengths; or one array
            `(rows, ...)` of something else, such as images.
        targets: Ids, a list of integer arrays `(time,)`.
        batch_size: Pairs in a batch.
        seed: Seed of the order.
        groups: How many shapes there are at most.
        marks: The ids of start and end.

    Raises:
        ValueError: If there are no pairs, or not as many sources as targets.

    Examples:
        >>> batches = PairBatches([[7], [7, 8], [7, 8, 9]], [[4], [5], [6, 6]], 1)
        >>> (source, target), wanted = batches.batch(0)
        >>> target[0, 0], wanted[0, (wanted != 0).sum() - 1]  # start and end
        (np.int32(1), np.int32(2))
    """

    def __init__(
        self,
        sources,
        targets,
        batch_size=64,
        seed=0,
        groups=3,
        *,
        marks=(START, END),
    ):
        groups = checks.whole_number("groups", groups)
        marks = checks.several("marks", marks, "two ids, start and end")
        if len(marks) != 2:
            raise ValueError(f"marks must be two ids, start and end, got {marks}")
        marks = tuple(checks.whole_number("one of marks", mark, 0) for mark in marks)
        for name, rows in (("sources", sources), ("targets", targets)):
            if not hasattr(rows, "__len__"):
                raise TypeError(f"{name} must be a list, got {checks.short(rows)}")
        if len(sources) != len(targets) or not len(sources):
            raise ValueError(
                f"there are {len(sources)} sources and {len(targets)} targets: there "
                "must be as many, and one at least"
            )
        super().__init__(len(sources), batch_size, seed)
        self.sources, self.targets, self.marks = sources, targets, marks
        self.groups = self._grouped(max(1, min(groups, self.rows // self.batch_size)))
        self.shapes = _growing([self._shape(rows) for rows in self.groups])
        self.group_of = np.empty(self.rows, int)
        for group, rows in enumerate(self.groups):
            self.group_of[rows] = group
        self.turns = min(map(len, self.groups)) // self.batch_size
        self.steps_per_epoch = self.turns * len(self.groups)

    def _grouped(self, count):
        """The rows in groups by length; in one if all would have the same shape."""
        pairs = zip(self.sources, self.targets, strict=True)
        lengths = [max(_length(s), len(t)) for s, t in pairs]
        by_length = np.argsort(lengths, kind="stable")
        groups = np.array_split(by_length, count)
        return groups if len(set(map(self._shape, groups))) > 1 else [by_length]

    def _shape(self, rows):
        """Lengths of the longest source and of the longest target with its end."""
        source = max(_length(self.sources[row]) for row in rows)
        return source, 1 + max(len(self.targets[row]) for row in rows)

    def order(self, rng):
        """All batches of a pass: the groups in turn, each in an order of its own."""
        shuffled = [
            rng.permutation(group)[: self.turns * self.batch_size]
            for group in self.groups
        ]
        batches = [
            np.reshape(group, (self.turns, self.batch_size)) for group in shuffled
        ]
        return np.concatenate(np.stack(batches, axis=1)).reshape(-1)

    def take(self, rows):
        # Of its group, even where a smaller one would do: the first two must differ.
        shape = self.shapes[self.group_of[rows[0]]]
        return pair_arrays(
            _rows(self.sources, rows),
            [self.targets[row] for row in rows],
            *shape,
            marks=self.marks,
        )


def pair_arrays(
    sources, targets, source_length=None, target_length=None, *, marks=(START, END)
):
    """Pairs as the arrays that a model trains on.

    Args:
        sources: As for `PairBatches`.
        targets: As for `PairBatches`.
        source_length: Length to fill up to; that of the longest if None.
        target_length: The same, of the target with its end.
        marks: The ids of start and end.

    Returns:
        Source and target to read, and the target to say, where 0 is padding.

    Examples:
        >>> (source, target), wanted = pair_arrays([[7, 8], [9]], [[4, 5], [6]])
        >>> source.tolist(), target.tolist(), wanted.tolist()
        ([[7, 8], [9, 0]], [[1, 4, 5], [1, 6, 0]], [[4, 5, 2], [6, 2, 0]])
    """
    if isinstance(sources, list):
        sources = _filled(sources, source_length)
    start, end = marks
    target = _filled([[start, *ids] for ids in targets], target_length)
    wanted = _filled([[*ids, end] for ids in targets], target_length)
    return (sources, target), wanted


def _filled(rows, length=None):
    length = length or max(map(len, rows))
    array = np.full((len(rows), length), PADDING, "int32")
    for place, ids in zip(array, rows, strict=True):
        place[: len(ids)] = ids
    return array


def _length(source):
    """Places of a source; images are all alike."""
    return len(source) if np.ndim(source) == 1 else 1


def _rows(sources, rows):
    return (
        [sources[row] for row in rows] if isinstance(sources, list) else sources[rows]
    )


def _growing(shapes):
    """The shapes such that each is larger than the one before, in both lengths.

    A backend that compiles looks at the first two batches to see which sizes change.
    If these were equal in one, it would take that one for fixed.

    Examples:
        >>> _growing([(3, 2), (3, 5), (7, 4)])
        [(3, 2), (4, 5), (7, 6)]
    """
    grown = shapes[:1]
    for source, target in shapes[1:]:
        last_source, last_target = grown[-1]
        grown.append((max(source, last_source + 1), max(target, last_target + 1)))
    return grown

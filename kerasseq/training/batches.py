"""Batches in an order that depends on the seed and the number of the batch alone.

A resumed run therefore continues with the next batch of the interrupted one, without
reading the batches before it.
"""

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.datasets.joined_ids import JoinedIds

BATCH_SIZE = 32  # rows, the default of `fit` of Keras
HELD_OUT = 0.15  # of the data, for validation, if the user names no part


class KerasData(NamedTuple):
    """Arrays or batches, which Keras reads as they are.

    Attributes:
        x: Inputs, or batches of inputs and targets.
        y: Targets; None for batches.
        sample_weight: Weight of each row, or None.
        class_weight: As for `keras.Model.fit`.
    """

    x: Any
    y: Any = None
    sample_weight: Any = None
    class_weight: Any = None


class TrainingRows:
    """Rows to train on, which know how to be divided and batched.

    Attributes:
        rows: A sequence of rows. A subclass without it has a length and `part`.
    """

    rows: Any

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, rows: slice) -> Self:
        """Returns some of the rows."""
        part = copy.copy(self)
        part.rows = self.rows[rows]
        return part

    def split(self, fraction: float, seed: int) -> tuple[Self, Self]:
        """Splits off the last rows for validation; each part has one at least.

        Args:
            fraction: The fraction for validation; 0 for the usual 15 %.
            seed: Seed of a choice at random.

        Raises:
            ValueError: If there is one row.
        """
        fraction, rows = fraction or HELD_OUT, len(self)
        count = max(round(rows * fraction), 1)
        if count >= rows:
            raise ValueError(
                f"validation_split={fraction} of {rows} rows leaves none to train on. "
                "Pass more rows, or validation_data"
            )
        return self.part(slice(-count)), self.part(slice(-count, None))

    def for_keras(self) -> KerasData | None:
        """Returns the rows as arrays, if Keras is to make the batches; else None."""
        return None

    def batches(self, batch_size: int, seed: int) -> Any:
        """Returns batches to train on: `stream(start)` and `steps_per_epoch`."""
        raise NotImplementedError(f"{type(self).__name__} must define batches")

    def held_out(self, call: Any) -> Any:
        """Returns the rows as data for validation, for `keras.Model.fit`.

        Args:
            call: The `FitCall`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define held_out")


class NumberedBatches:
    """Batches by number, counted from 0 over all epochs, of rows in an order.

    Rows that fill no batch of an epoch are left out of it.

    Args:
        rows: Number of rows.
        batch_size: Rows in a batch.
        seed: Seed of the order.
        take: Function from the indices of rows to arrays. A subclass may have a method
            instead, like the next one.
        change: Function from a batch and its number to what trains, such as with noise
            of its number; None for the batch.
        order: Function from a random generator to the rows of an epoch, as `take`
            reads them; None for all rows in random order.
        reader: What reads the files of rows, see `ImageReader`; or None.

    Attributes:
        shuffled: Whether `seed` determines their order, or they continue each other.

    Examples:
        >>> batches = NumberedBatches(3, 2, seed=0, take=lambda rows: 10 * rows)
        >>> batches.steps_per_epoch, set(batches.batch(0).tolist()) < {0, 10, 20}
        (1, True)
    """

    shuffled: bool = True

    def __init__(
        self,
        rows: int,
        batch_size: int,
        seed: int,
        take: Callable[[np.ndarray], Any] | None = None,
        change: Callable[[Any, int], Any] | None = None,
        order: Callable[[np.random.Generator], np.ndarray] | None = None,
        reader: Any = None,
    ) -> None:
        checks.whole_number("batch_size", batch_size)
        self.rows = rows
        self.batch_size: int = min(batch_size, rows)
        self.seed: int = checks.whole_number("seed", seed, 0)
        self.steps_per_epoch: int = rows // self.batch_size
        self.epoch: int | None = None  # of the batch that is made
        self._order = None
        if take is not None:
            self.take: Callable[[np.ndarray], Any] = take
        if change is not None:
            self.change: Callable[[Any, int], Any] = change
        if order is not None:
            self.order: Callable[[np.random.Generator], np.ndarray] = order
        self.reader: Any = reader

    def batch(self, number: int) -> Any:
        """Returns batch `number` of the run, counted from 0 over all epochs."""
        epoch, step = divmod(number, self.steps_per_epoch)
        if epoch != self.epoch:
            rng = np.random.default_rng([self.seed, epoch])
            self.epoch, self._order = epoch, self.order(rng)
        start = step * self.batch_size
        rows = self._order[start : start + self.batch_size]
        return self.change(self.take(rows), number)

    def stream(self, start: int = 0) -> Iterator[Any]:
        """Yields the batches from number `start` on, without end."""
        return (self.batch(number) for number in itertools.count(start))

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Returns the rows of an epoch in random order."""
        return rng.permutation(self.rows)

    def change(self, batch: Any, number: int) -> Any:
        """Returns a batch as it trains."""
        return batch


class OrderedBatches(keras.utils.PyDataset):
    """Batches by number that are not shuffled, such as all rows for evaluation.

    Args:
        parts: The indices of the rows of each batch.
        take: Function from these to arrays.
        reader: As for `NumberedBatches`.

    Examples:
        >>> batches = OrderedBatches([[0, 2], [1]], np.array([3, 5, 7]).__getitem__)
        >>> [batches[n].tolist() for n in range(len(batches))]
        [[3, 7], [5]]
    """

    def __init__(
        self,
        parts: Sequence[Any],
        take: Callable[[Any], Any],
        reader: Any = None,
    ) -> None:
        super().__init__()
        self.parts: Sequence[Any] = parts
        self.take: Callable[[Any], Any] = take
        self.reader: Any = reader

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, number: int) -> Any:
        return self.take(self.parts[number])


def cut(order: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """Cuts the indices of rows into those of batches.

    Examples:
        >>> [part.tolist() for part in cut(np.array([4, 2, 0]), batch_size=2)]
        [[4, 2], [0]]
    """
    size = checks.whole_number("batch_size", batch_size)
    return [order[n : n + size] for n in range(0, len(order), size)]


def check_rows(rows: Sequence[object], y: Sequence[object] | np.ndarray) -> None:
    """Raises if there are no rows, or not as many labels."""
    if len(rows) != len(y) or not len(rows):
        raise ValueError(
            "x and y must have the same number of rows, at least one, received "
            f"{len(rows)} and {len(y)}"
        )


def fit_arguments(
    batches: Any, steps_per_epoch: int | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the arguments of `keras.Model.fit` that train on batches.

    Args:
        batches: Batches with `stream` and `steps_per_epoch`, shuffled by their seed.
        steps_per_epoch: Batches in an epoch; a whole pass if None.
        options: Other arguments of `fit`, with `initial_epoch`, where the stream
            begins.

    Raises:
        ValueError: If `shuffle` is False.

    Examples:
        >>> batches = ArrayBatches(np.arange(6), np.arange(6), batch_size=2, seed=0)
        >>> arguments = fit_arguments(batches, None, {"initial_epoch": 0, "epochs": 5})
        >>> arguments["steps_per_epoch"], arguments["epochs"]
        (3, 5)
    """
    options = dict(options)
    shuffle = options.pop("shuffle", batches.shuffled)
    if batches.shuffled and not shuffle:
        raise ValueError(
            "shuffle=False is not possible: `seed` determines the order. For an order "
            "of your own, pass arrays of ids or a stream of batches"
        )
    if shuffle and not batches.shuffled:
        raise ValueError(
            "shuffle must be False, as each row of a batch continues that of the batch "
            f"before, received shuffle={shuffle}. Pass shuffle=False"
        )
    steps = batches.steps_per_epoch if steps_per_epoch is None else steps_per_epoch
    steps = checks.whole_number("steps_per_epoch", steps)
    first = options["initial_epoch"] * steps
    stream = kernels.restartable(lambda: batches.stream(first))
    # Keras would not shuffle a stream, and need not know that it is shuffled.
    return {**options, "x": stream, "steps_per_epoch": steps, "shuffle": False}


class ArrayBatches(NumberedBatches):
    """Batches of arrays with corresponding rows.

    Args:
        x: Array of inputs, rows on axis 0.
        y: Array of targets.
        batch_size: Rows in a batch.
        seed: Seed of the order.

    Examples:
        >>> batches = ArrayBatches(np.arange(6), np.arange(6), batch_size=2, seed=0)
        >>> batches.steps_per_epoch
        3
        >>> sorted(int(i) for n in range(3) for i in batches.batch(n)[0])
        [0, 1, 2, 3, 4, 5]
    """

    def __init__(
        self, x: np.ndarray, y: np.ndarray, batch_size: int = 32, seed: int = 0
    ) -> None:
        for name, rows in (("x", x), ("y", y)):
            if not getattr(rows, "shape", ()):
                raise TypeError(
                    f"{name} must be an array of rows, received {checks.short(rows)}"
                )
        check_rows(x, y)
        super().__init__(len(x), batch_size, seed)
        self.x = x
        self.y = y

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.x[rows], self.y[rows]


class TextBatches(NumberedBatches):
    """Batches of a text for language modeling: sequences, and the next tokens.

    Each epoch splits the text into sequences at another offset, and shuffles them.

    Args:
        ids: Integer array of the whole text; or the `ids` of `TokenShards`, of which
            each batch reads its sequences.
        sequence_length: Tokens in a sequence.
        batch_size: Sequences in a batch.
        seed: Seed of offsets and order.

    Raises:
        ValueError: If the text is shorter than one sequence and its next token.

    Examples:
        >>> batches = TextBatches(np.arange(20), sequence_length=3, batch_size=2)
        >>> x, y = batches.batch(0)
        >>> x.shape, bool(np.all(y == x + 1))
        ((2, 3), True)
    """

    def __init__(
        self,
        ids: np.ndarray | JoinedIds | Sequence[int],
        sequence_length: int = 64,
        batch_size: int = 32,
        seed: int = 0,
    ) -> None:
        checks.whole_number("sequence_length", sequence_length)
        in_files = isinstance(ids, JoinedIds)
        self.ids: np.ndarray | JoinedIds = ids if in_files else np.asarray(ids)
        if self.ids.ndim != 1 or not np.issubdtype(self.ids.dtype, np.integer):
            raise TypeError(f"ids must be one row of ids, received {checks.short(ids)}")
        self.sequence_length = sequence_length
        if len(self.ids) < sequence_length + 1:
            raise ValueError(
                f"the text must have at least sequence_length + 1 = "
                f"{sequence_length + 1} tokens, received {len(self.ids)}: too few for "
                "one sequence. Give a longer text, or a sequence_length of at most "
                f"{max(len(self.ids) - 1, 1)}"
            )
        # Any offset below the sequence length gives the same number of sequences.
        blocks = max((len(self.ids) - sequence_length) // sequence_length, 1)
        self._offsets = len(self.ids) - blocks * sequence_length
        super().__init__(blocks, batch_size, seed)

    def order(self, rng: np.random.Generator) -> np.ndarray:
        offset = rng.integers(self._offsets)
        return offset + self.sequence_length * rng.permutation(self.rows)

    def take(self, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ends = starts + self.sequence_length + 1
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        rows = np.stack([np.asarray(self.ids[start:end]) for start, end in pairs])
        return rows[:, :-1], rows[:, 1:]


class GroupedBatches(NumberedBatches):
    """Batches of rows of similar lengths, of a few shapes, as each is compiled.

    The rows are sorted by length into groups of equal size. A batch comes from one
    group, and the groups alternate, so that training sees short and long rows mixed.

    Args:
        lengths: `(rows, sequences)`: the length of each sequence of a row.
        batch_size: Rows in a batch.
        seed: Seed of the order.
        groups: Maximum number of shapes.
        longest: The most steps of a sequence that the model reads. There are fewer
            shapes where padding would exceed it.
        arrays_of: Function from the indices of rows, and the length of each of their
            sequences, to arrays; a subclass may implement `take` instead.

    Examples:
        >>> from kerasseq.core.padding import padded
        >>> texts = [[7], [7, 8, 9], [8, 8, 8], [9]]
        >>> lengths = np.array([[len(text)] for text in texts])
        >>> def arrays_of(rows, length):
        ...     return padded([texts[row] for row in rows], length)
        >>> batches = GroupedBatches(lengths, 2, seed=0, arrays_of=arrays_of)
        >>> sorted(batches.batch(n).shape for n in range(2))
        [(2, 1), (2, 3)]
    """

    def __init__(
        self,
        lengths: np.ndarray,
        batch_size: int,
        seed: int,
        groups: int = 3,
        longest: float = math.inf,
        arrays_of: Callable[..., Any] | None = None,
    ) -> None:
        self.arrays_of: Callable[..., Any] | None = arrays_of
        groups = checks.whole_number("groups", groups)
        super().__init__(len(lengths), batch_size, seed)
        count = max(1, min(groups, self.rows // self.batch_size))
        by_length = np.argsort(lengths.max(axis=1), kind="stable")
        self.groups: list[np.ndarray] = [by_length]
        self.shapes: list[tuple[int, ...]] = [_shape_of(lengths)]
        for number in range(count, 1, -1):
            parts = np.array_split(by_length, number)
            shapes = [_shape_of(lengths[rows]) for rows in parts]
            if len(set(shapes)) == 1:  # all rows have one shape
                break
            shapes = _growing(shapes)
            if max(shapes[-1]) <= longest:
                self.groups, self.shapes = parts, shapes
                break
        self.group_of: np.ndarray = np.empty(self.rows, int)
        for group, rows in enumerate(self.groups):
            self.group_of[rows] = group
        self.turns: int = min(map(len, self.groups)) // self.batch_size
        self.steps_per_epoch: int = self.turns * len(self.groups)

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

    def take(self, rows: np.ndarray) -> Any:
        return self.arrays_of(rows, *self.shape_of(rows))

    def shape_of(self, rows: np.ndarray) -> tuple[int, ...]:
        """Returns the group's shape, even if a smaller one suffices: see `_growing`."""
        return self.shapes[self.group_of[rows[0]]]


def _shape_of(lengths):
    """Returns the shape of rows: one step at least, as recurrent layers need one."""
    return tuple(np.maximum(lengths.max(axis=0), 1).tolist())


def _growing(shapes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Enlarges shapes so that each is larger than the one before, in all lengths.

    A compiling backend compares the first two batches to find dynamic axes. An axis of
    the same length in both would be compiled as static.

    Examples:
        >>> _growing([(3, 2), (3, 5), (7, 4)])
        [(3, 2), (4, 5), (7, 6)]
    """
    grown = [tuple(map(int, shapes[0]))]
    for shape in shapes[1:]:
        pairs = zip(shape, grown[-1], strict=True)
        grown.append(tuple(max(int(n), last + 1) for n, last in pairs))
    return grown

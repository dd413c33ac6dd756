"""Batches in an order that depends on the seed and the number of the batch alone.

A resumed run therefore continues with the next batch of the interrupted one, without
reading the batches before it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kerasseq.core import checks


class _Batches:
    """Shuffles rows in each epoch; rows that fill no batch are left out of it."""

    def __init__(self, rows: int, batch_size: int, seed: int) -> None:
        checks.whole_number("batch_size", batch_size)
        self.rows = rows
        self.batch_size: int = min(batch_size, rows)
        self.seed: int = checks.whole_number("seed", seed, 0)
        self.steps_per_epoch: int = rows // self.batch_size
        self._epoch, self._order = None, None

    def batch(self, number: int) -> Any:
        """Returns batch `number` of the run, counted from 0 over all epochs."""
        epoch, step = divmod(number, self.steps_per_epoch)
        if epoch != self._epoch:
            rng = np.random.default_rng([self.seed, epoch])
            self._epoch, self._order = epoch, self.order(rng)
        start = step * self.batch_size
        return self.take(self._order[start : start + self.batch_size])

    def stream(self, start: int = 0) -> Iterator[Any]:
        """Yields the batches from number `start` on, without end."""
        while True:
            yield self.batch(start)
            start += 1


class ArrayBatches(_Batches):
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
        if len(x) != len(y) or not len(x):
            raise ValueError(
                "x and y must have the same number of rows, at least one, received "
                f"{len(x)} and {len(y)}"
            )
        super().__init__(len(x), batch_size, seed)
        self.x = x
        self.y = y

    def order(self, rng: np.random.Generator) -> np.ndarray:
        return rng.permutation(self.rows)

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.x[rows], self.y[rows]


class TextBatches(_Batches):
    """Batches of a text for language modeling: sequences, and the next tokens.

    Each epoch splits the text into sequences at another offset, and shuffles them.

    Args:
        ids: Integer array of the whole text.
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
        ids: np.ndarray | Sequence[int],
        sequence_length: int = 64,
        batch_size: int = 32,
        seed: int = 0,
    ) -> None:
        checks.whole_number("sequence_length", sequence_length)
        self.ids: np.ndarray = np.asarray(ids)
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
        indices = starts[:, None] + np.arange(self.sequence_length)
        return self.ids[indices], self.ids[indices + 1]

"""Batches in an order that depends on the seed and the number of the batch alone.

So a run that was killed goes on with the very batch that it would have seen next,
without reading the ones before it again.
"""

import numpy as np

from kerasseq.core import checks


class _Batches:
    """Passes over rows, shuffled anew in each; the last rows may wait a pass."""

    def __init__(self, rows, batch_size, seed):
        checks.whole_number("batch_size", batch_size)
        self.rows = rows
        self.batch_size = min(batch_size, rows)
        self.seed = checks.whole_number("seed", seed, 0)
        self.steps_per_epoch = rows // self.batch_size
        self._pass, self._order = None, None

    def batch(self, number):
        """Batch `number` of the run, counted from 0 through all passes."""
        which, step = divmod(number, self.steps_per_epoch)
        if which != self._pass:
            rng = np.random.default_rng([self.seed, which])
            self._pass, self._order = which, self.order(rng)
        start = step * self.batch_size
        return self.take(self._order[start : start + self.batch_size])

    def stream(self, start=0):
        """All batches from number `start` on, without end."""
        while True:
            yield self.batch(start)
            start += 1


class ArrayBatches(_Batches):
    """Batches of arrays whose rows belong together.

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

    def __init__(self, x, y, batch_size=32, seed=0):
        for name, rows in (("x", x), ("y", y)):
            if not getattr(rows, "shape", ()):
                raise TypeError(
                    f"{name} must be an array of rows, got {checks.short(rows)}"
                )
        if len(x) != len(y) or not len(x):
            raise ValueError(
                f"x has {len(x)} rows and y has {len(y)}: there must be as many, and "
                "one at least"
            )
        super().__init__(len(x), batch_size, seed)
        self.x, self.y = x, y

    def order(self, rng):
        return rng.permutation(self.rows)

    def take(self, rows):
        return self.x[rows], self.y[rows]


class TextBatches(_Batches):
    """Blocks of a text and the same blocks one token further, to learn what comes next.

    Each pass cuts the text into blocks at another offset, and shuffles them.

    Args:
        ids: Integer array of the whole text.
        sequence_length: Tokens in a block.
        batch_size: Blocks in a batch.
        seed: Seed of offsets and order.

    Raises:
        ValueError: If the text is shorter than one block and its next token.

    Examples:
        >>> batches = TextBatches(np.arange(20), sequence_length=3, batch_size=2)
        >>> x, y = batches.batch(0)
        >>> x.shape, bool(np.all(y == x + 1))
        ((2, 3), True)
    """

    def __init__(self, ids, sequence_length=64, batch_size=32, seed=0):
        checks.whole_number("sequence_length", sequence_length)
        self.ids = np.asarray(ids)
        if self.ids.ndim != 1 or not np.issubdtype(self.ids.dtype, np.integer):
            raise TypeError(f"ids must be one row of ids, got {checks.short(ids)}")
        self.sequence_length = sequence_length
        if len(self.ids) < sequence_length + 1:
            raise ValueError(
                f"the text has {len(self.ids)} tokens, too few for one block of "
                f"sequence_length={sequence_length} and the token after it. Give a "
                f"longer text, or a sequence_length of "
                f"at most {max(len(self.ids) - 1, 1)}"
            )
        # Room for any offset below the block length, so that each pass has equal steps.
        blocks = max((len(self.ids) - sequence_length) // sequence_length, 1)
        self._offsets = len(self.ids) - blocks * sequence_length  # up to the very end
        super().__init__(blocks, batch_size, seed)

    def order(self, rng):
        offset = rng.integers(self._offsets)
        return offset + self.sequence_length * rng.permutation(self.rows)

    def take(self, starts):
        places = starts[:, None] + np.arange(self.sequence_length)
        return self.ids[places], self.ids[places + 1]

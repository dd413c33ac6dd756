"""The two sides of a translation: rows as users have them, and ids as models read them.

A model of pairs keeps three ids for itself: padding, start and end. Those of tokens
come behind them. Models with published weights have others: see `published` below.
"""

import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import END, FIRST, PADDING, START

PUBLISHED_END = 1


class Side:
    """Source or target: from strings, or ids, to the ids of a model, and back.

    Args:
        name: "source" or "target", for messages.
        tokenizer: A fitted tokenizer of `kerasseq.text`, or None.
        vocabulary_size: Number of ids in the user's rows, 0 for padding included, if
            there is no tokenizer.
        longest: The most tokens of a row; None for any number.
        longer: What to do for more tokens, as the message says it.
        published: Whether ids are those of the published T5: 0 is padding and start, 1
            the end, and the user's ids are the model's. A source that is a text gets an
            end, as in its training.

    Raises:
        TypeError: If one of them is something else.
        ValueError: If not exactly one of the two is given, or the tokenizer has learned
            nothing.

    Examples:
        >>> side = Side("source", None, 10)
        >>> [ids.tolist() for ids in side.encode([[9, 1], [1, 0]])], side.size
        ([[11, 3], [3]], 12)
    """

    def __init__(
        self,
        name,
        tokenizer=None,
        vocabulary_size=None,
        longest=None,
        *,
        longer="build it with a larger max_sequence_length",
        published=False,
    ):
        if (tokenizer is None) == (vocabulary_size is None):
            raise ValueError(
                f"give {name}_tokenizer for texts, or {name}_vocabulary_size for ids; "
                f"got {name}_tokenizer={tokenizer!r}, "
                f"{name}_vocabulary_size={vocabulary_size}"
            )
        self.name, self.tokenizer = name, tokenizer
        self.longest, self.longer = longest, longer
        if tokenizer is None:
            known = checks.whole_number(f"{name}_vocabulary_size", vocabulary_size, 2)
            self.shift = FIRST - 1  # the user's id 0 is padding, and so is ours
        else:
            known, self.shift = getattr(tokenizer, "vocabulary_size", None), FIRST
            if known is None:
                raise TypeError(
                    f"{name}_tokenizer must be a tokenizer of kerasseq.text, got "
                    f"{tokenizer!r}"
                )
            if not known:
                raise ValueError(
                    f"{name}_tokenizer has learned nothing yet: call its fit first"
                )
        self.start, self.end = START, END
        self.ends_texts = published and name == "source"
        if published:
            self.start, self.end, self.shift = PADDING, PUBLISHED_END, 0
        self.size = known + self.shift

    @property
    def marks(self):
        """The ids of start and end."""
        return self.start, self.end

    def encode(self, rows) -> list[np.ndarray]:
        """The ids of each row, without padding.

        Args:
            rows: Strings, or one; or ids: an array `(rows, time)` or lists of any
                lengths.

        Returns:
            One int32 array per row.

        Raises:
            TypeError: If a row is neither what the tokenizer nor what a model without
                one can read.
            ValueError: If a row is empty or too long, or an id out of range.
        """
        if isinstance(rows, str):
            rows = [rows]
        if not hasattr(rows, "__iter__"):
            raise TypeError(f"{self.name}s must be a list of rows, got {rows!r}")
        read = self._text if self.tokenizer else self._ids
        rows = [read(n, row) for n, row in enumerate(rows)]
        for n, ids in enumerate(rows):
            if self.longest is not None and len(ids) > self.longest:
                raise ValueError(
                    f"{self.name} number {n} has {len(ids)} tokens, and this model has "
                    f"positions for {self.longest}: {self.longer}"
                )
        return rows

    def _text(self, n, text):
        if not isinstance(text, str):
            raise TypeError(
                f"{self.name}s must be strings, as the model has a tokenizer for them; "
                f"number {n} is {type(text).__name__}"
            )
        ids = self.tokenizer.encode(text)
        if not len(ids):
            raise ValueError(f"{self.name} number {n} is empty: {text!r} has no token")
        ids = ids + self.shift
        return np.append(ids, np.int32(self.end)) if self.ends_texts else ids

    def _ids(self, n, row):
        if isinstance(row, str):
            raise TypeError(
                f"{self.name} number {n} is a string, and the model has no "
                f"{self.name}_tokenizer: give ids, or build it with one"
            )
        ids = np.asarray(row)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise TypeError(
                f"{self.name} number {n} must be whole numbers of shape (time,), got "
                f"shape {ids.shape} of {ids.dtype}"
            )
        highest = self.size - self.shift - 1
        wrong = ids[(ids < 0) | (ids > highest)]
        if len(wrong):
            raise ValueError(
                f"{self.name} number {n} has id {wrong[0]}: with "
                f"{self.name}_vocabulary_size={highest + 1} ids lie from 1 to "
                f"{highest}, and 0 is padding"
            )
        ids = ids[ids != PADDING]
        if not len(ids):
            raise ValueError(f"{self.name} number {n} is empty: it has no id but 0")
        return ids.astype("int32") + self.shift

    def decode(self, ids):
        """What ids of the model mean: a string, or an array of the user's ids."""
        ids = ids[~np.isin(ids, (PADDING, self.start, self.end))] - self.shift
        return ids if self.tokenizer is None else self.tokenizer.decode(ids)

    def tokens(self, ids) -> list[str]:
        """A label for each id, for pictures."""
        return [self._label(int(i)) for i in ids]

    def _label(self, i):
        marks = {self.start: "<start>", PADDING: "<pad>", self.end: "<end>"}
        if i in marks:
            return marks[i]
        if self.tokenizer is None:
            return str(i - self.shift)
        return self.tokenizer.vocabulary[i - self.shift]

"""Token ids of the source and of the target of an encoder-decoder model.

A model reserves three ids: padding, start and end. The ids of the tokens follow. Models
with published weights reserve others: see `PublishedIds`. Of padding, start and end, a
model writes the end alone: see `never_written`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kerasseq.core import checks
from kerasseq.core.padding import END, FIRST, PADDING, START, pad_rows
from kerasseq.tasks.data_checks import as_array
from kerasseq.tasks.sources import read
from kerasseq.text.tokenizers.tokenizer import PADDING_TOKENS, Tokenizer

# A text or several; or rows of ids, of equal length in an array.
Rows: TypeAlias = str | Sequence[str] | Sequence[Sequence[int]] | np.ndarray


class PublishedIds(NamedTuple):
    """The ids that published models reserve among those of their tokenizer.

    Attributes:
        padding: The id of padding.
        start: The id that the decoder reads first.
        end: The id of the end, of a source text, too.
        first: The id before the tokens of a text, of source and target; None for none.
    """

    padding: int
    start: int
    end: int
    first: int | None = None


class Vocabulary:
    """Converts texts, or ids of the user, to ids of the model, and back.

    Args:
        name: "source" or "target", for error messages.
        tokenizer: A fitted tokenizer of `kerasseq.text`, or None.
        vocabulary_size: Number of ids of the user, padding (0) included, if there is no
            tokenizer.
        max_length: The largest number of tokens in a row; None for no limit.
        advice: How to raise `max_length`, for the error message.
        published: The `PublishedIds`, if ids of the user are ids of the model. Texts
            then get their first id and, as sources, their end; rows of ids are taken as
            they are.

    Attributes:
        size: Number of ids of the model.
        offset: Difference between an id of the model and the id of the user.
        padding: The id of padding.
        start: The id of the start.
        end: The id of the end.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If both or neither of `tokenizer` and `vocabulary_size` are given,
            or if the tokenizer is not fitted.

    Examples:
        >>> vocabulary = Vocabulary("source", None, 10)
        >>> [ids.tolist() for ids in vocabulary.encode([[9, 1], [1, 0]])]
        [[11, 3], [3]]
        >>> vocabulary.size
        12
    """

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer | None = None,
        vocabulary_size: int | None = None,
        max_length: int | None = None,
        *,
        advice: str = "Build the model with a larger max_sequence_length",
        published: PublishedIds | None = None,
    ) -> None:
        if (tokenizer is None) == (vocabulary_size is None):
            raise ValueError(
                f"expected either {name}_tokenizer, for texts, or "
                f"{name}_vocabulary_size, for ids; received {name}_tokenizer="
                f"{tokenizer!r} and {name}_vocabulary_size={vocabulary_size}"
            )
        self.name = name
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.advice = advice
        if tokenizer is None:
            count = checks.whole_number(f"{name}_vocabulary_size", vocabulary_size, 2)
            offset = FIRST - 1  # the user's id 0 is padding, as in the model
        else:
            count, offset = tokenizer.vocabulary_size, FIRST
        offset = 0 if published else offset
        reserved = published or PublishedIds(PADDING, START, END)
        self.padding: int = reserved.padding
        self.start: int = reserved.start
        self.end: int = reserved.end
        of_texts = published is not None and tokenizer is not None
        self.before: list[int] = [reserved.first] * (reserved.first is not None)
        self.before = self.before * of_texts
        self.after: list[int] = [reserved.end] * (of_texts and name == "source")
        self.offset: int = offset
        self.size: int = count + offset

    @property
    def pair_options(self) -> dict[str, Any]:
        """The ids of targets, as arguments of `pair_arrays` and `PairBatches`."""
        return {"marks": (self.start, self.end), "padding": self.padding}

    @property
    def never_written(self) -> tuple[int, ...]:
        """The ids that no target has: padding, that of the tokenizer too, and start."""
        ids = {self.padding, self.start} - {self.end}
        special = getattr(self.tokenizer, "special_tokens", ())
        for token in PADDING_TOKENS:
            if token in special:
                ids.add(self.tokenizer.id_of(token) + self.offset)
        return tuple(sorted(ids))

    def encode(self, rows: Rows) -> list[np.ndarray]:
        """Returns the ids of each row, without padding.

        Args:
            rows: A string, or strings in a list, a column or a stream; or ids: an array
                `(rows, time)` or lists of any lengths.

        Returns:
            One int32 array per row.

        Raises:
            TypeError: If a row is not a string, or not ids for a model without a
                tokenizer.
            ValueError: If a row is empty or too long, or an id is out of range.
        """
        encoded = [self.model_ids(ids) for ids in self.token_ids(rows)]
        for n, ids in enumerate(encoded):
            if self.max_length is not None and len(ids) > self.max_length:
                raise ValueError(
                    f"{self.name} {n} must have at most {self.max_length} tokens, the "
                    f"positions of the model, received {len(ids)} tokens. {self.advice}"
                )
        return encoded

    def token_ids(self, rows: Rows) -> list[np.ndarray]:
        """Returns the ids of each row as the tokenizer, or the user, numbers them.

        Args:
            rows: As for `encode`.

        Raises:
            TypeError: As `encode`.
            ValueError: If a row is empty, or an id is out of range.
        """
        if isinstance(rows, str):
            rows = [rows]
        is_list = hasattr(rows, "__iter__") and not isinstance(rows, type)
        if not is_list or not len(getattr(rows, "shape", (1,))):
            raise TypeError(f"{self.name}s must be a list of rows, received {rows!r}")
        read_row = self._ids_of_text if self.tokenizer else self._ids_of_row
        return [read_row(n, row) for n, row in enumerate(read(rows)[0])]

    def model_ids(self, ids: np.ndarray) -> np.ndarray:
        """Returns the ids of the model for ids of `token_ids`.

        Examples:
            >>> Vocabulary("source", None, 10).model_ids(np.array([9, 1])).tolist()
            [11, 3]
        """
        ids = ids + np.int32(self.offset)
        return np.array([*self.before, *ids, *self.after], "int32")

    def _ids_of_text(self, n, text):
        if not isinstance(text, str):
            is_empty = text is None or isinstance(text, float)  # a cell of a table
            empty = ", an empty cell. Leave the row out" if is_empty else ""
            raise TypeError(
                f"{self.name}s must be strings, as the model has a tokenizer; received "
                f"{type(text).__name__} as {self.name} {n}{empty}"
            )
        ids = self.tokenizer.encode(text)
        if not len(ids):
            raise ValueError(
                f"{self.name} {n} must have at least one token, received {text!r}. "
                "Leave the row out"
            )
        return ids

    def _ids_of_row(self, n, row):
        if isinstance(row, str):
            raise TypeError(
                f"{self.name}s must be ids, as the model has no {self.name}_tokenizer; "
                f"received a string as {self.name} {n}. Pass ids, or build the model "
                "with a tokenizer"
            )
        ids = as_array(row)
        if ids is None:
            raise TypeError(
                f"{self.name} {n} must be integers of shape (time,), received "
                f"{checks.short(row)}"
            )
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise TypeError(
                f"{self.name} {n} must be integers of shape (time,), received shape "
                f"{ids.shape} of {ids.dtype}"
            )
        highest = self.size - self.offset - 1
        wrong = ids[(ids < 0) | (ids > highest)]
        if len(wrong):
            raise ValueError(
                f"ids of {self.name} {n} must be from 1 to {highest}, as "
                f"{self.name}_vocabulary_size={highest + 1}, or 0 for padding; "
                f"received {wrong[0]}"
            )
        ids = ids[ids != self.padding]
        if not len(ids):
            raise ValueError(
                f"{self.name} {n} must have at least one id, received only padding"
            )
        return ids.astype("int32")

    def is_one_row(self, value: Any) -> bool:
        """Returns whether `value` is one row, a string or ids, not a list of rows."""
        if not len(getattr(value, "shape", (1,))):
            return False
        if isinstance(value, str):
            return True
        if self.tokenizer or not hasattr(value, "__getitem__"):
            return False
        first = np.asarray(value[0]) if len(value) else np.zeros(1)
        return first.ndim == 0 and first.dtype.kind in "iu"

    def unknown_characters(self, text: Any) -> dict[str, int]:
        """Returns the characters that the tokenizer does not know, with counts."""
        count = getattr(self.tokenizer, "unknown_characters", None)
        return dict(count(text)) if count else {}

    def decode(self, ids: np.ndarray) -> str | np.ndarray:
        """Returns the text of the model's ids, or an array of the user's ids."""
        marks = (self.padding, self.start, self.end, *self.before)
        ids = ids[~np.isin(ids, marks)] - self.offset
        return ids if self.tokenizer is None else self.tokenizer.decode(ids)

    def padded(self, rows: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """Returns rows of the model's ids as one array, see `pad_rows`."""
        return pad_rows(rows, self.padding)

    def tokens_of(self, row: np.ndarray) -> list[str]:
        """Returns a label for each id of a padded row, without its padding."""
        return self.tokens(row[row != self.padding])

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Returns a label for each id, for plots."""
        return [self._label(int(i)) for i in ids]

    def _label(self, i):
        special = {self.start: "<start>", self.padding: "<pad>", self.end: "<end>"}
        if i in special:
            return special[i]
        if self.tokenizer is None:
            return str(i - self.offset)
        return self.tokenizer.vocabulary[i - self.offset]

"""Preprocessors: from what users pass to what a model reads."""

from typing import Any

import numpy as np

from kerasseq.tasks import sources, text_inputs
from kerasseq.tasks.input_rows import rank
from kerasseq.tasks.missing_rows import complete_rows, predictable_rows
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training.label_batches import Rows

Data = tuple[Any, Any, Any]  # inputs, labels and sample weights


class Preprocessor:
    """The base of the preprocessors, for texts.

    Attributes:
        tokenizer: The tokenizer, or None.
        padding: The id of padding.
        longest: The most steps of a row; None if there is no limit.
        has_texts: Whether rows are texts, which may be empty.
        reads_words: Whether a row is a list of words.
        encodes: Whether inputs differ from what the model reads.
        row_rank: Number of axes of a row that is an array; -1 if none is.
    """

    tokenizer: Tokenizer | None = None
    padding: int = 0
    longest: int | None = None
    has_texts: bool = True
    reads_words: bool = False
    encodes: bool = True
    row_rank: int = -1

    @property
    def is_waiting(self) -> bool:
        """Whether `fit` has yet to train the tokenizer."""
        return False

    def data(
        self, x: Any, y: Any = None, sample_weight: Any = None, labels: Any = None
    ) -> Data:
        """Returns inputs, labels and sample weights of any source, as lists or arrays.

        Args:
            x: As for `fit`.
            y: As for `fit`.
            sample_weight: As for `fit`.
            labels: The labels of the model, as its argument.
        """
        options = {"words": self.reads_words, "labels": labels}
        return sources.read(x, y, sample_weight, **options)

    def is_one(self, x: Any) -> bool:
        """Returns whether this is one input, and not a list or a batch."""
        return isinstance(x, str)

    def is_row(self, x: Any) -> bool:
        """Returns whether an array that a stream yields is one row, and no batch."""
        return rank(x) == self.row_rank

    def has_labels(self, x: Any) -> bool:
        """Returns whether these are rows with their labels, and not `(x, y)`."""
        return False

    def several(self, x: Any) -> Any:
        """Returns one input as a list with it, texts of words as lists of words.

        Others are returned as they are.
        """
        if self.reads_words:
            return text_inputs.sentences(x)
        return [x] if self.is_one(x) else x

    def complete(self, missing: str, *data: Any, **options: Any) -> Data:
        """Returns data without the rows that have an empty cell.

        Args:
            missing: "error" or "skip", as for `fit`.
            *data: As `data` returns them.
            **options: As for `complete_rows`.
        """
        return complete_rows(*data, missing, has_texts=self.has_texts, **options)

    def predictable(self, missing: str, x: Any) -> list[int] | None:
        """Returns the indices of rows without an empty cell; None for all.

        Args:
            missing: "error" or "skip", as for `predict`.
            x: Inputs, as `data` returns them.
        """
        return predictable_rows(x, missing, has_texts=self.has_texts)

    def none(self) -> Any:
        """Returns inputs without rows; None where their shape is that of the layers."""
        return None

    def rows(self, x: Any) -> Rows | None:
        """Converts inputs to rows; None for what Keras takes as it is."""
        raise NotImplementedError

    def word_rows(self, x: Any) -> Rows | None:
        """Converts inputs to rows with a label for each step, or for each word."""
        raise NotImplementedError

    def tokens(self, x: Any) -> tuple[list[str], np.ndarray]:
        """Returns the tokens of a text, and their indices in its row."""
        raise NotImplementedError

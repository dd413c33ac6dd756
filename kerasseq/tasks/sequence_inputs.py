"""Texts, words, ids or vectors as the inputs of a classifier or tagger."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from kerasseq.core import checks, ids
from kerasseq.core.types import Config
from kerasseq.tasks import data_checks, text_inputs
from kerasseq.tasks.input_rows import is_ids
from kerasseq.tasks.inputs import check_sizes, embedding_width, sequence_input
from kerasseq.tasks.preprocessor import Preprocessor
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training.label_batches import Rows


class SequencePreprocessor(Preprocessor):
    """Converts texts, words or ids to rows of ids; vectors stay as they are.

    Args:
        arguments: The arguments of the model: `tokenizer`, `vocabulary_size`,
            `features` and those of its layers.
        per_step: Whether each step has a label.

    Raises:
        TypeError: If the tokenizer is none.
        ValueError: If there is not exactly one kind of inputs.
    """

    def __init__(self, arguments: Config, per_step: bool) -> None:
        given = text_inputs.check_tokenizer(arguments["tokenizer"])
        arguments["tokenizer"], sizes = given, ("vocabulary_size", "features")
        if given is not None and not isinstance(given, str):
            self.tokenizer: Tokenizer = given
            self.padding: int = given.vocabulary_size
        others = [f"{n}={arguments[n]}" for n in sizes if arguments[n] is not None]
        received = others if given is None else ["a tokenizer", *others]
        if len(received) != 1:
            raise ValueError(
                'expected one of tokenizer, for texts, such as tokenizer="word", '
                "vocabulary_size, for ids, and features, for vectors; received "
                f"{' and '.join(received) or 'none of them'}"
            )
        self.arguments = arguments
        self.has_texts: bool = given is not None
        self.encodes: bool = self.has_texts
        self.reads_words: bool = per_step and self.has_texts
        self.row_rank: int = 1 if arguments["features"] is None else 2

    @property
    def is_waiting(self) -> bool:
        """Whether the tokenizer has to be trained."""
        return self.has_texts and self.tokenizer is None

    @property
    def size(self) -> int | None:
        """The number of ids, padding included; None for vectors."""
        if self.tokenizer is None:
            return self.arguments["vocabulary_size"]
        return self.padding + 1

    def trained(self, x: Any) -> Tokenizer:
        """Trains the tokenizer that the model names on texts, and returns it."""
        texts = None
        if self.reads_words:
            if text_inputs.are_words(x):
                texts = [" ".join(words) for words in x]
        elif text_inputs.are_texts(x):
            texts = list(x)
        if texts is None:
            raise TypeError(
                "expected texts, as the model has a tokenizer, received "
                f"x={checks.short(x)}"
            )
        return text_inputs.train_tokenizer(self.arguments["tokenizer"], texts)

    def layers(self) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Returns the input of the model, and its vectors `(batch, time, width)`."""
        a, size = self.arguments, self.size
        units, features = a["units"], a["features"]
        width = embedding_width(a["embedding_dim"], units)
        rows = {"vocabulary_size": size, "features": features}
        check_sizes(a["architecture"], units, a["num_layers"], width, rows)
        return sequence_input(size, features, width, a["mask_value"], self.padding)

    def rows(self, x: Any) -> Rows | None:
        if self.tokenizer is None or is_ids(x):
            return self._id_rows(x)
        x = self.several(x)
        if not text_inputs.are_texts(x):
            raise TypeError(
                "x must be a list of strings, as the model has a tokenizer, received "
                f"{checks.short(x)}"
            )
        return self._of_lists(self.text_ids(x))

    def text_ids(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of texts."""
        return text_inputs.text_rows(self.tokenizer, texts)

    def prefixes(self, x: Any, row: np.ndarray) -> list[np.ndarray]:
        """Returns the row of each prefix of an input.

        Args:
            x: A text, ids or vectors.
            row: Its row, `(T,)` or `(T, features)`.
        """
        return [row[: t + 1] for t in range(len(row))]

    def word_rows(self, x: Any) -> Rows | None:
        if self.tokenizer is None or is_ids(x):
            rows = self._id_rows(x)
            if rows is not None and rows.lengths is None:
                (part,) = x.values() if isinstance(x, Mapping) else [x]
                rows.per_step, rows.steps = True, np.shape(part)[1]
            return rows
        if not text_inputs.are_words(x):
            raise TypeError(
                "x must be a list of lists of words, as the model has a tokenizer, "
                f"received {checks.short(x)}"
            )
        rows, first = text_inputs.word_rows(self.tokenizer, x)
        return self._of_lists(rows, first)

    def _id_rows(self, x):
        """Rows of ids or vectors, checked."""
        if self.tokenizer is None:
            ids.refuse_texts(x, has_tokenizer=False)
        size, features = self.size, self.arguments["features"]
        name = "sequence" if size is None else "ids"
        x = data_checks.array_rows(x, size, self.padding, features, name)
        if isinstance(x, list):
            return self._of_lists(x)
        if data_checks.are_batches(x):
            return None
        return Rows(x, padding=self.padding, is_array=True)

    def _of_lists(self, rows, places=None):
        lengths = np.array([len(row) for row in rows])
        return Rows(rows, lengths=lengths, padding=self.padding, places=places)

    def tokens(self, x: Any) -> tuple[list[str], np.ndarray]:
        text = " ".join(x.split()) if self.reads_words else x
        offsets = self.tokenizer.encode_with_offsets(text).offsets.tolist()
        tokens = [text[a:b] for a, b in offsets]
        return tokens, np.arange(len(tokens))

r"""Prompts with answers, and conversations: rows in which only the answers count.

$$L = -\frac{\sum_t w_t \ln p(x_t \mid x_1 \dots x_{t-1})}{\sum_t w_t}$$

with $w_t = 1$ at the tokens of answers, and 0 at those of prompts, of questions and of
padding. Texts among the rows count with all of their tokens, so that a model does not
forget what it learned from texts before.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kerasseq.core import checks
from kerasseq.core.messages import are_messages
from kerasseq.core.padding import padded
from kerasseq.models.text_blocks import are_texts, read_texts
from kerasseq.tasks.fit_call import FitCall
from kerasseq.text.chat import answers
from kerasseq.text.tokenizers.tokenizer import chat_template_of
from kerasseq.training.batches import GroupedBatches, TrainingRows

Encode = Callable[[Any], np.ndarray | None]  # from a text, or ids, to ids
Inputs = Callable[[np.ndarray, np.ndarray], Any]
MESSAGES = (
    "messages"  # the column of conversations, as in the packages trl and datasets
)


class Row(NamedTuple):
    """The tokens of a row, and what each counts.

    Attributes:
        ids: Ids `(tokens,)`.
        weights: float32 `(tokens,)`, 0 for those that are given.
    """

    ids: np.ndarray
    weights: np.ndarray


class Reader(NamedTuple):
    """Reads prompts with answers, and conversations, as rows.

    Attributes:
        encode: Function from a text or ids to ids; None for anything else.
        tokenizer: The tokenizer, whose chat template writes conversations.
        positions: The most tokens that the model reads.
        sequence_length: Tokens of a block of texts.
    """

    encode: Encode
    tokenizer: Any
    positions: float
    sequence_length: int

    def rows(self, x: Sequence[Any], y: Any = None, weights: Any = None) -> list[Row]:
        """Returns the rows of prompts and answers, or of conversations.

        Args:
            x: Prompts, if there is `y`; else conversations, and texts among them.
            y: Answers, or None.
            weights: What each of them counts, a number each.

        Raises:
            TypeError: If one is of the wrong type.
            ValueError: If one is empty or too long, or there is no chat template.
        """
        count = len(x)
        if y is not None and len(y) != count:
            raise ValueError(
                f"prompts and answers must be as many, received {count} and {len(y)}"
            )
        weights = np.ones(count) if weights is None else np.asarray(weights, "float32")
        if weights.shape != (count,):
            raise ValueError(
                f"sample_weight must have a number for each of the {count} rows, "
                f"received an array of shape {weights.shape}"
            )
        weighted: list[Row] = []
        for n, given in enumerate(x):
            if y is not None:
                rows = [self._joined([(given, False), (y[n], True)], f"row {n}")]
            elif isinstance(given, str):
                rows = self._blocks(given, f"x[{n}]")
            else:
                rows = [self._conversation(given, f"x[{n}]")]
            weighted += [Row(ids, each * weights[n]) for ids, each in rows]
        return weighted

    def _conversation(self, given, where):
        if _has_messages(given):
            given = given[MESSAGES]
        template = chat_template_of(self.tokenizer)
        return self._joined(answers.parts(template, given, where), where)

    def _joined(self, parts, where):
        """Returns a row of parts, which are tokenized apart, as in a chat."""
        ids = [self._ids(text, where) for text, _ in parts]
        weights = [
            np.full(len(each), counts, "float32")
            for each, (_, counts) in zip(ids, parts, strict=True)
        ]
        row = Row(np.concatenate(ids), np.concatenate(weights))
        if len(row.ids) > self.positions + 1:  # the last token is not read
            raise ValueError(
                f"{where} must have at most {self.positions + 1} tokens with its "
                f"answers, received {len(row.ids)}. Shorten it, or choose a larger "
                "max_sequence_length for the model"
            )
        return row

    def _ids(self, part, where):
        if isinstance(part, str) and not part:
            raise ValueError(f"{where} must have a prompt and an answer, received ''")
        ids = self.encode(part)
        if ids is None or not len(ids):
            raise TypeError(
                f"{where} must be texts, or ids (tokens,), received "
                f"{checks.short(part)}"
            )
        return ids

    def _blocks(self, text, where):
        """Rows of a text, of which each continues the one before."""
        ids = self._ids(text, where)
        length = self.sequence_length
        starts = range(0, max(len(ids) - 1, 1), length)
        blocks = [ids[start : start + length + 1] for start in starts]
        return [Row(block, np.ones(len(block), "float32")) for block in blocks]


def read(reader: Reader, x: Any, y: Any, weights: Any) -> list[Row] | None:
    """Returns the rows of data of `fit`; None if they are something else.

    Args:
        reader: The reader.
        x: Prompts, a list or a column; or conversations, see `conversations_of`.
        y: Answers to the prompts, or None.
        weights: What each row counts, or None.
    """
    conversations = conversations_of(x)
    if conversations is not None:
        return reader.rows(conversations, y, weights)
    x, y = (None, None) if y is None else read_texts(x, y)
    return reader.rows(x, y, weights) if are_pairs(x, y) else None


def conversations_of(x: Any) -> list[Any] | None:
    """Returns conversations, with texts among them, as a list; None if there are none.

    Args:
        x: A list of conversations, each a list of messages or a dictionary with
            "messages"; or a table with a column "messages".

    Examples:
        >>> talk = [{"role": "user", "content": "Hi"}]
        >>> conversations_of({"messages": [talk], "id": [3]}) == [talk]
        True
        >>> conversations_of(["a text"]) is None
        True
    """
    if isinstance(x, list | tuple):
        is_one = (are_messages(each) or _has_messages(each) for each in x)
        return list(x) if any(is_one) else None
    columns = getattr(x, "column_names", getattr(x, "columns", ()))
    if MESSAGES not in (x if isinstance(x, Mapping) else list(columns)):
        return None
    column = x[MESSAGES]
    for method in ("to_list", "to_pylist"):  # of pandas and polars, of Arrow
        if hasattr(column, method):
            return getattr(column, method)()
    return list(column)


def _has_messages(each):
    return isinstance(each, Mapping) and MESSAGES in each


def are_pairs(x: Any, y: Any) -> bool:
    """Returns whether these are prompts and answers: texts, or rows of ids.

    Examples:
        >>> are_pairs(["Hi"], ["Yes"]), are_pairs([[3, 1], [4]], [[1], [5]])
        (True, True)
        >>> are_pairs(np.ones((2, 3)), np.ones((2, 3))), are_pairs(["a text"], None)
        (False, False)
    """
    both_texts = are_texts(x) and are_texts(y)
    return both_texts or (_are_rows_of_ids(x) and _are_rows_of_ids(y))


def _are_rows_of_ids(rows):
    if not isinstance(rows, list | tuple) or not rows:
        return False
    return all(
        getattr(row, "ndim", None) == 1
        or (isinstance(row, list) and row and isinstance(row[0], int | np.integer))
        for row in rows
    )


def arrays(
    rows: Sequence[Row], inputs: Inputs, length: int | None = None
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Returns inputs, targets and weights `(rows, T)` of rows, padded on the right.

    Args:
        rows: The rows.
        inputs: Function from ids, and where they are no padding, to what a model reads.
        length: T + 1; that of the longest row if None.

    Examples:
        >>> rows = [Row([3, 1, 2], [0, 1, 1]), Row([5, 4], [0, 1])]
        >>> parts = arrays(rows, lambda ids, real: np.where(real, ids, -1))
        >>> [array.tolist() for array in parts]
        [[[3, 1], [5, 4]], [[1, 2], [4, 0]], [[1.0, 1.0], [1.0, 0.0]]]
    """
    ids = padded([row.ids for row in rows], length)
    weights = padded([row.weights for row in rows], ids.shape[1], "float32")
    real = np.arange(ids.shape[1]) < np.array([[len(row.ids)] for row in rows])
    return inputs(ids[:, :-1], real[:, :-1]), ids[:, 1:], weights[:, 1:]


@dataclasses.dataclass
class AnswerRows(TrainingRows):
    """Rows of answers to train on.

    Attributes:
        rows: The rows.
        inputs: As for `arrays`.
        longest: The most tokens of a row that the model reads, with the last one.

    Examples:
        >>> rows = [Row(np.arange(n), np.arange(n) > 0) for n in (3, 5, 5, 3)]
        >>> batches = AnswerRows(rows, lambda ids, real: ids).batches(2)
        >>> sorted(batches.batch(n)[0].shape for n in range(2))
        [(2, 2), (2, 4)]
    """

    rows: Sequence[Row]
    inputs: Inputs
    longest: float = math.inf

    def batches(self, batch_size: int, seed: int = 0) -> GroupedBatches:
        """Returns batches of a few lengths; of one, if texts are among the rows.

        Texts are longer than answers. In batches of their own their weights would have
        no effect, as the loss is a mean.

        Args:
            batch_size: Rows in a batch.
            seed: Seed of the order.
        """
        rows, groups = self.rows, 3
        lengths = getattr(rows, "lengths", None)  # `DocumentRows` know them
        if lengths is None:
            lengths = np.array([len(row.ids) for row in rows])
            are_mixed = any(row.weights[0] for row in rows)  # the first token of a text
            groups = 1 if are_mixed else groups
        sizes = batch_size, seed, groups, self.longest
        return GroupedBatches(lengths[:, None], *sizes, self.take)

    def take(self, rows: np.ndarray, length: int) -> tuple[Any, np.ndarray, np.ndarray]:
        """Returns some rows as arrays: inputs, targets and weights."""
        return arrays([self.rows[row] for row in rows], self.inputs, max(length, 2))

    def held_out(self, call: FitCall) -> tuple[Any, np.ndarray, np.ndarray]:
        """Returns the rows as arrays, for validation."""
        return arrays(self.rows, self.inputs)

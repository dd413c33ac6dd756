"""Texts for language models: read from any source, and cut into blocks of tokens."""

import contextlib
import dataclasses
import io
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

import numpy as np

from kerasseq.core import checks
from kerasseq.datasets import text_file
from kerasseq.datasets.joined_ids import JoinedIds
from kerasseq.tasks import sources
from kerasseq.tasks.data_checks import as_array
from kerasseq.tasks.fit_call import FitCall
from kerasseq.tasks.sources import Row
from kerasseq.text.texts import id_array
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training import TextBatches
from kerasseq.training.batches import HELD_OUT, TrainingRows

Encode = Callable[[str], np.ndarray]  # from a text to its ids
Block = tuple[np.ndarray, np.ndarray]  # inputs and targets
Options = dict[str, Any]  # arguments of Keras


def known_ids(tokenizer: Tokenizer | None, vocabulary_size: int | None) -> int:
    """Returns the vocabulary size, of the tokenizer or as given.

    Examples:
        >>> known_ids(None, 7)
        7

    Raises:
        ValueError: If neither or both are given.
    """
    if (tokenizer is None) == (vocabulary_size is None):
        raise ValueError(
            "give a fitted tokenizer for text, or vocabulary_size for ids; received "
            f"tokenizer={tokenizer!r}, vocabulary_size={vocabulary_size}"
        )
    size = vocabulary_size if tokenizer is None else tokenizer.vocabulary_size
    return checks.whole_number("vocabulary_size", size)


def text_of_file(x: Any) -> Any:
    """Returns the text of a file; other data as they are."""
    if isinstance(x, pathlib.Path):
        return text_file(x)
    return x.read() if isinstance(x, io.TextIOBase) else x


def check_no_file_name(text: Any, tokens: int, sequence_length: int) -> None:
    """Raises if a text is too short to train on and is the name of a file.

    Args:
        text: What `fit` was given.
        tokens: Number of its tokens.
        sequence_length: Tokens of a block.

    Examples:
        >>> check_no_file_name("to be", 5, 4)
    """
    if tokens > sequence_length or not isinstance(text, str) or "\n" in text:
        return
    if len(text) < 256 and pathlib.Path(text).is_file():
        raise ValueError(
            f'"{text}" is read as a text of {tokens} tokens, too few for one sequence '
            f"of {sequence_length}. To train on the file of this name, give "
            f'pathlib.Path("{text}")'
        )


def read_texts(x: Any, y: Any = None, *, rows: int | None = None) -> tuple[Any, Any]:
    """Returns columns, tables and streams of texts as a list, and targets.

    Args:
        x: Texts, as for `sources.read`, or a file. Ids and other data are returned as
            they are.
        y: Targets, for rows of ids.
        rows: How many rows of a stream to read; all if None.

    Raises:
        ValueError: If there are labels beside the texts.

    Examples:
        >>> read_texts(np.array(["ab", "c"])), read_texts(iter(["ab", "c"]))
        ((['ab', 'c'], None), (['ab', 'c'], None))
    """
    x, labels, _ = sources.read(text_of_file(x), y, rows=rows)
    if isinstance(x, np.ndarray) and x.dtype.kind in "OU":
        x = x.tolist()
    if y is None and labels is not None and are_texts(x):
        raise _labeled(labels[0])
    return x, labels


def _labeled(label):
    return ValueError(
        "a language model reads texts alone, received labels as well, such as "
        f"{checks.short(label)}. Pass the column of texts, data['text'], or a stream "
        "that yields texts"
    )


def encoded(rows: Iterable[Row], encode: Encode) -> Iterator[np.ndarray]:
    """Yields the ids of each text of a stream."""
    for text, *labels in rows:
        if labels or not isinstance(text, str):
            raise _labeled(labels[0] if labels else text)
        yield encode(text)


def first_ids(rows: Iterable[Row], encode: Encode, count: int) -> np.ndarray:
    """Returns the first ids of a stream of texts.

    Args:
        rows: The rows of a `TextStream`.
        encode: Function from a text to its ids.
        count: Number of ids.

    Examples:
        >>> rows = [("ab",), ("cde",), ("f",)]
        >>> first_ids(rows, lambda text: np.array([*map(ord, text)]), 3)
        array([97, 98, 99])
    """
    parts: list[np.ndarray] = []
    for ids in encoded(rows, encode):
        parts.append(ids)
        count -= len(ids)
        if count <= 0:
            break
    return np.concatenate(parts or [np.zeros(0, "int32")])[: count or None]


def stream_blocks(
    rows: Iterable[Row], encode: Encode, sequence_length: int, batch_size: int
) -> Iterator[Block]:
    """Yields batches of consecutive blocks of a stream of texts.

    Args:
        rows: The rows of a `TextStream`.
        encode: Function from a text to its ids.
        sequence_length: Tokens of a block.
        batch_size: Blocks in a batch. The last blocks that fill no batch are left out.

    Examples:
        >>> rows = [("abc",), ("de",)]
        >>> ids = {"abc": np.arange(3), "de": np.arange(3, 5)}.get
        >>> [(x, y)] = stream_blocks(rows, ids, sequence_length=2, batch_size=2)
        >>> x.tolist(), y.tolist()
        ([[0, 1], [2, 3]], [[1, 2], [3, 4]])
    """
    checks.whole_number("sequence_length", sequence_length)
    size = sequence_length * checks.whole_number("batch_size", batch_size)
    rest = np.zeros(0, "int32")
    for ids in encoded(rows, encode):
        rest = np.concatenate([rest, ids])
        while len(rest) > size:
            shape = batch_size, sequence_length
            yield rest[:size].reshape(shape), rest[1 : size + 1].reshape(shape)
            rest = rest[size:]


def blocks_of(ids: np.ndarray, sequence_length: int) -> Block:
    """Returns inputs and targets `(B, T)` of the consecutive blocks of a text."""
    whole = TextBatches(ids, sequence_length, 1)
    return whole.take(np.arange(0, len(ids) - sequence_length, sequence_length))


class TextCut:
    """How a text is cut into batches: into blocks, which training shuffles."""

    def blocks(self, ids: np.ndarray, sequence_length: int, batch_size: int) -> Block:
        """Returns inputs and targets `(rows, T)` to evaluate a text on."""
        return blocks_of(ids, sequence_length)

    def batches(
        self, ids: np.ndarray, sequence_length: int, batch_size: int, seed: int
    ) -> Any:
        """Returns the batches of training; see `NumberedBatches`."""
        return TextBatches(ids, sequence_length, batch_size, seed)

    def stream(
        self, rows: Iterable[Row], encode: Encode, sequence_length: int, batch_size: int
    ) -> Iterator[Block]:
        """Yields the batches of a stream."""
        return stream_blocks(rows, encode, sequence_length, batch_size)

    def training_on(
        self, call: FitCall, source: Any, arguments: Options
    ) -> contextlib.AbstractContextManager[Options]:
        """Returns a context of `fit` of Keras; see `TaskModel.training_on`."""
        return contextlib.nullcontext(arguments)

    def evaluating_on(
        self, arguments: Options
    ) -> contextlib.AbstractContextManager[Options]:
        """Returns a context of `evaluate`; see `TaskModel.evaluating_on`."""
        return contextlib.nullcontext(arguments)


@dataclasses.dataclass
class TextRows(TrainingRows):
    """A text to train on.

    Attributes:
        rows: Its ids `(tokens,)`.
        cut: How it is cut into blocks.
        sequence_length: Tokens of a block.
    """

    rows: np.ndarray
    cut: TextCut
    sequence_length: int

    def split(self, fraction: float, seed: int) -> tuple[Self, Self]:
        """Splits a text into training and its end, for validation."""
        training, end = super().split(fraction, seed)
        if len(end) < self.sequence_length + 1:
            raise ValueError(
                f"validation_split={fraction or HELD_OUT} of {len(self)} tokens are "
                f"{len(end)}, too few for one block of sequence_length="
                f"{self.sequence_length} and the next token. Choose a larger fraction "
                "or shorter blocks, or pass `validation_data`"
            )
        return training, end

    def batches(self, batch_size: int, seed: int) -> Any:
        return self.cut.batches(self.rows, self.sequence_length, batch_size, seed)

    def held_out(self, call: FitCall) -> Block:
        """Returns the blocks of the text, for validation."""
        return self.cut.blocks(self.rows, self.sequence_length, call.held_out_size)


def as_ids(
    source: Any, tokenizer: Tokenizer | None, vocabulary_size: int
) -> np.ndarray | None:
    """Returns the ids of a text.

    Args:
        source: A string, which is never the name of a file; a list of strings, which
            are concatenated; a `pathlib.Path`, an open file, or integers `(tokens,)`.
        tokenizer: The tokenizer of the strings, or None.
        vocabulary_size: One more than the largest id allowed.

    Returns:
        Array `(tokens,)` of int32; None if `source` is none of these.

    Raises:
        TypeError: If an id is not an integer.
        ValueError: If the text is empty, an id out of range, or there is a text and
            no tokenizer.

    Examples:
        >>> as_ids(np.array([2, 0, 1]), None, 3).tolist()
        [2, 0, 1]
    """
    source = text_of_file(source)
    if isinstance(source, JoinedIds):  # of shards, whose ids are known to be in range
        return source
    if isinstance(source, str):
        return _encode(source, tokenizer)
    if are_texts(source):
        return np.concatenate([_encode(text, tokenizer) for text in source])
    if isinstance(source, list) and source and isinstance(source[0], int):
        source = as_array(source)
    if not hasattr(source, "shape") or len(source.shape) != 1:
        return None
    if not source.shape[0]:
        return np.zeros(0, "int32")
    return id_array(source, vocabulary_size).astype("int32")


def are_texts(source: Any) -> bool:
    """Returns whether this is a list of strings, and not empty."""
    several = isinstance(source, list | tuple) and len(source) > 0
    return several and all(isinstance(text, str) for text in source)


def _encode(text: str, tokenizer: Tokenizer | None) -> np.ndarray:
    if tokenizer is None:
        raise ValueError(
            "the model has no tokenizer to read text with: build it with one, or give "
            "ids"
        )
    if not text:
        raise ValueError("the text is empty: it must have a token, received ''")
    return tokenizer.encode(text)


def scoring_rows(
    ids: np.ndarray, sequence_length: int, batch_size: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Splits a text into rows that score each token but the first exactly once.

    Args:
        ids: Array `(tokens,)`.
        sequence_length: Tokens of a row, of which the first quarter is context.
        batch_size: Rows in a batch.

    Yields:
        Inputs, targets and a boolean mask of the targets to score, each
        `(batch_size, sequence_length)`.

    Raises:
        ValueError: If there are fewer than two tokens.

    Examples:
        >>> rows = list(scoring_rows(np.arange(11), sequence_length=8, batch_size=2))
        >>> [y[counted].tolist() for _, y, counted in rows]
        [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]
    """
    if len(ids) < 2:
        raise ValueError(
            "expected a text of at least two tokens, as the first is not predicted, "
            f"received {len(ids)}"
        )
    warm_up = sequence_length // 4
    fresh = sequence_length - warm_up
    starts = range(1, len(ids), fresh)
    for first in range(0, len(starts), batch_size):
        x, y = np.zeros((2, batch_size, sequence_length), "int32")
        counted = np.zeros((batch_size, sequence_length), bool)
        for row, start in enumerate(starts[first : first + batch_size]):
            begin = max(start - warm_up, 1)
            targets = ids[begin : start + fresh]
            x[row, : len(targets)] = ids[begin - 1 : begin - 1 + len(targets)]
            y[row, : len(targets)] = targets
            counted[row, start - begin : len(targets)] = True
        yield x, y, counted

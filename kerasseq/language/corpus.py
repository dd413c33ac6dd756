"""Texts in the forms in which users have them, as the ids that a model reads."""

import io
import pathlib

import numpy as np

from kerasseq.datasets import text_file
from kerasseq.text.ids import id_array


def as_ids(source, tokenizer, vocabulary_size):
    """The ids of a text.

    Args:
        source: A string, which is never the name of a file; a list of strings, which
            follow one another; a `pathlib.Path`, an open file, or integers `(tokens,)`.
        tokenizer: What turns strings into ids, or None.
        vocabulary_size: One more than the largest id allowed.

    Returns:
        Array `(tokens,)` of int32; None if `source` is none of these.

    Raises:
        TypeError: If an id is no whole number.
        ValueError: If the text is empty, an id out of range, or there is a text and
            no tokenizer.

    Examples:
        >>> as_ids(np.array([2, 0, 1]), None, 3).tolist()
        [2, 0, 1]
    """
    if isinstance(source, pathlib.Path):
        source = text_file(source)
    elif isinstance(source, io.TextIOBase):
        source = source.read()
    if isinstance(source, str):
        return _encode(source, tokenizer)
    if are_texts(source):
        return np.concatenate([_encode(text, tokenizer) for text in source])
    if isinstance(source, list) and source and isinstance(source[0], int):
        source = np.array(source)
    if not hasattr(source, "shape") or len(source.shape) != 1:
        return None
    return id_array(source, vocabulary_size).astype("int32")


def are_texts(source):
    """Whether there are several texts: strings in a list, and one at least."""
    several = isinstance(source, list | tuple) and len(source) > 0
    return several and all(isinstance(text, str) for text in source)


def _encode(text, tokenizer):
    if tokenizer is None:
        raise ValueError(
            "the model has no tokenizer to read text with: build it with one, or give "
            "ids"
        )
    if not text:
        raise ValueError("the text is empty")
    return tokenizer.encode(text)


def scoring_rows(ids, sequence_length, batch_size):
    """Cut a text into rows of equal shape that score each token but the first once.

    Args:
        ids: Array `(tokens,)`.
        sequence_length: Tokens in a row, of which a quarter repeats what stands before.
        batch_size: Rows in a batch.

    Yields:
        Inputs, targets and a boolean array of the targets that count, each
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
            f"a text of {len(ids)} tokens has none that could be predicted"
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

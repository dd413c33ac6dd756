"""Texts as GPT reads them for a task: rows with a mark at each end and between texts.

Radford et al. 2018, figure 1. Course slides C: the GPT architecture.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.core.ids import check_ids
from kerasseq.core.padding import bucket
from kerasseq.models.bert.bert_texts import (
    BERTPreprocessor,
    check_steps,
    rectangular,
)
from kerasseq.tasks.data_checks import as_array
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training.label_batches import Rows

SPECIAL_TOKENS = (
    "start",
    "delimiter",
    "extract",
)  # new ids, in this order; padding is next


class GPTPreprocessor(BERTPreprocessor):
    """Makes arrays of texts, pairs and choices, or checks those that it is given.

    A text is a string or a list of ids; marks come to it here. An array of ids has its
    marks already and is taken as it is.

    Args:
        tokenizer: A fitted tokenizer, or None.
        vocabulary_size: V, the number of its ids; the marks are V, V + 1, V + 2, and
            V + 3 is padding.
        longest: The most ids in a row, or None.
        rows: 2 if an example is one row, 3 if it is several.
        truncate: Whether texts that are too long are cut, the longest first.

    Attributes:
        has_marks: Whether special tokens are added to texts.
        least_rows: The fewest rows of an example, if it is several.
    """

    has_marks: bool = True
    least_rows: int = 2

    def __init__(
        self,
        tokenizer: Tokenizer | None,
        vocabulary_size: int,
        longest: int | None,
        rows: int,
        truncate: bool = False,
    ) -> None:
        self.tokenizer = tokenizer
        self.vocabulary_size = vocabulary_size
        self.longest: int | None = longest
        self.axes = rows
        self.truncate = truncate
        self.separators = 1
        self.start: int = vocabulary_size + SPECIAL_TOKENS.index("start")
        self.delimiter: int = vocabulary_size + SPECIAL_TOKENS.index("delimiter")
        self.end: int = vocabulary_size + SPECIAL_TOKENS.index("extract")
        self.padding: int = vocabulary_size + len(SPECIAL_TOKENS)

    def marks(self) -> dict[int, str]:
        """Returns the names of the special tokens by their ids."""
        return {
            self.vocabulary_size + n: f"[{name}]"
            for n, name in enumerate(SPECIAL_TOKENS)
        }

    def rows(self, x: Any) -> Rows | None:
        """Converts texts or pairs of texts."""
        return self._read(x, lambda each: [_parts(each)])

    def single_rows(self, x: Any) -> Rows | None:
        """Converts single texts."""
        return self._read(x, self._single)

    def pair_rows(self, x: Any) -> Rows | None:
        """Pairs of texts, in their order."""
        return self._read(x, lambda each: [_pair(each)])

    def both_order_rows(self, x: Any) -> Rows | None:
        """Pairs of texts, in both orders, `(B, 2, T)`."""
        return self._read(x, lambda each: [_pair(each), _pair(each)[::-1]])

    def choice_rows(self, x: Any) -> Rows | None:
        """Pairs of a context and a list of answers, `(B, K, T)`.

        Where there are fewer answers, rows are padding. `places` are the answers; for
        arrays, their indices.
        """
        rows = self._read(x, _choices)
        if rows is None:
            return None
        if _is_list(x):
            return dataclasses.replace(rows, places=[list(answers) for _, answers in x])
        there = (rows.arrays["ids"] != self.padding).any(-1).sum(-1)
        return dataclasses.replace(rows, places=[list(range(count)) for count in there])

    def word_rows(self, x: Any) -> Rows | None:
        """Lists of words, texts with spaces between them, or lists of ids.

        `places` are those of the last piece of each: before it a word is not read.
        """
        if not _is_list(x):
            return self._read(x, None)
        texts, places = [], []
        for each in x:
            if _is_ids(each):
                ids, last = each, np.arange(len(each))
            else:
                ids, last = self._last_pieces(each)
            texts.append([(ids,)])
            places.append(1 + last)  # [start] is before them
        return Rows(self._packed(texts), places=places)

    def context_rows(self, x: Any) -> Rows | None:
        """Converts texts, or questions and texts, with the places of their tokens.

        Those of no answer are those of the last mark. In a list of ids an id counts
        as a character does in a text.
        """
        rows = self.rows(x)
        if rows is None or not _is_list(x):
            return rows
        places = []
        for *before, text in map(_parts, x):
            first = 1 + sum(len(self.encode(part)) + 1 for part in before)
            if isinstance(text, str):
                offsets = self._tokenizer().encode_with_offsets(text).offsets
            else:
                offsets = np.arange(len(text))[:, None] + [0, 1]
            places.append((offsets, first, first + len(offsets), len(text)))
        return dataclasses.replace(rows, places=places)

    def _last_pieces(self, words: Any) -> tuple[list[int], np.ndarray]:
        """Returns the ids of a text, and the last of each word."""
        parts = [words] if isinstance(words, str) else words
        if not isinstance(parts, list | tuple) or not all(
            isinstance(part, str) for part in parts
        ):
            raise TypeError(
                f"each must be a text, a list of words or a list of ids, "
                f"received {words!r}"
            )
        text = words if isinstance(words, str) else " ".join(words)
        encoding = self._tokenizer().encode_with_offsets(text)
        spans = [match.span() for match in re.finditer(r"\S+", text)]
        if not isinstance(words, str):
            ends = np.cumsum([len(word) + 1 for word in words]) - 1
            spans = [
                (end - len(word), end) for word, end in zip(words, ends, strict=True)
            ]
        starts, ends = encoding.offsets.T
        last = []
        for first, end in spans:
            inside = np.flatnonzero((ends > first) & (starts < end))
            if not text[first:end].strip() or not len(inside):
                raise ValueError(
                    "each word must have a token of its own, received "
                    f"{text[first:end]!r} in {checks.short(text)}"
                )
            last.append(inside[-1])
        return encoding.ids.tolist(), np.array(last, int)

    def _single(self, each: Any) -> list[tuple[Any, ...]]:
        if isinstance(each, str) or _is_ids(each):
            return [(each,)]
        raise TypeError(
            f"this head reads single texts, received {each!r}: for pairs take "
            'with_head("entail"), or "compare" if they have no order'
        )

    def _read(
        self, x: Any, rows_of: Callable[[Any], list[tuple[Any, ...]]]
    ) -> Rows | None:
        """Returns rows that `rows_of` makes of each example; None for anything else."""
        if isinstance(x, dict) or hasattr(x, "shape"):
            return Rows(self._checked(x))
        if not _is_list(x):
            return None
        return Rows(self._packed([rows_of(each) for each in x]))

    def _packed(
        self, examples: Sequence[Sequence[tuple[Any, ...]]]
    ) -> dict[str, np.ndarray]:
        """Rows of texts as ids `(B, T)`, or `(B, K, T)` if there are several."""
        rows = [
            [self._marked(texts, n) for texts in example]
            for n, example in enumerate(examples)
        ]
        most = max(map(len, rows))
        length = bucket(max(len(row) for example in rows for row in example))
        length = length if self.longest is None else min(length, self.longest)
        ids = np.full((len(rows), most, length), self.padding, "int32")
        for n, example in enumerate(rows):
            for k, row in enumerate(example):
                ids[n, k, : len(row)] = row
        return {"ids": ids if self.axes == 3 else ids[:, 0]}

    def _marked(self, texts: tuple[Any, ...], n: int) -> list[int]:
        """Returns the ids of one row."""
        row, parts = [self.start], [self.encode(part) for part in texts]
        if not all(map(len, parts)):
            raise ValueError(
                f"text {n} is empty, or a part of it: expected at least one token in "
                f"each, received {checks.short(texts)}"
            )
        for ids in self._cut(parts):
            row += [*ids, self.delimiter]
        row[-1] = self.end
        if self.longest is not None and len(row) > self.longest:
            raise ValueError(
                f"text {n} has {len(row)} tokens, the marks included, but the model "
                f"reads max_sequence_length={self.longest} at most: cut the text, by "
                "truncate=True to classify, or pre-train a model for longer ones"
            )
        return row

    def encode(self, text: Any) -> Sequence[int] | np.ndarray:
        """Returns the ids of one text, or ids as they are."""
        if isinstance(text, str):
            return super().encode(text)
        ids = as_array(text) if _is_ids(text) else None
        if ids is None:
            raise TypeError(
                f"a text must be a string or a list of ids, received {text!r}"
            )
        check_ids(ids, "ids", "vocabulary_size", self.vocabulary_size)
        return ids.tolist()

    def _checked(self, x: Any) -> dict[str, np.ndarray]:
        x = x if isinstance(x, dict) else {"ids": x}
        if x.keys() != {"ids"}:
            raise ValueError(f'inputs must be "ids" alone, received {sorted(x)}')
        ids = rectangular("ids", x["ids"])
        wanted = "(rows, time)" if self.axes == 2 else "(examples, rows, time)"
        if ids.ndim != self.axes:
            raise ValueError(f"ids must be {wanted}, received the shape {ids.shape}")
        if self.longest is not None and ids.shape[-1] > self.longest:
            raise ValueError(
                f"ids have {ids.shape[-1]} tokens in a row, but the model reads "
                f"max_sequence_length={self.longest} at most"
            )
        check_steps(ids)
        if self.axes == 3 and len(ids) and ids.shape[1] < self.least_rows:
            raise ValueError(
                "ids must have at least two answers in each example, received the "
                f"shape {ids.shape}"
            )
        check_ids(ids, "ids", "vocabulary_size + marks + padding", self.padding + 1)
        return {"ids": ids.astype("int32")}


def _is_list(x: Any) -> bool:
    return isinstance(x, list | tuple) and len(x) > 0


def _is_ids(text: object) -> bool:
    """Returns whether this is a text as ids, and no string or pair.

    Examples:
        >>> _is_ids([3, 1]), _is_ids(["a", "b"]), _is_ids((3, 1))
        (True, False, False)
    """
    if hasattr(text, "shape"):
        return len(text.shape) == 1
    return isinstance(text, list) and not any(
        isinstance(each, str | list | tuple) for each in text
    )


def _parts(each: Any) -> tuple[Any, ...]:
    """Returns a text or a pair as a tuple of texts."""
    return (each,) if isinstance(each, str) or _is_ids(each) else _pair(each)


def _pair(each: Any) -> tuple[Any, ...]:
    if isinstance(each, str) or _is_ids(each) or not _is_two(each):
        raise TypeError(
            f"each must be a pair of texts (a, b), received {checks.short(each)}"
        )
    return tuple(each)


def _is_two(each: Any) -> bool:
    return isinstance(each, list | tuple | np.ndarray) and len(each) == 2


def _choices(each: Any) -> list[tuple[Any, ...]]:
    """Returns the rows of one question.

    Examples:
        >>> _choices(("2 + 2 =", ["4", "5"]))
        [('2 + 2 =', '4'), ('2 + 2 =', '5')]
    """
    right = not isinstance(each, str) and _is_two(each)
    right = right and hasattr(each[1], "__len__") and not isinstance(each[1], str)
    if not right or _is_ids(each[1]) or len(each[1]) < 2:
        raise TypeError(
            "each must be a text and a list of at least two answers, "
            f"(context, [answer, answer]), received {checks.short(each)}"
        )
    return [(each[0], answer) for answer in each[1]]

"""Texts as BERT reads them: pairs in a row, words with tags, contexts with answers."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.core.ids import check_ids
from kerasseq.core.padding import bucket
from kerasseq.tasks.data_checks import as_array
from kerasseq.tasks.preprocessor import Preprocessor, word_ids
from kerasseq.text.tokenizers.tokenizer import Tokenizer
from kerasseq.training.label_batches import Rows
from kerasseq.training.masked_lm import special_id
from kerasseq.training.sentence_pairs import pack

SPECIAL_IDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
NEEDED = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = {"[PAD]": "<pad>", "[CLS]": "<s>", "[SEP]": "</s>", "[MASK]": "<mask>"}


class BERTPreprocessor(Preprocessor):
    """Makes arrays of texts, or checks the arrays that it is given.

    Args:
        tokenizer: A fitted tokenizer with the special tokens of BERT or RoBERTa, or
            None.
        special_ids: The ids of these, for a model without tokenizer; those of a new
            `WordPieceTokenizer` if None.
        vocabulary_size: Number of ids.
        num_segments: Number of segments.
        longest: The most ids in a row.
        separators: How many `[SEP]` stand between the texts of a pair.
        truncate: Whether a text that is too long is cut.

    Raises:
        ValueError: If there are both or a special token is missing.
    """

    row_rank: int = 1

    def __init__(
        self,
        tokenizer: Tokenizer | None,
        special_ids: dict[str, int] | None,
        vocabulary_size: int,
        num_segments: int,
        longest: int,
        separators: int = 1,
        truncate: bool = False,
    ) -> None:
        if tokenizer is not None and special_ids is not None:
            raise ValueError(
                f"special_ids={special_ids} is for models without a tokenizer: the "
                "tokenizer has its own"
            )
        if tokenizer is not None:
            names = special_names(tokenizer)
            special_ids = {t: special_id(tokenizer, name) for t, name in names.items()}
        self.special_ids: dict[str, int] = (
            SPECIAL_IDS if special_ids is None else special_ids
        )
        if missing := [t for t in NEEDED if t not in self.special_ids]:
            raise ValueError(
                f"special_ids={special_ids} has no id of {', '.join(missing)}"
            )
        for token, i in self.special_ids.items():
            checks.whole_number(f"special_ids[{token!r}]", i, at_least=0)
        self.tokenizer = tokenizer
        self.vocabulary_size = vocabulary_size
        self.num_segments = num_segments
        self.longest: int | None = longest
        self.separators = separators
        self.truncate = truncate
        self.start: int = self.special_ids["[CLS]"]
        self.end: int = self.special_ids["[SEP]"]
        self.padding: int = self.special_ids["[PAD]"]

    def is_one(self, x: Any) -> bool:
        return isinstance(x, str | tuple)

    def rows(self, x: Any) -> Rows | None:
        """Converts texts, pairs, rows of ids, or arrays; None for anything else."""
        if isinstance(x, dict) or hasattr(x, "shape"):
            return Rows(self._checked(x))
        if not isinstance(x, list | tuple) or not len(x):
            return None
        if isinstance(x[0], str | tuple):
            return self._packed([self._cut(self._pair(each)) for each in x])
        rows = [self._row(row, f"x[{n}]") for n, row in enumerate(x)]
        ids = np.full((len(rows), max(map(len, rows))), self.padding, "int32")
        for place, row in zip(ids, rows, strict=True):
            place[: len(row)] = row
        return Rows(self._checked(ids))

    def word_rows(self, x: Any) -> Rows | None:
        """Lists of words, or texts with spaces between them, for tags of words."""
        if not _is_texts(x) and not _is_words(x):
            return self.rows(x)
        texts, places = [], []
        for words in x:
            words = words.split() if isinstance(words, str) else words
            if not _is_list(words) or not _all_strings(words):
                raise TypeError(
                    f"x[{len(texts)}] must be a text or a list of words, received "
                    f"{checks.short(words)}"
                )
            ids, first = word_ids(self._tokenizer(), words, f"x[{len(texts)}]")
            places.append(1 + first)  # [CLS] is before them
            texts.append((ids,))
        return Rows(self._packed(texts).arrays, places=places)

    def context_rows(self, x: Any) -> Rows | None:
        """Converts texts, or questions and texts, with the places of their tokens."""
        rows = self.rows(x)
        if rows is None or not _is_texts(x):
            return rows
        places = []
        for each in x:
            each = (each,) if isinstance(each, str) else each
            first = 1
            if len(each) > 1:
                first += self.separators + len(self.encode(each[0]))
            offsets = self._tokenizer().encode_with_offsets(each[-1]).offsets
            check_tokens(offsets, len(places), each[-1])
            places.append((offsets, first, 0, len(each[-1])))
        return dataclasses.replace(rows, places=places)

    def tokens(self, text: str | tuple[str, ...]) -> tuple[list[str], np.ndarray]:
        """Returns the tokens of a text or pair, and their positions in its row."""
        parts = (text,) if isinstance(text, str) else text
        encode = self._tokenizer().encode_with_offsets
        offsets = self._cut([encode(part).offsets for part in parts])
        tokens, places, first = [], [], 1
        for part, spans in zip(parts, offsets, strict=True):
            tokens += [part[start:end] for start, end in spans.tolist()]
            places.append(np.arange(first, first + len(spans)))
            first += len(spans) + self.separators
        return tokens, np.concatenate(places)

    def marks(self) -> dict[int, str]:
        """Returns the names of the special tokens by their ids."""
        return {i: token for token, i in self.special_ids.items()}

    def never_masked(self) -> list[int]:
        """Returns the ids of all special tokens."""
        known = [*self.special_ids.values()]
        if self.tokenizer is not None:
            known += map(self.tokenizer.id_of, self.tokenizer.special_tokens)
        return known

    def documents(
        self, x: Iterable[Iterable[Any]]
    ) -> list[list[Sequence[int] | np.ndarray]]:
        """Encodes documents, lists of sentences as texts or ids."""
        return [
            [self.encode(s) if isinstance(s, str) else self._known(s) for s in document]
            for document in x
        ]

    def encode(self, text: str) -> Sequence[int] | np.ndarray:
        """Returns the ids of one text."""
        return self._tokenizer().encode(text)

    def _tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ValueError(
                "the model has no tokenizer to read text with: build it with one, or "
                "give ids"
            )
        return self.tokenizer

    def _pair(self, text: Any) -> list[Sequence[int] | np.ndarray]:
        parts = (text,) if isinstance(text, str) else text
        if not _is_list(parts) or len(parts) > 2 or not _all_strings(parts):
            raise TypeError(
                "a row must be a text or a pair of texts, received "
                f"{checks.short(text)}"
            )
        return [self.encode(part) for part in parts]

    def _cut(self, parts: list[Any]) -> list[Any]:
        """Cuts the parts of a row to the tokens that fit if the reader truncates."""
        if not self.truncate or self.longest is None:
            return parts
        marks = 1 + len(parts) + (self.separators - 1) * (len(parts) - 1)
        return cut_parts(parts, self.longest - marks)

    def _packed(self, pairs: Sequence[Sequence[Sequence[int] | np.ndarray]]) -> Rows:
        between = self.separators - 1
        lengths = [
            1 + sum(len(part) + 1 for part in pair) + between * (len(pair) - 1)
            for pair in pairs
        ]
        for row, length in enumerate(lengths):
            if length > self.longest:
                raise ValueError(
                    f"text {row} has {length} tokens, [CLS] and [SEP] included, but "
                    f"the model reads max_sequence_length={self.longest} at most: cut "
                    "the text, by truncate=True to classify, or build the model for "
                    "longer ones"
                )
        length = min(bucket(max(lengths)), self.longest)
        marks = self.start, self.end, self.padding
        return Rows(pack(pairs, *marks, length, self.separators))

    def _checked(self, x: Any) -> dict[str, np.ndarray]:
        x = x if isinstance(x, dict) else {"ids": x}
        if "ids" not in x:
            raise ValueError(f'inputs must have "ids", received {sorted(x)}')
        ids = rectangular("ids", x["ids"])
        if ids.ndim != 2:
            raise ValueError(
                f"ids must be (rows, time), received the shape {ids.shape}"
            )
        if ids.shape[1] > self.longest:
            raise ValueError(
                f"ids have {ids.shape[1]} tokens in a row, but the model reads "
                f"max_sequence_length={self.longest} at most"
            )
        check_steps(ids)
        self._known(ids)
        segments = rectangular("segments", x.get("segments", np.zeros_like(ids)))
        if segments.shape != ids.shape:
            raise ValueError(
                f"segments have the shape {segments.shape}, but ids {ids.shape}: each "
                "token is of one segment"
            )
        check_ids(segments, "segments", "num_segments", self.num_segments)
        arrays = {"ids": ids.astype("int32"), "segments": segments.astype("int32")}
        if "positions" in x:
            positions = rectangular("positions", x["positions"])
            check_ids(positions, "positions", "the length of a row", ids.shape[1])
            arrays["positions"] = positions.astype("int32")
        return arrays

    def _row(self, row: Any, name: str) -> np.ndarray:
        ids = as_array(row)
        if ids is None or ids.ndim != 1 or not len(ids):
            raise TypeError(
                f"{name} must be a text, or a list of at least one id, received "
                f"{checks.short(row)}"
            )
        return self._known(ids)

    def _known(self, ids: Any) -> np.ndarray:
        ids = np.asarray(ids)
        check_ids(ids, "ids", "vocabulary_size", self.vocabulary_size)
        return ids


def rectangular(name: str, values: Any) -> np.ndarray:
    """Returns lists of ids of one length as an array.

    Examples:
        >>> rectangular("ids", [[1], [2, 3]])
        Traceback (most recent call last):
        ...
        ValueError: ids must be an array (rows, time), received lists of several \
lengths: [[1], [2, 3]]
    """
    array = as_array(values)
    if array is None:
        raise ValueError(
            f"{name} must be an array (rows, time), received lists of several lengths: "
            f"{checks.short(values)}"
        )
    # Without ids the dtype says nothing: that of an empty list is float64.
    return array if array.size else np.zeros(array.shape, "int32")


def check_steps(ids: np.ndarray) -> None:
    """Raises if rows of ids have no tokens."""
    if len(ids) and not ids.size:
        raise ValueError(
            f"ids must have at least one token in a row, received the shape {ids.shape}"
        )


def check_tokens(tokens: Sequence[Any], n: int, text: Any) -> None:
    """Raises if a text has no tokens."""
    if not len(tokens):
        raise ValueError(
            f"x[{n}] must have at least one token, received {checks.short(text)}"
        )


def cut_parts(parts: Sequence[Any], length: int) -> list[Any]:
    """Cuts the longest parts of a row, until it fits. Each part keeps an id.

    Examples:
        >>> cut_parts(["abcdef", "ab"], 5), cut_parts(["abcd", "abcd"], 5)
        (['abc', 'ab'], ['ab', 'abc'])
    """
    parts, length = list(parts), max(length, len(parts))
    while (over := sum(map(len, parts)) - length) > 0:
        sizes = [len(part) for part in parts]
        n = sizes.index(max(sizes))
        second = max(sizes[:n] + sizes[n + 1 :], default=0)
        cut = min(over, max(sizes[n] - second, 1))
        parts[n] = parts[n][: sizes[n] - cut]
    return parts


def special_names(tokenizer: Tokenizer) -> dict[str, str]:
    """Returns a tokenizer's names of BERT's special tokens: BERT's, or RoBERTa's.

    Examples:
        >>> from kerasseq.text import WordPieceTokenizer
        >>> special_names(WordPieceTokenizer(99).fit("to be"))["[CLS]"]
        '[CLS]'
    """
    vocabulary = set(tokenizer.vocabulary)
    if set(ROBERTA.values()) <= vocabulary and not set(NEEDED) <= vocabulary:
        return ROBERTA
    return {token: token for token in NEEDED}


def _is_texts(x: Any) -> bool:
    """Returns whether these are texts or pairs of texts."""
    return isinstance(x, list | tuple) and len(x) > 0 and isinstance(x[0], str | tuple)


def _is_words(x: Any) -> bool:
    """Returns whether these are lists of words."""
    if not isinstance(x, list | tuple) or not len(x) or not isinstance(x[0], list):
        return False
    return len(x[0]) > 0 and isinstance(x[0][0], str)


def _is_list(x: Any) -> bool:
    return isinstance(x, list | tuple) and len(x) > 0


def _all_strings(words: Sequence[Any]) -> bool:
    return all(isinstance(word, str) for word in words)

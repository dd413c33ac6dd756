"""What every tokenizer can do: text to ids and back, pieces, places, batches, files.

A tokenizer of this package says how a text without special tokens becomes ids, once
quickly (`_encode_part`) and once with the place of each in the text (`_places`), and
how ids become text again (`_decode_part`). All else stands here.

Words used: a *token* is what an id stands for, as the vocabulary spells it; a *piece*
is the stretch of the text that became one token. Special tokens, such as
`<|endoftext|>`, are found in the text as they are written and are never split.
"""

import abc
from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import one_of, several, whole_number
from kerasseq.text.ids import id_array
from kerasseq.text.saved import Saved
from kerasseq.text.texts import check_text, cut_out, each_row, each_text, utf8


class Encoding(NamedTuple):
    """A text as ids, and where they come from.

    Attributes:
        ids: int32, `(tokens,)`.
        tokens: What the vocabulary calls them.
        offsets: int64, `(tokens, 2)`: each came from `text[start:end]`.
    """

    ids: np.ndarray
    tokens: list[str]
    offsets: np.ndarray


class Batch(NamedTuple):
    """Texts as one array.

    Attributes:
        ids: int32, `(texts, length)`.
        mask: bool, `(texts, length)`, True where an id is of the text.
    """

    ids: np.ndarray
    mask: np.ndarray


class Tokenizer(Saved, abc.ABC):
    """The base of all tokenizers.

    Attributes:
        vocabulary: What each id stands for, in order.
        special_tokens: Those tokens that are never split, in the order of their ids.
        unknown: The token of what has no other, or None.
    """

    special_tokens: tuple[str, ...] = ()
    unknown: str | None = None

    @property
    @abc.abstractmethod
    def vocabulary(self) -> list[str]:
        """What each id stands for, in order."""

    @abc.abstractmethod
    def fit(self, text) -> "Tokenizer":
        """Learn the vocabulary from a text, or from several."""

    def _cut_out(self, text: str) -> list[tuple[str, bool]]:
        """Cut a text at its special tokens: each part, and whether it is such one."""
        return cut_out(text, self.special_tokens)

    @abc.abstractmethod
    def _encode_part(self, text: str) -> list[int]:
        """The ids of a text without special tokens."""

    @abc.abstractmethod
    def _places(self, text: str) -> list[tuple[int, int, int]]:
        """Id, start and end of each piece of a text without special tokens."""

    @abc.abstractmethod
    def _decode_part(self, ids: list[int]) -> str:
        """The text of ids none of which is special."""

    @property
    def vocabulary_size(self) -> int:
        """How many ids there are, special ones and the unknown one included."""
        return len(self.vocabulary)

    def id_of(self, token: str) -> int:
        """Return the id of a token, spelled as in the vocabulary.

        Raises:
            KeyError: If there is no such token.
        """
        self._check_fitted()
        try:
            return self._id_of_token[token]
        except KeyError:
            raise KeyError(f"no token of the vocabulary is {token!r}") from None

    @each_text
    def encode(self, text: str) -> np.ndarray:
        """Turn text into ids.

        Args:
            text: Any string, the empty one included.

        Returns:
            int32, one id per token.

        Raises:
            TypeError: If `text` is no string.
            ValueError: Before `fit`, or if the text has what cannot be encoded.
        """
        self._check_fitted()
        self._check_text(text)
        ids = []
        for part, special in self._cut_out(text):
            ids += [self._id_of_token[part]] if special else self._encode_part(part)
        return np.array(ids, "int32")

    def encode_with_offsets(self, text: str) -> Encoding:
        """Turn text into ids, and say where in the text each comes from.

        Args:
            text: Any string.

        Returns:
            An `Encoding`: `ids`, `tokens`, and `offsets` `(tokens, 2)` into the text.
        """
        self._check_fitted()
        self._check_text(text)
        places, start = [], 0
        for part, special in self._cut_out(text):
            found = [(self._id_of_token[part], 0, len(part))] if special else None
            for i, a, b in found or self._places(part):
                places.append((i, start + a, start + b))
            start += len(part)
        table = np.array(places, "int64").reshape(-1, 3)
        vocabulary = self.vocabulary
        tokens = [vocabulary[i] for i in table[:, 0].tolist()]
        return Encoding(table[:, 0].astype("int32"), tokens, table[:, 1:])

    @each_text
    def tokenize(self, text: str) -> list[str]:
        """Split text into tokens, spelled as in the vocabulary."""
        vocabulary = self.vocabulary
        return [vocabulary[i] for i in self.encode(text).tolist()]

    @each_row
    def decode(self, ids, *, skip_special: bool = False) -> str:
        """Turn ids into text.

        Args:
            ids: A list, array or tensor of whole numbers with one axis.
            skip_special: Whether special tokens are left out.

        Returns:
            The text.

        Raises:
            TypeError: If the ids are not whole numbers.
            ValueError: If an id is outside the vocabulary.
        """
        self._check_fitted()
        ids = id_array(ids, self.vocabulary_size).tolist()
        special = {self._id_of_token[token]: token for token in self.special_tokens}
        text, part = [], []
        for i in ids:
            if i in special:
                text += [self._decode_part(part), "" if skip_special else special[i]]
                part = []
            else:
                part.append(i)
        return "".join([*text, self._decode_part(part)])

    def encode_batch(
        self, texts, *, length: int | None = None, pad="right", truncate="right"
    ) -> Batch:
        """Turn texts into one array, with a mask.

        Args:
            texts: A list of strings, or one string, which is one row.
            length: Ids in a row. The longest text decides if None.
            pad: On which side short texts are filled up, "right" or "left". They are
                filled with the special token `<pad>` or `[PAD]` if there is one, else
                with 0; the mask tells which ids are real.
            truncate: On which side long texts are cut, "right" or "left".

        Returns:
            A `Batch`: `ids` and `mask`, `(texts, length)`.
        """
        self._check_fitted()
        one_of("pad", pad, ["right", "left"])
        one_of("truncate", truncate, ["right", "left"])
        texts = [texts] if isinstance(texts, str) else several("texts", texts)
        rows = [self.encode(text) for text in texts]
        if length is None:
            length = max(map(len, rows), default=0)
        length = whole_number("length", length, at_least=0)
        ids = np.full((len(rows), length), self._padding_id(), "int32")
        mask = np.zeros(ids.shape, bool)
        for row, text in enumerate(rows):
            cut = max(0, len(text) - length)
            text = text[cut:] if truncate == "left" else text[: len(text) - cut]
            place = slice(0, len(text))
            if pad == "left":
                place = slice(length - len(text), length)
            ids[row, place], mask[row, place] = text, True
        return Batch(ids, mask)

    def _padding_id(self) -> int:
        known = [t for t in self.special_tokens if t in ("<pad>", "[PAD]")]
        return self._id_of_token[known[0]] if known else 0

    def unknown_characters(self, text: str) -> dict[str, int]:
        """Count the characters of `text` that have no id of their own.

        Args:
            text: Any string.

        Returns:
            How often each occurs, the most frequent first.
        """
        if self.unknown is None:
            return {}
        encoding, count = self.encode_with_offsets(text), {}
        strangers = encoding.ids == self.id_of(self.unknown)
        for start, end in encoding.offsets[strangers].tolist():
            if text[start:end] == self.unknown:  # written out, it is known
                continue
            for character in text[start:end]:
                count[character] = count.get(character, 0) + 1
        return dict(sorted(count.items(), key=lambda item: -item[1]))

    def _check_text(self, text):
        check_text(text)
        utf8(text)

    @property
    def _id_of_token(self) -> dict[str, int]:
        """The vocabulary the other way round, made anew when it has changed."""
        vocabulary = self.vocabulary
        made = self.__dict__.get("_ids_made_of")
        if made is None or made[0] is not vocabulary:
            self._ids_made_of = (vocabulary, {t: i for i, t in enumerate(vocabulary)})
        return self._ids_made_of[1]

    def _check_fitted(self):
        if not self.vocabulary:
            raise ValueError(
                f"the {type(self).__name__} has no vocabulary yet: call `fit(text)` or "
                "load one from a file"
            )

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self.get_config() == other.get_config()

    __hash__ = None  # a fitted tokenizer can be fitted again: no key of a dictionary

    def __repr__(self):
        size = len(self.vocabulary)
        state = f"{size} tokens" if size else "not fitted"
        return f"<{type(self).__name__}: {state}>"

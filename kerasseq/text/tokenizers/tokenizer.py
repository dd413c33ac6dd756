"""Base class of tokenizers: encoding, decoding, offsets, batches and files.

A subclass implements encoding of a text without special tokens, without offsets
(`_encode_part`) and with them (`_places`), and decoding (`_decode_part`).

A *token* is an entry of the vocabulary; a *piece* is the part of a text that became one
token. Special tokens, such as `<|endoftext|>`, are found in the text as written and are
never split.
"""

import abc
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import one_of, several, short, whole_number
from kerasseq.core.messages import Message
from kerasseq.text.chat import answers
from kerasseq.text.chat.chat_template import ChatTemplate
from kerasseq.text.files import Saved
from kerasseq.text.texts import check_text, cut_out, each_row, each_text, id_array, utf8

PADDING_TOKENS = ("<pad>", "[PAD]")
TEMPLATE = "chat_template"  # the key in a config


class Encoding(NamedTuple):
    """The tokens of a text, with offsets.

    Attributes:
        ids: int32, `(tokens,)`.
        tokens: The tokens, as in the vocabulary.
        offsets: int64, `(tokens, 2)`: start and end of each token in the text.
    """

    ids: np.ndarray
    tokens: list[str]
    offsets: np.ndarray


class Batch(NamedTuple):
    """A padded batch of texts.

    Attributes:
        ids: int32, `(texts, length)`.
        mask: bool, `(texts, length)`, True for ids of the text, False for padding.
    """

    ids: np.ndarray
    mask: np.ndarray


class Tokenizer(Saved, abc.ABC):
    """Base class of all tokenizers.

    Attributes:
        vocabulary: The tokens in the order of their ids.
        special_tokens: Tokens that are never split, in the order of their ids.
        unknown: The token for everything outside the vocabulary, or None.
    """

    special_tokens: tuple[str, ...] = ()
    unknown: str | None = None
    _chat_template: answers.AnyTemplate | None = None
    _vocabulary: list[str]

    @property
    def vocabulary(self) -> list[str]:
        """The tokens in the order of their ids."""
        return self._vocabulary

    @abc.abstractmethod
    def fit(self, text: str | Iterable[str]) -> "Tokenizer":
        """Learns the vocabulary from one or several texts."""

    def _cut_out(self, text: str) -> list[tuple[str, bool]]:
        """Splits a text at special tokens: parts, and whether each is one of them."""
        return cut_out(text, self.special_tokens)

    @abc.abstractmethod
    def _encode_part(self, text: str) -> list[int]:
        """Returns the ids of a text without special tokens."""

    @abc.abstractmethod
    def _places(self, text: str) -> list[tuple[int, int, int]]:
        """Returns id, start and end of each piece of a text without special tokens."""

    @abc.abstractmethod
    def _decode_part(self, ids: list[int]) -> str:
        """Returns the text of ids without special tokens."""

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, including special and unknown tokens."""
        return len(self.vocabulary)

    def id_of(self, token: str) -> int:
        """Returns the id of a token of the vocabulary.

        Raises:
            KeyError: If the token is not in the vocabulary.
        """
        self._check_fitted()
        try:
            return self._id_of_token[token]
        except KeyError:
            raise KeyError(f"{token!r} is not in the vocabulary") from None

    @each_text
    def encode(self, text: str) -> np.ndarray:
        """Converts text to ids.

        Args:
            text: A string, or a list of strings.

        Returns:
            Array of int32 ids; a list of arrays for a list of strings.

        Raises:
            TypeError: If `text` is not a string.
            ValueError: Before `fit`, or if the text has characters that cannot be
                encoded.
        """
        self._check_fitted()
        self._check_text(text)
        ids = []
        for part, special in self._cut_out(text):
            ids += [self._id_of_token[part]] if special else self._encode_part(part)
        return np.array(ids, "int32")

    def encode_with_offsets(self, text: str) -> Encoding:
        """Converts text to ids, with the offsets of each token.

        Args:
            text: A string.

        Returns:
            An `Encoding`: `ids`, `tokens`, and `offsets` `(tokens, 2)` into the text.
        """
        self._check_fitted()
        self._check_text(text)
        places, start = [], 0
        for part, special in self._cut_out(text):
            whole = [(self._id_of_token[part], 0, len(part))] if special else None
            for i, a, b in whole or self._places(part):
                places.append((i, start + a, start + b))
            start += len(part)
        table = np.array(places, "int64").reshape(-1, 3)
        vocabulary = self.vocabulary
        tokens = [vocabulary[i] for i in table[:, 0].tolist()]
        return Encoding(table[:, 0].astype("int32"), tokens, table[:, 1:])

    @each_text
    def tokenize(self, text: str) -> list[str]:
        """Splits text into tokens of the vocabulary."""
        vocabulary = self.vocabulary
        return [vocabulary[i] for i in self.encode(text).tolist()]

    @each_row
    def decode(self, ids: ArrayLike, *, skip_special: bool = False) -> str:
        """Converts ids to text.

        Args:
            ids: A list, array or tensor of ids, or several rows of them.
            skip_special: Whether to leave out special tokens.

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
        self,
        texts: str | Iterable[str],
        *,
        length: int | None = None,
        pad: str = "right",
        truncate: str = "right",
    ) -> Batch:
        """Converts texts to one padded array, with a mask.

        Args:
            texts: A list of strings, or one string.
            length: Length of a row. Defaults to the longest text.
            pad: Side of the padding, "right" or "left". The padding id is that of the
                special token `<pad>` or `[PAD]` if there is one, else 0.
            truncate: Side on which longer texts are truncated, "right" or "left".

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
        known = [t for t in self.special_tokens if t in PADDING_TOKENS]
        return self._id_of_token[known[0]] if known else 0

    @property
    def chat_template(self) -> answers.AnyTemplate | None:
        """Writes conversations as text; it is saved with the tokenizer.

        A `ChatTemplate`, whose `end` must be one token; or a template of Hugging Face,
        as a string in Jinja.
        """
        return self._chat_template

    @chat_template.setter
    def chat_template(self, template: answers.AnyTemplate | str | None) -> None:
        template = answers.as_template(template)
        if self.vocabulary and isinstance(template, ChatTemplate):
            self._check_end(template.end)
        self._chat_template = template

    def _check_end(self, end):
        """Raises unless what ends an answer is one token, which is known."""
        try:
            ids = self.encode(end).tolist()
        except ValueError:  # an unknown character
            ids = []
        unknown = None if self.unknown is None else self.id_of(self.unknown)
        if len(ids) != 1 or ids[0] == unknown:
            raise ValueError(
                "chat_template must end an answer with one token of the tokenizer, "
                f"received end={end!r}, which is not one of {type(self).__name__}. "
                "Build it with special_tokens=template.special_tokens, or choose "
                "another end, such as ChatTemplate(end='\\n')"
            )

    def apply_chat_template(
        self,
        messages: Iterable[Message],
        *,
        tokenize: bool = True,
        add_generation_prompt: bool = False,
    ) -> Any:
        """Writes a conversation with the chat template, as in Hugging Face.

        Args:
            messages: Dictionaries with "role" ("system", "user" or "assistant") and
                "content".
            tokenize: Whether to return ids.
            add_generation_prompt: Whether to add what precedes an answer.

        Returns:
            Array of int32 ids, or the text.

        Raises:
            TypeError: If a message is no dictionary with role and content.
            ValueError: If there is no chat template, a role is unknown, or a content
                empty.
        """
        template = chat_template_of(self)
        text = template.render(messages, add_generation_prompt)
        return self.encode(text) if tokenize else text

    def unknown_characters(self, text: str) -> dict[str, int]:
        """Counts the characters of a text that become the unknown token.

        Args:
            text: A string.

        Returns:
            The count of each character, the most frequent first.
        """
        if self.unknown is None:
            return {}
        encoding, count = self.encode_with_offsets(text), {}
        unknown = encoding.ids == self.id_of(self.unknown)
        for start, end in encoding.offsets[unknown].tolist():
            if text[start:end] == self.unknown:  # the token itself, in the text
                continue
            for character in text[start:end]:
                count[character] = count.get(character, 0) + 1
        return dict(sorted(count.items(), key=lambda item: -item[1]))

    def _check_text(self, text):
        check_text(text)
        utf8(text)

    @property
    def _id_of_token(self) -> dict[str, int]:
        """The id of each token, cached until the vocabulary changes."""
        vocabulary = self.vocabulary
        made = self.__dict__.get("_ids_made_of")
        if made is None or made[0] is not vocabulary:
            self._ids_made_of = (vocabulary, {t: i for i, t in enumerate(vocabulary)})
        return self._ids_made_of[1]

    def _check_fitted(self):
        if not self.vocabulary:
            raise ValueError(
                f"the {type(self).__name__} is not fitted. Call `fit(text)`, or load "
                "one from a file"
            )

    @abc.abstractmethod
    def own_config(self) -> dict[str, Any]:
        """Returns the configuration without the chat template, as plain JSON."""

    @classmethod
    @abc.abstractmethod
    def from_own_config(cls, config: dict[str, Any]) -> "Tokenizer":
        """Builds a tokenizer from the result of `own_config`."""

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration of the tokenizer as plain JSON."""
        if self.chat_template is None:  # as in files of older versions
            return self.own_config()
        return {**self.own_config(), TEMPLATE: self.chat_template.get_config()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        """Builds a tokenizer from the result of `get_config`.

        Raises:
            ImportError: If it needs a package that is not installed.
            TypeError: If a value is of the wrong type.
            ValueError: If a key is missing or unknown, or a value is out of range.
        """
        config = dict(config)
        template = config.pop(TEMPLATE, None)
        tokenizer = cls.from_own_config(config)
        if template is not None:
            tokenizer._chat_template = answers.from_config(template)
        return tokenizer

    def _with_template_of(self, other: "Tokenizer") -> Self:
        self._chat_template = other.chat_template
        return self

    # Without `__hash__`, since it is mutable: it can be fitted again.
    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self.get_config() == other.get_config()

    def __repr__(self) -> str:
        size = len(self.vocabulary)
        state = f"{size} tokens" if size else "not fitted"
        return f"<{type(self).__name__}: {state}>"


def chat_template_of(tokenizer: Any) -> answers.AnyTemplate:
    """Returns the chat template of a tokenizer.

    Args:
        tokenizer: A tokenizer, also one of the user; or None.

    Raises:
        ValueError: If it has none. The message says how to set it.
    """
    template = getattr(tokenizer, "chat_template", None)
    if template is None:
        raise ValueError(
            "messages need the chat template of a tokenizer, received "
            f"{short(tokenizer)}, which has none. Build it with special_tokens="
            "kerasseq.text.ChatTemplate().special_tokens, and set "
            "tokenizer.chat_template = kerasseq.text.ChatTemplate()"
        )
    return template

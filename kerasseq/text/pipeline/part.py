"""`Part`, a component of a `tokenizer.json`, and `Piece`, a part of a text.

Offsets follow the package `tokenizers`: an inserted character has the span of the one
before it, and a composed character that of the first.
"""

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

from kerasseq.core.schema import check, fault

T = TypeVar("T")
REQUIRED: Any = object()


class Part:
    """A dictionary of a file, with its keys in the file for messages.

    Args:
        content: The dictionary.
        path: The file, for messages.
        place: The keys that lead to it, for example `"normalizer.normalizers[0]"`.

    Raises:
        ValueError: If `content` is not a dictionary.
    """

    def __init__(
        self, content: dict[str, Any], path: str | os.PathLike[str], place: str = ""
    ):
        self.path: str | os.PathLike[str] = path
        self.place: str = place
        self.content: dict[str, Any] = content
        self._checked(content, {str: object}, place)

    def get(self, key: str, schema: object, default: Any = REQUIRED) -> Any:
        """Returns the value of a key.

        Args:
            key: The key.
            schema: What it must be, as `kerasseq.core.schema` describes.
            default: The value if the key is missing or null.

        Raises:
            ValueError: If the key is missing and required, or does not fit.
        """
        value = self.content.get(key)
        if value is None and default is not REQUIRED:
            return default
        return self._checked(value, schema, self.key(key))

    def choice(
        self, key: str, choices: Collection[str], default: str = REQUIRED
    ) -> str:
        """Returns a string that must be one of several."""
        value = self.get(key, str, default)
        if value not in choices:
            self.refuse(key, f"Known values are {', '.join(choices)}. ")
        return value

    def part(self, key: str) -> "Part":
        """Returns the dictionary under a key."""
        return Part(self.content.get(key), self.path, self.key(key))

    def parts(self, key: str) -> list["Part"]:
        """Returns the dictionaries of a list under a key; none if there is no list."""
        return [
            Part(each, self.path, f"{self.key(key)}[{number}]")
            for number, each in enumerate(self.get(key, [object], []))
        ]

    def component(self, table: Mapping[str, Callable[["Part"], T]]) -> T:
        """Builds the component that `type` names, by a table of builders.

        Raises:
            ValueError: If the table does not have it.
        """
        kind = self.get("type", str)
        if kind not in table:
            self.refuse("type", f"Known are {', '.join(table)}. ")
        return table[kind](self)

    def optional(
        self, key: str, table: Mapping[str, Callable[["Part"], T]]
    ) -> T | None:
        """Builds the component under a key; None if there is none."""
        if self.content.get(key) is None:
            return None
        return self.part(key).component(table)

    def key(self, key: str) -> str:
        """The keys that lead to one of this dictionary's keys."""
        return f"{self.place}.{key}" if self.place else key

    def refuse(self, key: str, hint: str = "") -> NoReturn:
        """Raises a `ValueError` for an unsupported setting."""
        raise ValueError(
            f"{self.path}: {self.key(key)} = {repr(self.content.get(key))[:90]} is not "
            f"supported by kerasseq, which would give other ids. {hint}Use the package "
            "tokenizers for this file"
        )

    def damaged(self, key: str, expected: str, received: object) -> NoReturn:
        """Raises a `ValueError` for an invalid value."""
        self._damaged(fault(self.key(key), expected, received))

    def _checked(self, value, schema, place):
        try:
            return check(value, schema, place)
        except (TypeError, ValueError) as error:
            self._damaged(error)

    def _damaged(self, error: Exception) -> NoReturn:
        raise ValueError(
            f"{self.path} is damaged: {error}. Download the file again"
        ) from error


# Unicode's White_Space; `str.isspace` also takes U+001C to U+001F.
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
WHITE += "".join(map(chr, range(0x2000, 0x200B)))


class Piece(NamedTuple):
    """A part of a text during processing.

    Attributes:
        text: The current characters.
        spans: Start and end of each character in the original text; None if offsets are
            not computed.
        at_start: Whether it is at the start of the original text.
    """

    text: str
    spans: list[tuple[int, int]] | None
    at_start: bool

    @classmethod
    def of(cls, text: str, start: int, with_spans: bool) -> "Piece":
        """Returns the piece of an original text that begins at `start`."""
        places = range(start, start + len(text))
        spans = [(i, i + 1) for i in places] if with_spans else None
        return cls(text, spans, start == 0)

    def cut(self, start: int, end: int) -> "Piece":
        """Returns the characters from `start` to `end`."""
        if start == 0 and end == len(self.text):
            return self
        text = self.text[start:end]
        if self.spans is None:
            return Piece(text, None, self.at_start and start == 0)
        return self.with_spans(text, self.spans[start:end])

    def with_spans(self, text: str, spans: list[tuple[int, int]]) -> "Piece":
        """Returns a piece with other characters and their spans."""
        return Piece(text, spans, spans[0][0] == 0 if spans else self.at_start)

    def with_text(self, text: str) -> "Piece":
        """Returns a piece with other characters, without spans."""
        return Piece(text, None, self.at_start)

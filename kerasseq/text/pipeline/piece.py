"""A stretch of a text on its way through the stages, and where its characters are from.

Offsets follow the package `tokenizers`: a character that is inserted has the place of
the one before it, and a character composed of several has the place of the first.
"""

from typing import NamedTuple

# Unicode's White_Space; `str.isspace` also takes U+001C to U+001F.
WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
WHITE += "".join(map(chr, range(0x2000, 0x200B)))


class Piece(NamedTuple):
    """A stretch of text.

    Attributes:
        text: Its characters, as they are now.
        spans: Start and end of each character in the original text; None if offsets are
            not computed.
        at_start: Whether it begins where the original text begins.
    """

    text: str
    spans: list[tuple[int, int]] | None
    at_start: bool

    @classmethod
    def of(cls, text: str, start: int, with_spans: bool) -> "Piece":
        """The piece of an original text that begins at `start`."""
        places = range(start, start + len(text))
        spans = [(i, i + 1) for i in places] if with_spans else None
        return cls(text, spans, start == 0)

    def cut(self, start: int, end: int) -> "Piece":
        """Return the characters from `start` to `end`."""
        if start == 0 and end == len(self.text):
            return self
        text = self.text[start:end]
        if self.spans is None:
            return Piece(text, None, self.at_start and start == 0)
        return self.with_spans(text, self.spans[start:end])

    def with_spans(self, text: str, spans) -> "Piece":
        """Return a piece of other characters with known places."""
        return Piece(text, spans, spans[0][0] == 0 if spans else self.at_start)

    def with_text(self, text: str) -> "Piece":
        """Return a piece of other characters, whose places are not computed."""
        return Piece(text, None, self.at_start)

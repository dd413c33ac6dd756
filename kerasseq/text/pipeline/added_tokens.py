"""Added tokens: found in the text before it is split, each with its own options."""

import re
from typing import NamedTuple

from kerasseq.text.pipeline.part import WHITE, Part
from kerasseq.text.pipeline.pre_tokenizers import WORD
from kerasseq.text.tokenizers.splitting import compiled


class AddedToken(NamedTuple):
    """A token that is found in the text as a whole.

    Attributes:
        content: The token as written.
        id: Its id.
        single_word: Whether it is not matched inside a word, as `<m>` in `a<m>b`.
        lstrip: Whether it includes whitespace before it.
        rstrip: Whether it includes whitespace after it.
        normalized: Whether it is matched in the normalized text.
        special: Whether `decode(skip_special=True)` skips it.
    """

    content: str
    id: int
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool
    special: bool

    @classmethod
    def read(cls, part: Part) -> "AddedToken":
        """Reads an added token of a file."""
        content, number = part.get("content", str), part.get("id", int)
        if not content:
            part.damaged("content", "a string that is not empty", content)
        if number < 0:
            part.damaged("id", "0 or more", number)
        special = part.get("special", bool, False)
        return cls(
            content,
            number,
            part.get("single_word", bool, False),
            part.get("lstrip", bool, False),
            part.get("rstrip", bool, False),
            part.get("normalized", bool, not special),
            special,
        )

    @property
    def is_plain(self) -> bool:
        """Whether it is special, without options that change its matches."""
        options = self.single_word or self.lstrip or self.rstrip
        return self.special and not options


class Finder:
    """Finds added tokens in a text, the longest first.

    Args:
        tokens: The tokens by their spelling in the text.
    """

    def __init__(self, tokens: dict[str, AddedToken]):
        self.tokens = tokens
        longest_first = sorted(tokens, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def stretches(self, text: str) -> list[tuple[int, int, int | None]]:
        """Returns start, end and id of all parts; the id is None between tokens."""
        stretches, done = [], 0
        for match in self._pattern.finditer(text):
            token, (start, end) = self.tokens[match.group()], match.span()
            if token.single_word and _in_word(text, start, end):
                continue
            if token.lstrip:
                start = max(len(text[:start].rstrip(WHITE)), done)
            if token.rstrip:
                end = len(text) - len(text[end:].lstrip(WHITE))
            if done < start:
                stretches.append((done, start, None))
            if start < end:  # not whitespace of the token before
                stretches.append((start, end, token.id))
            done = end
        if done < len(text):
            stretches.append((done, len(text), None))
        return stretches


def _in_word(text, start, end):
    letter = compiled(f"[{WORD}]")
    before, after = text[max(start - 1, 0) : start], text[end : end + 1]
    return bool(letter.match(before) or letter.match(after))

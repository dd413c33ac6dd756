"""How a unigram tokenizer reads spaces: the one put first, and ▁ in the text."""

import re
from collections import Counter

from kerasseq.core.checks import one_of
from kerasseq.text.texts import check_text, utf8
from kerasseq.text.unigram_pieces import BYTES, SPACE


class Spaces:
    """Where a space is put before a text, and whether a ▁ in it is a space.

    Args:
        add: True puts one before each part between special tokens, "first" only before
            the text.
        lossless: Whether one is put before what begins with a space, too, and ▁ is no
            space.
        special: The special tokens.

    Examples:
        >>> Spaces(True, True, ()).read(" a▁b")
        '  a▁b'
        >>> Spaces(True, False, ()).read(" a▁b")
        ' a b'
    """

    def __init__(self, add: bool | str, lossless: bool, special: tuple[str, ...]):
        self.add = one_of("add_prefix_space", add, [True, False, "first"])
        self.lossless = lossless
        self.special = special
        spaced = [token for token in special if token.startswith(" ")]
        if spaced and add == "first":
            raise ValueError(
                f"special_tokens must not have {spaced[0]!r} with "
                "add_prefix_space='first': the space put first could make one"
            )

    def begin(self, text: str) -> str:
        """Put the space before a text, if only its beginning gets one.

        Raises:
            TypeError: If `text` is no string.
            ValueError: If it has half a surrogate pair.
        """
        check_text(text)
        utf8(text)
        without = not text or text.startswith(self.special) or self._has_one(text)
        return " " + text if self.add == "first" and not without else text

    def read(self, part: str) -> str:
        """Return a part between special tokens as it is cut."""
        if not self.lossless:
            part = part.replace(SPACE, " ")
        without = not part or self._has_one(part)
        return " " + part if self.add is True and not without else part

    def _has_one(self, text):
        return not self.lossless and text.startswith((" ", SPACE))

    def words(self, several: list[str]) -> Counter:
        """Count the words of texts: with the space before, other white space alone.

        Raises:
            ValueError: If there is nothing but special tokens.
        """
        longest_first = sorted(self.special, key=len, reverse=True)
        marks = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        words = Counter()
        for text in several:
            for part in marks.split(self.begin(text)):
                words.update(re.findall(rf" ?[^\s{SPACE}]+|\s", self.read(part)))
        if not words:
            raise ValueError("`text` has no words: there is nothing to learn from.")
        return words


def check_special_tokens(tokens, byte_fallback: bool):
    """Raise a `ValueError` if a special token is written as a space or a byte."""
    taken = {SPACE, *(BYTES if byte_fallback else ())}.intersection(tokens)
    if taken:
        raise ValueError(
            f"special_tokens must not have {min(taken)!r}: it is how a space or a byte "
            "is written"
        )

"""How BERT cleans a text and cuts it into words, and where each word was.

Control characters go, accents are stripped, capitals become small letters; words end at
spaces, each punctuation character and each Chinese character is a word of its own.
ASCII symbols such as $ and + count as punctuation, others such as € do not.

All of it concerns one character at a time, so it is one table from characters to what
they become, for which Python has a fast loop. What becomes of a character has spaces
around it where a cut is needed, but for ASCII, which stays as long as it was, since for
that the loop is fastest: after it, words end at spaces and ASCII punctuation.

Devlin et al. 2018, and the code published with it; as in the package `tokenizers`,
characters for private use are removed and Σ becomes σ also at the end of a word. Which
character is of which kind is as Python's Unicode has it: `tokenizers` 0.23 has some
tables of Unicode 8, where newer signs and marks are missing, and takes 256 rare Chinese
characters, U+2B820 to U+2B91F, for letters. Where marks change their order, its places
are those of a neighbour; here they are the character's own.
"""

import functools
import re
import unicodedata

SYMBOLS = r"!-/:-@\[-`{-~"  # of ASCII
WORD = re.compile(f"[^ {SYMBOLS}]+|[{SYMBOLS}]")
CHINESE = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2CEB0),
    range(0x2F800, 0x2FA20),
)


class BertNormalizer:
    """Cut a text into words as BERT does.

    Args:
        lowercase: Whether capitals become small letters.
        strip_accents: Whether é becomes e. Korean syllables come apart, too.
        split_chinese: Whether each Chinese character is a word.
        clean: Whether control characters and U+FFFD are removed.

    Examples:
        >>> normalizer = BertNormalizer(
        ...     lowercase=True, strip_accents=True, split_chinese=True, clean=True
        ... )
        >>> normalizer.words("Déjà vu: 東京!")
        ['deja', 'vu', ':', '東', '京', '!']
    """

    def __init__(
        self, *, lowercase: bool, strip_accents: bool, split_chinese: bool, clean: bool
    ):
        self.strip_accents = strip_accents
        self._table = _table(lowercase, strip_accents, split_chinese, clean)

    def words(self, text: str) -> list[str]:
        """Return the words of a text, normalised, in order."""
        return WORD.findall(self._normalize(text))

    def words_with_origins(self, text: str) -> list[tuple[str, list[int]]]:
        """Return each word, and where in `text` each of its characters comes from."""
        normal = self._normalize(text)
        size = {c: len(self._table[ord(c)] or "") for c in set(text)}
        origin = [i for i, c in enumerate(text) for _ in range(size[c])]
        return [
            (match.group(), origin[match.start() : match.end()])
            for match in WORD.finditer(normal)
        ]

    def _normalize(self, text):
        normal = text.translate(self._table)
        # The few marks that are no accents stand in Unicode's order, which only a look
        # at neighbours can bring about. It moves characters, and changes no length.
        return unicodedata.normalize("NFD", normal) if self.strip_accents else normal


@functools.cache
def _table(*options) -> "_Table":
    return _Table(*options)


class _Table(dict):
    """What becomes of each character, worked out when it is first met."""

    def __init__(self, lowercase, strip_accents, split_chinese, clean):
        super().__init__()
        self.lowercase, self.strip_accents = lowercase, strip_accents
        self.split_chinese, self.clean = split_chinese, clean

    def __missing__(self, point):
        self[point] = found = self._become(chr(point))
        return found

    def _become(self, character) -> str | None:
        """The text instead of a character, None if it is removed."""
        if self.clean and _is_control(character):
            return None
        if self.split_chinese and any(ord(character) in r for r in CHINESE):
            return f" {self._letters(character)} "
        return "".join(map(_cut, self._letters(character))) or None

    def _letters(self, character):
        if self.strip_accents:
            parts = unicodedata.normalize("NFD", character)
            character = "".join(c for c in parts if unicodedata.category(c) != "Mn")
        # One by one, or "Σ" at the end of a word would be another letter.
        return "".join(c.lower() for c in character) if self.lowercase else character


def is_punctuation(character: str) -> bool:
    """Whether a character is always a word of its own, as BERT has it.

    Examples:
        >>> [is_punctuation(character) for character in "$€¿"]
        [True, False, True]
    """
    if character.isascii():
        return re.match(f"[{SYMBOLS}]", character) is not None
    return unicodedata.category(character)[0] == "P"


def _cut(character):
    """A character with spaces around it if it is a word; any space as a plain one."""
    if character.isspace() and character not in "\x1c\x1d\x1e\x1f":
        return " "
    if character.isascii() or not is_punctuation(character):
        return character
    return f" {character} "


def _is_control(character):
    if character in "\t\n\r":
        return False
    kind = unicodedata.category(character)
    return character == "\ufffd" or kind in ("Cc", "Cf", "Co")

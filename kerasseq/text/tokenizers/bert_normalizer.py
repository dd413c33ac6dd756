"""BERT's text normalization and splitting into words, with offsets.

Control characters are removed, accents stripped, and letters lowercased. Words end at
spaces; each punctuation character and each Chinese character is a word. ASCII symbols
such as $ and + count as punctuation, others such as € do not.

Each character is processed independently, so that one table for `str.translate` is
sufficient. Replacements have spaces around them where a word ends, except ASCII, whose
length stays the same, which is faster; ASCII punctuation is split afterwards.

Devlin et al. 2018, and the published code; as in the package `tokenizers`, characters
for private use are removed, and Σ becomes σ also at the end of a word. Character
classes are those of Python's Unicode version: `tokenizers` 0.23 has some tables of
Unicode 8, and treats 256 rare Chinese characters, U+2B820 to U+2B91F, as letters. If
marks are reordered, its offsets are those of a neighbor; here they are exact.
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
    """Splits a text into words as BERT does.

    Args:
        lowercase: Whether to convert to lowercase.
        strip_accents: Whether to remove accents. This decomposes Korean syllables.
        split_chinese: Whether each Chinese character is a word.
        clean: Whether to remove control characters and U+FFFD.

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
        """Returns the words of a text, normalized, in order."""
        return WORD.findall(self._normalize(text))

    def words_with_origins(self, text: str) -> list[tuple[str, list[int]]]:
        """Returns each word, with the index in `text` of each of its characters."""
        normal = self._normalize(text)
        size = {c: len(self._table[ord(c)] or "") for c in set(text)}
        origin = [i for i, c in enumerate(text) for _ in range(size[c])]
        return [
            (match.group(), origin[match.start() : match.end()])
            for match in WORD.finditer(normal)
        ]

    def _normalize(self, text):
        normal = text.translate(self._table)
        # Marks other than accents need canonical ordering, which keeps the length.
        return unicodedata.normalize("NFD", normal) if self.strip_accents else normal


@functools.cache
def _table(*options) -> "_Table":
    return _Table(*options)


class _Table(dict):
    """The replacement of each character, computed on first use."""

    def __init__(self, lowercase, strip_accents, split_chinese, clean):
        super().__init__()
        self.lowercase, self.strip_accents = lowercase, strip_accents
        self.split_chinese, self.clean = split_chinese, clean

    def __missing__(self, point):
        self[point] = replacement = self._become(chr(point))
        return replacement

    def _become(self, character) -> str | None:
        """Returns the replacement of a character, None to remove it."""
        if self.clean and _is_control(character):
            return None
        if self.split_chinese and any(ord(character) in r for r in CHINESE):
            return f" {self._letters(character)} "
        return "".join(map(_cut, self._letters(character))) or None

    def _letters(self, character):
        if self.strip_accents:
            parts = unicodedata.normalize("NFD", character)
            character = "".join(c for c in parts if unicodedata.category(c) != "Mn")
        # Single characters: "Σ" at the end of a word has another lowercase letter.
        return "".join(c.lower() for c in character) if self.lowercase else character


def is_punctuation(character: str) -> bool:
    """Returns whether a character is punctuation for BERT, and so always a word.

    Examples:
        >>> [is_punctuation(character) for character in "$€¿"]
        [True, False, True]
    """
    if character.isascii():
        return re.match(f"[{SYMBOLS}]", character) is not None
    return unicodedata.category(character)[0] == "P"


def _cut(character):
    """Returns a character, with spaces around punctuation; spaces become plain."""
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

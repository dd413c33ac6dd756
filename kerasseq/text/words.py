r"""Word splitting by one regular expression, for any script.

A word is a sequence of letters, digits, underscores and combining marks; an apostrophe
between two of them belongs to it, so that "don't" and "l'eau" are one word each. Every
other character except spaces is a word, as the comma in course D. With `\p{M}` for
marks, which the standard library lacks:

    [\w\p{M}]+(?:'[\w\p{M}]+)*|[^\w\p{M}\s]

Text is normalized to NFC first, and ’ becomes ', so that decomposed characters and
typeset apostrophes give the same words. Left out: scripts without spaces between words,
where a sequence of letters is a phrase; numbers such as 3.14, which are split at the
point; emoji of several characters.
"""

import functools
import itertools
import re
import unicodedata

# All code points of marks, and the zero-width joiner and non-joiner.
MARKS = (range(0x300, 0x20000), range(0xE0100, 0xE01F0), (0x200C, 0x200D))


def find_words(text: str, *, lowercase: bool, punctuation: bool) -> list[str]:
    """Returns the words of a text, in order.

    Args:
        text: A string.
        lowercase: Whether to convert to lowercase; ß stays ß.
        punctuation: Whether other characters count as words.

    Examples:
        >>> find_words("Don’t say no!", lowercase=True, punctuation=True)
        ["don't", 'say', 'no', '!']
    """
    text = text.lower() if lowercase else text
    text = unicodedata.normalize("NFC", text).replace("\u2019", "'")
    words, symbols = _patterns(text.isascii())
    return (symbols if punctuation else words).findall(text)


def find_places(text: str, *, lowercase: bool) -> list[tuple[str, int, int]]:
    r"""Returns the words of a text with start and end, including punctuation.

    Args:
        text: A string.
        lowercase: Whether to convert to lowercase.

    Returns:
        Word, start and end of each.

    Examples:
        >>> find_places("Cafe\u0301!", lowercase=True)  # é in two characters
        [('café', 0, 5), ('!', 5, 6)]
    """
    lowered = text.lower() if lowercase else text
    normal = unicodedata.normalize("NFC", lowered).replace("\u2019", "'")
    origin = range(len(text))
    if len(lowered) != len(text):  # only İ has two characters in lowercase
        origin = [i for i, c in enumerate(text) for _ in c.lower()]
    starts = ends = origin
    if not unicodedata.is_normalized("NFC", lowered):
        spans = _composed(lowered)
        starts = [origin[start] for start, _ in spans]
        ends = [origin[end - 1] for _, end in spans]
    return [
        (match.group(), starts[match.start()], ends[match.end() - 1] + 1)
        for match in _patterns(normal.isascii())[1].finditer(normal)
    ]


def _composed(text):
    """Returns start and end in `text` of each character of its composed form."""
    spans = []
    for match in _clusters().finditer(text):
        first, size = match.start(), len(match.group())
        made = len(unicodedata.normalize("NFC", match.group()))
        # Lost marks are part of the first character. If there are more characters than
        # before, as for क़, the first one was decomposed.
        lost = size - made
        for place in range(made):
            start = max(0, place + lost) if place else 0
            spans.append((first + start, first + max(1, place + lost + 1)))
    return spans


@functools.cache
def _clusters() -> re.Pattern:
    """Matches a character with those that may be composed with it."""
    # Besides marks, these are the vowels and final consonants of Korean.
    return re.compile(f".[{_marks()}\u1160-\u11ff]*", re.DOTALL)


@functools.cache
def _marks() -> str:
    points = map(chr, itertools.chain(*MARKS))
    return "".join(
        c for c in points if unicodedata.category(c)[0] == "M" or c in "\u200c\u200d"
    )


@functools.cache
def _patterns(ascii_only: bool) -> tuple[re.Pattern, re.Pattern]:
    """Compiles the patterns without and with symbols; ASCII needs no marks."""
    marks = "" if ascii_only else _marks()
    letters = rf"[\w{marks}]+"
    words = f"{letters}(?:'{letters})*"
    return re.compile(words), re.compile(rf"{words}|[^\w{marks}\s]")

r"""Where a text has words, in any script: one regular expression.

A word is a run of letters, digits and underscores together with the marks they carry;
an apostrophe between two of them belongs to it, so that "don't" and "l'eau" are one
word each. Every other character that is no space is a word of its own, as the comma is
in course D. Written with `\p{M}` for marks, which the standard library lacks:

    [\w\p{M}]+(?:'[\w\p{M}]+)*|[^\w\p{M}\s]

Text is brought to Unicode's composed form (NFC) first and ’ becomes ', so that neither
a decomposed é nor a typeset apostrophe makes another word. Left out: scripts that put
no spaces between words, where a run of letters is a phrase; numbers such as 3.14, which
come apart at the point; emoji made of several characters.
"""

import functools
import itertools
import re
import unicodedata

# Beyond the first range Unicode has marks in the second one only. The two characters
# that join or separate letters, as in Persian, have no letter and no mark either.
MARKS = (range(0x300, 0x20000), range(0xE0100, 0xE01F0), (0x200C, 0x200D))


def find_words(text: str, *, lowercase: bool, punctuation: bool) -> list[str]:
    """Return the words of a text, in order.

    Args:
        text: Any text.
        lowercase: Whether capitals become small letters; ß stays ß.
        punctuation: Whether characters that are in no word count as words.

    Examples:
        >>> find_words("Don’t say no!", lowercase=True, punctuation=True)
        ["don't", 'say', 'no', '!']
    """
    text = text.lower() if lowercase else text
    text = unicodedata.normalize("NFC", text).replace("\u2019", "'")
    words, symbols = _patterns(text.isascii())
    return (symbols if punctuation else words).findall(text)


def find_places(text: str, *, lowercase: bool) -> list[tuple[str, int, int]]:
    r"""Return the words of a text as `find_words` does, and where each stands in it.

    Args:
        text: Any text.
        lowercase: Whether capitals become small letters.

    Returns:
        Word, start and end of each; punctuation counts.

    Examples:
        >>> find_places("Cafe\u0301!", lowercase=True)  # é in two characters
        [('café', 0, 5), ('!', 5, 6)]
    """
    lowered = text.lower() if lowercase else text
    normal = unicodedata.normalize("NFC", lowered).replace("\u2019", "'")
    origin = range(len(text))
    if len(lowered) != len(text):  # İ is the one character that is two in small letters
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
    """Start and end in `text` of each character of its composed form."""
    spans = []
    for match in _clusters().finditer(text):
        first, size = match.start(), len(match.group())
        made = len(unicodedata.normalize("NFC", match.group()))
        # The marks that are lost went into the first character. Where there are more
        # than before, as for क़, the first one came apart.
        lost = size - made
        for place in range(made):
            start = max(0, place + lost) if place else 0
            spans.append((first + start, first + max(1, place + lost + 1)))
    return spans


@functools.cache
def _clusters() -> re.Pattern:
    """A character and those after it that may be composed with it."""
    # Of what is no mark only the vowels and final consonants of Korean are.
    return re.compile(f".[{_marks()}\u1160-\u11ff]*", re.DOTALL)


@functools.cache
def _marks() -> str:
    points = map(chr, itertools.chain(*MARKS))
    return "".join(
        c for c in points if unicodedata.category(c)[0] == "M" or c in "\u200c\u200d"
    )


@functools.cache
def _patterns(ascii_only: bool) -> tuple[re.Pattern, re.Pattern]:
    """Compile the pattern without and with symbols; ASCII is quicker without marks."""
    marks = "" if ascii_only else _marks()
    letters = rf"[\w{marks}]+"
    words = f"{letters}(?:'{letters})*"
    return re.compile(words), re.compile(rf"{words}|[^\w{marks}\s]")

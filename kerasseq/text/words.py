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
    words, symbols = _patterns()
    return (symbols if punctuation else words).findall(text)


@functools.cache
def _patterns() -> tuple[re.Pattern, re.Pattern]:
    """Compile the pattern without and with symbols."""
    points = map(chr, itertools.chain(*MARKS))
    marks = "".join(
        c for c in points if unicodedata.category(c)[0] == "M" or c in "\u200c\u200d"
    )
    letters = rf"[\w{marks}]+"
    words = f"{letters}(?:'{letters})*"
    return re.compile(words), re.compile(rf"{words}|[^\w{marks}\s]")

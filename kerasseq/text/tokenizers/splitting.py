r"""Pre-tokenization by regular expressions: merges never cross word boundaries.

Patterns use Unicode classes (`\p{L}` letters, `\p{N}` numbers), which need the package
`regex`. Text between matches becomes words as well, so that nothing is lost.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kerasseq.core import packages
from kerasseq.core.checks import nearest

if TYPE_CHECKING:
    import regex

PATTERNS = {
    # A space belongs to the word after it; English contractions are separate words.
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    # At most three digits together; contractions in any case; separate line ends.
    "gpt4": r"(?i:'(?:[sdmt]|ll|ve|re))|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    # Whitespace with the word after it.
    "spaces": r"\s*\S+|\s+",
    # A space with the word before it.
    "ends": r"\S+ ?|\s",
    # The whole text.
    "none": r"(?s:.+)",
}

# Without backtracking a pattern takes about a microsecond per character.
SECONDS = 5.0
SECONDS_PER_CHARACTER = 1e-4  # a hundred times that


@functools.cache
def expression_of(pattern: str) -> "regex.Pattern[str] | Limited":
    """Compiles a pattern of `PATTERNS` by name, or any other with a time limit.

    Raises:
        ImportError: If the package `regex` is not installed.
        ValueError: If the pattern is not a regular expression.
    """
    need = "splitting a text by Unicode classes needs the package"
    regex = packages.load("regex", "regex", need)
    if pattern in PATTERNS:
        return regex.compile(PATTERNS[pattern])
    try:
        return Limited(regex.compile(pattern))
    except regex.error as error:
        names = ", ".join(f'"{name}"' for name in PATTERNS)
        raise ValueError(
            f"pattern={pattern!r} is neither one of {names} nor a regular expression: "
            f"{error}.{nearest(pattern, PATTERNS)}"
        ) from error


class Limited:
    """An untrusted pattern, with a limit on the time per text.

    Some patterns take exponential time, for example `(?:a|a)+b`.

    Args:
        expression: A pattern compiled by `regex`.
    """

    def __init__(self, expression: "regex.Pattern[str]"):
        self.expression = expression
        self.groups: int = expression.groups

    def findall(self, text: str) -> list[Any]:
        """Finds all matches, as in `regex`."""
        with self._limit(text) as seconds:
            return self.expression.findall(text, timeout=seconds)

    def finditer(self, text: str) -> "Iterator[regex.Match[str]]":
        """Yields the matches, as in `regex`."""
        with self._limit(text) as seconds:
            yield from self.expression.finditer(text, timeout=seconds)

    @contextlib.contextmanager
    def _limit(self, text):
        seconds = SECONDS + SECONDS_PER_CHARACTER * len(text)
        try:
            yield seconds
        except TimeoutError:
            raise ValueError(
                f"the pattern {self.expression.pattern!r} must match a text of "
                f"{len(text)} characters within {seconds:.1f} seconds, but did not: it "
                "backtracks too much. Write it so that each text has one way to match, "
                "for example a+ instead of (a|a)+ or (a+)+, or prevent backtracking: "
                "(?>a+), a++"
            ) from None


def split(text: str, pattern: str) -> list[str]:
    """Splits a text into words; joined, they are the text.

    Raises:
        ValueError: If the pattern takes too long on the text.

    Examples:
        >>> split("It's 42  words!", "gpt2")
        ['It', "'s", ' 42', ' ', ' words', '!']
        >>> split("a-b-c", "(a|b)(-)")
        ['a-', 'b-', 'c']
    """
    expression = expression_of(pattern)
    if not expression.groups:  # with groups, `findall` returns these
        words = expression.findall(text)
        if sum(map(len, words)) == len(text):
            return words
    words, done = [], 0
    for match in expression.finditer(text):
        words += [text[done : match.start()], match.group()]
        done = match.end()
    return [word for word in [*words, text[done:]] if word]


def checked_mark(end_of_word: object, level: str) -> str | None:
    """Returns the mark of the end of a word, or None.

    Args:
        end_of_word: A character.
        level: The initial tokens of a byte-pair encoding.

    Raises:
        TypeError: If it is no string.
        ValueError: If it is no single character, or the tokens are no characters.
    """
    if end_of_word is None:
        return None
    if not isinstance(end_of_word, str):
        raise TypeError(f"end_of_word must be a character, received {end_of_word!r}")
    if len(end_of_word) != 1 or end_of_word.isspace():
        raise ValueError(
            'end_of_word must be one character that is no space, such as "_", received '
            f"{end_of_word!r}"
        )
    if level != "character":
        raise ValueError(
            f"end_of_word must be None with level={level!r}, received {end_of_word!r}: "
            'it is for level="character"'
        )
    return end_of_word

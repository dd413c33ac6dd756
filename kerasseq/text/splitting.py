r"""Cut a text into words before merging: merges never cross a cut.

Patterns use Unicode classes (`\p{L}` letters, `\p{N}` numbers), which need the package
`regex`. What a pattern does not match is a word of its own, so nothing is lost.
"""

import contextlib
import functools

from kerasseq.core.checks import nearest

PATTERNS = {
    # A space belongs to the word after it; English endings stand alone.
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    # At most three digits together; endings in any case; line ends on their own.
    "gpt4": r"(?i:'(?:[sdmt]|ll|ve|re))|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    # One word per run of whitespace and what follows it.
    "spaces": r"\s*\S+|\s+",
}

# A pattern without long ways back takes about a millionth of a second per character.
SECONDS = 5.0
SECONDS_PER_CHARACTER = 1e-4


@functools.cache
def compiled(pattern: str):
    """A pattern of `PATTERNS` by name, or any other, compiled.

    Raises:
        ImportError: If the package `regex` is missing; it says how to install it.
        ValueError: If the pattern is none.
    """
    try:
        import regex
    except ImportError as error:
        raise ImportError(
            "cutting a text at Unicode's classes needs the package regex: "
            'pip install "kerasseq[text]"'
        ) from error
    try:
        return regex.compile(PATTERNS.get(pattern, pattern))
    except regex.error as error:
        names = ", ".join(f'"{name}"' for name in PATTERNS)
        raise ValueError(
            f"pattern={pattern!r} is neither one of {names} nor a regular expression: "
            f"{error}.{nearest(pattern, PATTERNS)}"
        ) from error


def limited(pattern: str):
    """A pattern by name, or any other, which is given up if it never ends.

    Raises:
        ImportError: If the package `regex` is missing; it says how to install it.
        ValueError: If the pattern is none.
    """
    expression = compiled(pattern)
    return expression if pattern in PATTERNS else Limited(expression)


class Limited:
    """A pattern from anybody, with a limit on the time that a text may take.

    Some patterns try each of 2ⁿ ways to match n characters, for example `(?:a|a)+b`.

    Args:
        expression: Compiled by `regex`.
    """

    def __init__(self, expression):
        self.expression, self.groups = expression, expression.groups

    def findall(self, text: str) -> list:
        """Like that of `regex`."""
        with self._limit(text) as seconds:
            return self.expression.findall(text, timeout=seconds)

    def finditer(self, text: str):
        """Like that of `regex`."""
        with self._limit(text) as seconds:
            yield from self.expression.finditer(text, timeout=seconds)

    def sub(self, replacement, text: str) -> str:
        """Like that of `regex`."""
        with self._limit(text) as seconds:
            return self.expression.sub(replacement, text, timeout=seconds)

    @contextlib.contextmanager
    def _limit(self, text):
        seconds = SECONDS + SECONDS_PER_CHARACTER * len(text)
        try:
            yield seconds
        except TimeoutError:
            raise ValueError(
                f"the pattern {self.expression.pattern!r} must match a text of "
                f"{len(text)} characters within {seconds:.1f} seconds, but did not: it "
                "tries too many ways. Write it so that each text has one way to match, "
                "for example a+ instead of (a|a)+ or (a+)+, or do not let it go back: "
                "(?>a+), a++"
            ) from None


def split(text: str, pattern: str) -> list[str]:
    """The words of a text, which in a row are the text again.

    Raises:
        ValueError: If the pattern takes too long on the text.

    Examples:
        >>> split("It's 42  words!", "gpt2")
        ['It', "'s", ' 42', ' ', ' words', '!']
        >>> split("a-b-c", "(a|b)(-)")
        ['a-', 'b-', 'c']
    """
    expression = limited(pattern)
    if not expression.groups:  # else `findall` gives the groups
        words = expression.findall(text)
        if sum(map(len, words)) == len(text):
            return words
    words, done = [], 0
    for match in expression.finditer(text):
        words += [text[done : match.start()], match.group()]
        done = match.end()
    return [word for word in [*words, text[done:]] if word]

r"""Cut a text into words before merging: merges never cross a cut.

Patterns use Unicode classes (`\p{L}` letters, `\p{N}` numbers), which need the package
`regex`. What a pattern does not match is a word of its own, so nothing is lost.
"""

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


def split(text: str, pattern: str) -> list[str]:
    """The words of a text, which in a row are the text again.

    Examples:
        >>> split("It's 42  words!", "gpt2")
        ['It', "'s", ' 42', ' ', ' words', '!']
    """
    expression = compiled(pattern)
    words = expression.findall(text)
    if sum(map(len, words)) == len(text):
        return words
    words, done = [], 0
    for match in expression.finditer(text):
        words += [text[done : match.start()], match.group()]
        done = match.end()
    return [word for word in [*words, text[done:]] if word]

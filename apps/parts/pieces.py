"""What each token of a text covers; the bytes of a letter that is cut are shown."""

import functools
import re
from typing import Any

FIRST_ESCAPE = 0xDC00  # "surrogateescape" reads an invalid byte as this, plus the byte


def of(tokenizer: Any, text: str) -> list[str]:
    """Returns what each token of a text covers, for the worker.

    Tokens that are bytes may cut a letter in two: then their bytes are shown, as the
    letter belongs to neither.

    Examples:
        >>> from kerasseq.text import BytePairTokenizer
        >>> of(BytePairTokenizer(256).fit("a"), "né")
        ['n', '⟨C3⟩', '⟨A9⟩']
    """
    found = tokenizer.encode_with_offsets(text)
    if is_of_bytes(tokenizer):
        return [readable(token) for token in found.tokens]
    return [text[a:b] for a, b in found.offsets.tolist()]


def is_of_bytes(tokenizer: Any) -> bool:
    """Whether the tokens of a tokenizer are spelled byte by byte, as in GPT-2."""
    return getattr(tokenizer, "level", "") == "byte"


def readable(token: str) -> str:
    """Returns what a token spelled byte by byte says; its bytes where a letter is cut.

    Examples:
        >>> readable("ĠÃ©t"), readable("©")
        (' ét', '⟨A9⟩')
    """
    if not set(token) <= set(_byte_of()):  # a special token
        return token
    data = bytes(_byte_of()[symbol] for symbol in token)
    return re.sub(
        "[\udc80-\udcff]",
        lambda match: f"⟨{ord(match[0]) - FIRST_ESCAPE:02X}⟩",
        data.decode("utf-8", "surrogateescape"),
    )


@functools.cache
def _byte_of():
    """The byte of each symbol: all that occur in UTF-8."""
    from kerasseq.text import BytePairTokenizer

    starts = [*range(0x800), *range(0x800, 0xD800, 0x800), *range(0xE000, 0x10000, 512)]
    text = "".join(map(chr, [*starts, *range(0x10000, 0x110000, 0x10000)]))
    tokens = BytePairTokenizer(256).fit("a").tokenize(text)
    return dict(zip("".join(tokens), text.encode(), strict=True))

"""Bytes and spaces as vocabularies write them.

GPT-2 has a printable character for each byte. Bytes that are printable in Latin-1 keep
their character; the others, such as spaces and control characters, are mapped to U+0100
and up: a space is Ġ, a line end Ċ. SentencePiece writes a space as ▁, and a byte as
`<0x41>`.
"""

import itertools
from collections.abc import Iterable

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in set(_PRINTABLE)]

CHARACTER_OF = {byte: chr(byte) for byte in _PRINTABLE}
CHARACTER_OF |= {byte: chr(0x100 + n) for n, byte in enumerate(_OTHERS)}
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}

SPACE = "\u2581"  # ▁
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
BYTE_NAMED = {name: byte for byte, name in enumerate(BYTES)}


def spell(data: bytes) -> str:
    """Converts bytes to printable characters.

    Examples:
        >>> spell("to é".encode())
        'toĠÃ©'
    """
    return data.decode("latin-1").translate(CHARACTER_OF)


def read(token: str) -> bytes:
    """Converts a token to its bytes.

    Examples:
        >>> read("Ġto")
        b' to'
    """
    return bytes(BYTE_OF[character] for character in token)


def decode_tokens(tokens: Iterable[str]) -> str:
    """Returns the text of tokens, of which those such as `<0x41>` are bytes.

    Bytes that are not UTF-8 are � each, as in the package `tokenizers`.

    Examples:
        >>> decode_tokens(["caf", "<0xC3>", "<0xA9>", "s"])
        'cafés'
    """
    text = []
    for are_bytes, run in itertools.groupby(tokens, BYTE_NAMED.__contains__):
        if not are_bytes:
            text += run
            continue
        data = bytes(BYTE_NAMED[name] for name in run)
        try:
            text.append(data.decode())
        except UnicodeDecodeError:
            text.append("\N{REPLACEMENT CHARACTER}" * len(data))
    return "".join(text)

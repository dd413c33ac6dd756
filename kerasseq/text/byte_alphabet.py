"""A visible character for each byte, as GPT-2 writes its tokens.

Bytes that Latin-1 shows keep their character; the others, spaces and control characters
among them, take those from U+0100 on: a space is Ġ, a line end Ċ.
"""

_SHOWN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in set(_SHOWN)]

CHARACTER_OF = {byte: chr(byte) for byte in _SHOWN}
CHARACTER_OF |= {byte: chr(0x100 + n) for n, byte in enumerate(_HIDDEN)}
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


def spell(data: bytes) -> str:
    """Bytes as visible characters.

    Examples:
        >>> spell("to é".encode())
        'toĠÃ©'
    """
    return data.decode("latin-1").translate(CHARACTER_OF)


def read(token: str) -> bytes:
    """The bytes that a token spells.

    Examples:
        >>> read("Ġto")
        b' to'
    """
    return bytes(BYTE_OF[character] for character in token)

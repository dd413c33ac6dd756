"""A printable character for each byte, as in the vocabulary of GPT-2.

Bytes that are printable in Latin-1 keep their character; the others, such as spaces and
control characters, are mapped to U+0100 and up: a space is Ġ, a line end Ċ.
"""

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in set(_PRINTABLE)]

CHARACTER_OF = {byte: chr(byte) for byte in _PRINTABLE}
CHARACTER_OF |= {byte: chr(0x100 + n) for n, byte in enumerate(_OTHERS)}
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


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

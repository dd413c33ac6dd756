"""Decoders from tokens to text.

A decoder is a function from a list of tokens to a list of strings, which are joined.
"""

from collections.abc import Callable

from kerasseq.text.pipeline.normalizers import Replace
from kerasseq.text.pipeline.part import Part
from kerasseq.text.pipeline.pre_tokenizers import SCHEMES
from kerasseq.text.tokenizers import byte_alphabet
from kerasseq.text.tokenizers.unigram_pieces import BYTES

Decoder = Callable[[list[str]], list[str]]
BYTE_OF = {token: byte for byte, token in enumerate(BYTES)}
CLEANED = {
    " .": ".", " ?": "?", " !": "!", " ,": ",", " ' ": "'", " n't": "n't",
    " 'm": "'m", " do not": " don't", " 's": "'s", " 've": "'ve", " 're": "'re",
}  # fmt: skip


def _byte_level(part: Part):
    return lambda tokens: [b"".join(map(_bytes, tokens)).decode("utf-8", "replace")]


def _bytes(token):
    if all(character in byte_alphabet.BYTE_OF for character in token):
        return byte_alphabet.read(token)
    return token.encode()


def _byte_fallback(part: Part):
    return _join_bytes


def _join_bytes(tokens):
    """Decodes consecutive bytes; if they are not UTF-8, each becomes �."""
    texts, data = [], bytearray()
    for token in [*tokens, None]:
        if token in BYTE_OF:
            data.append(BYTE_OF[token])
            continue
        try:
            texts += [data.decode()] if data else []
        except UnicodeDecodeError:
            texts += ["\ufffd"] * len(data)
        data.clear()
        texts += [] if token is None else [token]
    return texts


def _strip(part: Part):
    content = part.get("content", str)
    start, stop = part.get("start", int), part.get("stop", int)

    def stripped(token):
        left = min(start, len(token) - len(token.lstrip(content)))
        right = min(stop, len(token) - len(token.rstrip(content)))
        return token[left : max(left, len(token) - right)]

    return lambda tokens: [stripped(token) for token in tokens]


def _replace(part: Part):
    replace = Replace(part)
    return lambda tokens: [replace.text(token) for token in tokens]


def _metaspace(part: Part):
    mark = part.get("replacement", str)
    scheme = part.choice("prepend_scheme", SCHEMES, "always")
    prefixed = scheme != "never" and part.get("add_prefix_space", bool, True)

    def spaced(tokens):
        first = ["" if prefixed else " "]
        spaces = first + [" "] * (len(tokens) - 1)
        return [t.replace(mark, s) for t, s in zip(tokens, spaces, strict=False)]

    return spaced


def _word_piece(part: Part):
    prefix = part.get("prefix", str)
    cleanup = part.get("cleanup", bool, True)

    def joined(tokens):
        texts = [
            token.removeprefix(prefix) if token.startswith(prefix) else f" {token}"
            for token in tokens[1:]
        ]
        texts = [*tokens[:1], *texts]
        return [_cleaned(text) for text in texts] if cleanup else texts

    return joined


def _cleaned(text):
    for before, after in CLEANED.items():
        text = text.replace(before, after)
    return text


def _sequence(part: Part):
    steps = [each.component(DECODERS) for each in part.parts("decoders")]

    def decoded(tokens):
        for step in steps:
            tokens = step(tokens)
        return tokens

    return decoded


DECODERS: dict[str, Callable[[Part], Decoder]] = {
    "ByteFallback": _byte_fallback,
    "ByteLevel": _byte_level,
    "Fuse": lambda part: lambda tokens: ["".join(tokens)],
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Sequence": _sequence,
    "Strip": _strip,
    "WordPiece": _word_piece,
}

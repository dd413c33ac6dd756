"""Texts and special tokens as the tokenizers take them, or what is wrong with them."""

import functools
import re

import numpy as np

from kerasseq.core.checks import several, short


def check_text(text):
    """Raise a `TypeError` unless `text` is a string."""
    if not isinstance(text, str):
        raise TypeError(f"`text` must be a string, got {type(text).__name__}.")


def each_text(method):
    """Let a method of one text take a list of them, and give a list."""

    @functools.wraps(method)
    def one_or_several(self, text, **options):
        if isinstance(text, list | tuple):
            return [method(self, one, **options) for one in text]
        return method(self, text, **options)

    return one_or_several


def each_row(method):
    """Let a method of one row of ids take rows of them, a `Batch`, or one id."""

    @functools.wraps(method)
    def one_or_several(self, ids, **options):
        if isinstance(ids, tuple) and hasattr(ids, "mask"):
            ids = [row[real] for row, real in zip(ids.ids, ids.mask, strict=True)]
        if len(getattr(ids, "shape", ())) > 1 or _are_rows(ids):
            return [method(self, row, **options) for row in ids]
        one = isinstance(ids, int | np.integer) and not isinstance(ids, bool)
        return method(self, [ids] if one else ids, **options)

    return one_or_several


def _are_rows(ids):
    return isinstance(ids, list | tuple) and len(ids) > 0 and hasattr(ids[0], "__len__")


def training_texts(text) -> list[str]:
    """The texts to learn from: one string, or several, not all of them empty.

    Raises:
        TypeError: If one is no string.
        ValueError: If there is nothing to learn from.

    Examples:
        >>> training_texts(["to be", "or not"])
        ['to be', 'or not']
    """
    if isinstance(text, bytes) or not hasattr(text, "__iter__"):
        kind = type(text).__name__
        raise TypeError(f"`text` must be a string, or several, got {kind}")
    texts = [text] if isinstance(text, str) else several("text", text)
    for number, one in enumerate(texts):
        if not isinstance(one, str):
            raise TypeError(
                "`text` must be a string, or several; number "
                f"{number} is {type(one).__name__}"
            )
    if not any(texts):
        raise ValueError("`text` is empty: there is nothing to learn from.")
    return texts


def special_tokens(tokens, unknown=None) -> tuple[str, ...]:
    """Special tokens as a tuple, checked: distinct, not empty, the unknown one first.

    Examples:
        >>> special_tokens(["<pad>"], unknown="<unk>")
        ('<unk>', '<pad>')
    """
    if isinstance(tokens, str) or not hasattr(tokens, "__iter__"):
        raise TypeError(f"special_tokens must be a list of strings, got {tokens!r}")
    if unknown is not None and not isinstance(unknown, str):
        raise TypeError(f"unknown must be a string or None, got {short(unknown)}")
    tokens = tuple(several("special_tokens", tokens))
    if wrong := [token for token in tokens if not isinstance(token, str)]:
        raise ValueError(
            f"special_tokens: a special token must be a string, not {short(wrong[0])}"
        )
    if unknown is not None and unknown not in tokens:
        tokens = (unknown, *tokens)
    for token in tokens:
        if not isinstance(token, str) or not token:
            raise ValueError(f"a special token must be a string, not {token!r}")
    if len(set(tokens)) < len(tokens):
        raise ValueError(f"special_tokens must be distinct, got {list(tokens)}")
    return tokens


def cut_out(text: str, special_tokens) -> list[tuple[str, bool]]:
    """A text cut at its special tokens: each part, and whether it is such a token.

    Examples:
        >>> cut_out("to be<end>or not", ["<end>"])
        [('to be', False), ('<end>', True), ('or not', False)]
    """
    if not special_tokens:
        return [(text, False)]
    # Of two that begin alike the longer one is meant.
    longest_first = sorted(special_tokens, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
    return [(part, bool(n % 2)) for n, part in enumerate(parts) if part]


def utf8(text: str) -> bytes:
    r"""The bytes of a text; half a surrogate pair has none.

    Raises:
        ValueError: That says where the half stands.

    Examples:
        >>> utf8("é")
        b'\xc3\xa9'
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text has half a surrogate pair, {text[error.start]!r}, at position "
            f"{error.start}, which no encoding of Unicode has: it was read with the "
            "wrong encoding. Read it anew, or remove it with "
            "text.encode('utf-8', 'ignore').decode()"
        ) from None

"""Checks and conversions of the texts, ids and special tokens that users pass."""

import functools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import several, short


def check_text(text: str) -> None:
    """Raises a `TypeError` unless `text` is a string."""
    if not isinstance(text, str):
        raise TypeError(f"`text` must be a string, received {type(text).__name__}.")


T = TypeVar("T", covariant=True)


class TextMethod(Protocol[T]):
    """A method of one text, or of a list of texts."""

    @overload
    def __call__(self, text: str) -> T: ...
    @overload
    def __call__(self, text: list[str] | tuple[str, ...]) -> list[T]: ...


class RowMethod(Protocol[T]):
    """A method of one row of ids, or of several, which an array alone may be."""

    @overload
    def __call__(self, ids: int | Sequence[int], *, skip_special: bool = ...) -> T: ...
    @overload
    def __call__(
        self, ids: Sequence[Sequence[int] | np.ndarray], *, skip_special: bool = ...
    ) -> list[T]: ...
    @overload
    def __call__(self, ids: ArrayLike, *, skip_special: bool = ...) -> T | Any: ...


def each_text(method: Callable[[Any, str], T]) -> TextMethod[T]:
    """Extends a method of one text to a list of texts."""

    @functools.wraps(method)
    def one_or_several(self, text, **options):
        if isinstance(text, list | tuple):
            return [method(self, one, **options) for one in text]
        return method(self, text, **options)

    return one_or_several


def each_row(method: Callable[..., T]) -> RowMethod[T]:
    """Extends a method of one row of ids to several rows, a `Batch`, or one id."""

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


def training_texts(text: str | Iterable[str]) -> list[str]:
    """Returns training texts as a list, at least one of them not empty.

    Raises:
        TypeError: If a text is not a string.
        ValueError: If all texts are empty.

    Examples:
        >>> training_texts(["to be", "or not"])
        ['to be', 'or not']
    """
    if isinstance(text, bytes) or not hasattr(text, "__iter__"):
        kind = type(text).__name__
        raise TypeError(
            f"`text` must be a string or a list of strings, received {kind}"
        )
    texts = [text] if isinstance(text, str) else several("text", text)
    for number, one in enumerate(texts):
        if not isinstance(one, str):
            raise TypeError(
                "`text` must be a string or a list of strings; number "
                f"{number} is {type(one).__name__}"
            )
    if not any(texts):
        raise ValueError("`text` is empty. Pass a text with at least one character.")
    return texts


def special_tokens(
    tokens: Iterable[str], unknown: str | None = None
) -> tuple[str, ...]:
    """Returns special tokens as a checked tuple, the unknown token first.

    Examples:
        >>> special_tokens(["<pad>"], unknown="<unk>")
        ('<unk>', '<pad>')
    """
    if isinstance(tokens, str) or not hasattr(tokens, "__iter__"):
        raise TypeError(
            f"special_tokens must be a list of strings, received {tokens!r}"
        )
    if unknown is not None and not isinstance(unknown, str):
        raise TypeError(f"unknown must be a string or None, received {short(unknown)}")
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
        raise ValueError(f"special_tokens must be distinct, received {list(tokens)}")
    return tokens


def cut_out(text: str, special_tokens: Collection[str]) -> list[tuple[str, bool]]:
    """Splits a text at special tokens: parts, and whether each is one of them.

    Examples:
        >>> cut_out("to be<end>or not", ["<end>"])
        [('to be', False), ('<end>', True), ('or not', False)]
    """
    if not special_tokens:
        return [(text, False)]
    # The longest token first, since the pattern takes the first alternative.
    longest_first = sorted(special_tokens, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
    return [(part, bool(n % 2)) for n, part in enumerate(parts) if part]


def utf8(text: str) -> bytes:
    r"""Encodes a text as UTF-8.

    Raises:
        ValueError: If the text has a lone surrogate.

    Examples:
        >>> utf8("é")
        b'\xc3\xa9'
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the text has half a surrogate pair, {text[error.start]!r}, at position "
            f"{error.start}, probably because it was read with a wrong encoding. Read "
            "it again, or remove it with text.encode('utf-8', 'ignore').decode()"
        ) from None


def id_array(ids: ArrayLike, size: int, *, name: str = "ids") -> np.ndarray:
    """Returns ids as an int64 array with one axis, checked against a vocabulary.

    Args:
        ids: A list, array or tensor of whole numbers with one axis.
        size: Vocabulary size.
        name: Name of the argument, for messages.

    Returns:
        An int64 array of shape `(time,)`.

    Raises:
        TypeError: If the ids are not whole numbers.
        ValueError: If there is not exactly one axis, or an id is outside the range.

    Examples:
        >>> id_array([2, 0], 3)
        array([2, 0])
    """
    try:
        array = np.asarray(ids)
    except ValueError as error:  # rows of unequal lengths
        raise ValueError(
            f"`{name}` must be one row of ids, "
            f"received {short(ids)}. Pass one sequence at "
            "a time."
        ) from error
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(
            f"`{name}` must be whole numbers, "
            f"received {short(ids)} of {array.dtype}. A "
            "tokenizer's `encode` turns text into ids."
        )
    if array.ndim != 1:
        raise ValueError(
            f"`{name}` must be one row of ids, "
            f"received an array of shape {array.shape}. "
            "Pass one sequence at a time."
        )
    outside = (array < 0) | (array >= size)
    if outside.any():
        position = int(outside.argmax())
        raise ValueError(
            f"`{name}` holds {array[position]} at position {position}, outside the "
            f"vocabulary: ids run from 0 to {size - 1}."
        )
    return array.astype("int64")

"""Copy, reverse and sort: small sequence-to-sequence tasks.

Each has a known alignment: diagonal for copying, antidiagonal for reversing, and
content-based for sorting, so that attention weights can be checked.

A sequence is a string with one character per symbol. Text models take it with a
character tokenizer; `symbol_ids` converts it to arrays for other models.
"""

from collections.abc import Iterable

import numpy as np

from kerasseq.core.checks import random_generator, several, whole_number
from kerasseq.datasets.drawing import shares
from kerasseq.datasets.pairs import Pairs

SYMBOLS = "abcdefghij"


def copy_task(
    count: int,
    *,
    symbols: str = SYMBOLS,
    min_length: int = 2,
    max_length: int = 10,
    seed: int | None = 0,
) -> Pairs:
    """Samples strings to be copied.

    Lengths are uniform, as far as there are enough strings of each length, and symbols
    are uniform. All strings are distinct.

    Args:
        count: Number of pairs.
        symbols: A string of distinct symbols.
        min_length: Minimum length.
        max_length: Maximum length.
        seed: Random seed.

    Returns:
        The strings and their copies, as `Pairs`.

    Raises:
        TypeError: If a size is not a whole number, or `symbols` is not a string.
        ValueError: If a symbol is repeated or whitespace, a size is too small, or there
            are fewer distinct strings than `count`.

    Examples:
        >>> copy_task(2, symbols="abc", min_length=4, max_length=4)
        Pairs(sources=['cbba', 'aaaa'], targets=['cbba', 'aaaa'])
    """
    sources = _strings(count, _symbols(symbols), min_length, max_length, seed)
    return Pairs(sources, list(sources))


def reverse_task(
    count: int,
    *,
    symbols: str = SYMBOLS,
    min_length: int = 2,
    max_length: int = 10,
    seed: int | None = 0,
) -> Pairs:
    """Samples strings to be reversed.

    The strings are those of `copy_task` with the same arguments.

    Args:
        count: Number of pairs.
        symbols: A string of distinct symbols.
        min_length: Minimum length.
        max_length: Maximum length.
        seed: Random seed.

    Returns:
        The strings and their reversals, as `Pairs`.

    Raises:
        TypeError: As `copy_task`.
        ValueError: As `copy_task`.

    Examples:
        >>> reverse_task(2, symbols="abc", min_length=4, max_length=4).targets
        ['abbc', 'aaaa']
    """
    sources = _strings(count, _symbols(symbols), min_length, max_length, seed)
    return Pairs(sources, [text[::-1] for text in sources])


def sort_task(
    count: int,
    *,
    symbols: str = SYMBOLS,
    min_length: int = 2,
    max_length: int = 10,
    seed: int | None = 0,
) -> Pairs:
    """Samples strings to be sorted.

    The strings are those of `copy_task` with the same arguments. Many have the same
    target; `split` puts these into the same part.

    Args:
        count: Number of pairs.
        symbols: A string of distinct symbols, in order.
        min_length: Minimum length.
        max_length: Maximum length.
        seed: Random seed.

    Returns:
        The strings and the sorted strings, as `Pairs`.

    Raises:
        TypeError: As `copy_task`.
        ValueError: As `copy_task`.

    Examples:
        >>> sort_task(2, symbols="cab", min_length=4, max_length=4)
        Pairs(sources=['baac', 'cccc'], targets=['caab', 'cccc'])
    """
    symbols = _symbols(symbols)
    sources = _strings(count, symbols, min_length, max_length, seed)
    return Pairs(sources, ["".join(sorted(s, key=symbols.index)) for s in sources])


def symbol_ids(
    texts: Iterable[str], symbols: str = SYMBOLS, *, length: int | None = None
) -> np.ndarray:
    """Converts strings of symbols to ids, for an embedding layer.

    Args:
        texts: Strings, such as the sources or the targets of `copy_task`.
        symbols: The symbols, in the order of their ids.
        length: Number of time steps. Defaults to the longest string.

    Returns:
        int32 of shape `(len(texts), length)`. Symbols are 1, 2, 3 …, and 0 is padding,
        on the right.

    Raises:
        TypeError: If `symbols` is not a string.
        ValueError: If a string holds another symbol or is longer than `length`.

    Examples:
        >>> symbol_ids(["ac", "cab"], "abc")
        array([[1, 3, 0],
               [3, 1, 2]], dtype=int32)
    """
    known = {symbol: i for i, symbol in enumerate(_symbols(symbols), start=1)}
    texts = several("texts", texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts[{number}] must be a string, received {text!r}")
    longest = max(map(len, texts), default=0)
    length = longest if length is None else whole_number("length", length)
    if length < longest:
        raise ValueError(f"length is {length}, but a text has {longest} symbols")
    ids = np.zeros((len(texts), length), "int32")
    for row, text in zip(ids, texts, strict=True):
        if unknown := set(text) - set(known):
            raise ValueError(f"texts hold {min(unknown)!r}, not of symbols={symbols!r}")
        row[: len(text)] = [known[symbol] for symbol in text]
    return ids


def _symbols(symbols) -> str:
    if not isinstance(symbols, str):
        raise TypeError(f'symbols must be a string such as "abc", received {symbols!r}')
    blank = any(symbol.isspace() for symbol in symbols)
    if not symbols or blank or len(set(symbols)) < len(symbols):
        raise ValueError(
            f"symbols={symbols!r} must be different characters and no blanks, as in "
            '"abc"'
        )
    return symbols


def _strings(count, symbols: str, min_length, max_length, seed) -> list[str]:
    """Returns distinct strings with uniform lengths, in random order."""
    min_length = whole_number("min_length", min_length)
    max_length = whole_number("max_length", max_length, at_least=min_length)
    lengths = range(min_length, max_length + 1)
    what = f"strings of {len(symbols)} symbols and length {min_length} to {max_length}"
    numbers = shares(count, [len(symbols) ** length for length in lengths], what)
    rng = random_generator(seed)
    drawn = {}  # in order of sampling, independent of hashes
    for length, number in zip(lengths, numbers, strict=True):
        enough = len(drawn) + number
        while len(drawn) < enough:
            for row in rng.integers(len(symbols), size=(number, length)).tolist():
                if len(drawn) < enough:
                    drawn["".join(symbols[i] for i in row)] = None
    texts = list(drawn)
    return [texts[i] for i in rng.permutation(len(texts))]

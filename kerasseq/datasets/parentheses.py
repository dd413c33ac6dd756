"""The parentheses task: whether a string of parentheses is balanced.

Course C has two versions. Plain: 1 opens and -1 closes. With c colors: 0 to c - 1 open,
and 2c - 1 - i closes i, so that a pair sums to 2c - 1.

Skeletons are uniform among all balanced ones of their length, by the cycle lemma
(Dvoretzky and Motzkin, 1947): of the 2n + 1 rotations of n + 1 openers and n closers,
exactly one stays above zero; without its first opener it is balanced.
"""

import numbers
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import one_of, random_generator, several, whole_number

LENGTHS = {"training": (4, 20), "balanced": (4, 20), "hard": (22, 40)}


class Parentheses(NamedTuple):
    """Labeled sequences, ready for an embedding layer.

    Attributes:
        ids: int32 of shape `(size, time)`. 0 is padding, on the right; symbols are 1 to
            2c. `time` is the longest allowed length, rounded up to a multiple of 8, so
            that batches come in few shapes and models recompile rarely.
        labels: int32 of shape `(size,)`: 1 balanced, 0 not.
        sequences: The same as lists, in the notation of the course.
    """

    ids: np.ndarray
    labels: np.ndarray
    sequences: list[list[int]]


def parentheses(
    size: int,
    *,
    colors: int = 5,
    lengths: tuple[int, int] | None = None,
    kind: str = "training",
    seed: int | None = None,
) -> Parentheses:
    """Samples balanced and unbalanced strings of parentheses.

    - `"training"`: lengths 4–20, half of them balanced. Of the others a third each has
      one symbol replaced, two different symbols swapped, or all symbols shuffled.
    - `"balanced"`: lengths 4–20, all balanced.
    - `"hard"`: lengths 22–40, half balanced, the others with one wrong symbol.

    All lengths are even and uniform, so that they are independent of the label. Swaps
    and shuffles that result in a balanced string are repeated.

    Args:
        size: Number of strings; if it is odd, one more is balanced.
        colors: Number of colors; 1 is the plain task, written 1 and -1.
        lengths: Minimum and maximum length. Defaults to those of `kind`.
        kind: `"training"`, `"balanced"` or `"hard"`.
        seed: Seed of all random choices.

    Returns:
        The strings, as a `Parentheses`.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is too small, no even length is allowed, or `kind` is
            unknown.

    Examples:
        >>> data = parentheses(6, colors=1, lengths=(2, 2), seed=0)
        >>> data.ids.shape
        (6, 8)
        >>> sorted(data.sequences)
        [[-1, -1], [-1, 1], [-1, 1], [1, -1], [1, -1], [1, -1]]
    """
    size = whole_number("size", size, at_least=0)
    colors = whole_number("colors", colors, at_least=1)
    one_of("kind", kind, LENGTHS)
    even = _even_lengths(LENGTHS[kind] if lengths is None else lengths)
    rng = random_generator(seed)

    rows = _balanced_rows(rng, rng.choice(even, size), colors)
    labels = np.ones(size, "int32")
    if kind != "balanced":
        wrong = rng.permutation(size)[: size // 2]
        labels[wrong] = 0
        ways = (_replace,) if kind == "hard" else (_replace, _swap, _shuffle)
        for count, i in enumerate(wrong):
            rows[i] = _unbalance(rng, rows[i], colors, ways[count % len(ways)])

    ids = np.zeros((size, -(-even[-1] // 8) * 8), "int32")
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row + 1
    return Parentheses(ids, labels, [_notation(row, colors) for row in rows])


def is_balanced(sequence: Iterable[int], colors: int = 5) -> bool:
    """Returns whether a string of parentheses is balanced, checked with a stack.

    Args:
        sequence: Symbols in the notation of the course, not padded ids.
        colors: Number of colors; 1 is the plain notation, 1 and -1.

    Returns:
        Whether every parenthesis is closed in order by its color.

    Raises:
        ValueError: If a symbol is invalid.

    Examples:
        >>> is_balanced([2, 0, 9, 7, 0, 9])
        True
        >>> is_balanced([1, -1, -1, 1], colors=1)
        False
    """
    colors = whole_number("colors", colors, at_least=1)
    last = 2 * colors - 1
    closer = {1: -1} if colors == 1 else {i: last - i for i in range(colors)}
    symbols = {*closer, *closer.values()}
    expected = []
    for position, symbol in enumerate(several("sequence", sequence, "ids")):
        if not isinstance(symbol, numbers.Real) or symbol not in symbols:
            right = "1 and -1" if colors == 1 else f"0 to {last}"
            raise ValueError(
                f"`sequence` holds {symbol!r} at position {position}; with "
                f"colors={colors} the symbols are {right}."
            )
        if symbol in closer:
            expected.append(closer[symbol])
        elif not expected or expected.pop() != symbol:
            return False
    return not expected


def _even_lengths(lengths) -> np.ndarray:
    try:
        low, high = lengths
    except (TypeError, ValueError):
        raise ValueError(
            f"`lengths` must be a pair (shortest, longest), received {lengths!r}."
        ) from None
    low = whole_number("lengths[0]", low, at_least=1)
    high = whole_number("lengths[1]", high, at_least=1)
    even = np.arange(low + low % 2, high + 1, 2)
    if not len(even):
        raise ValueError(
            f"`lengths` is ({low}, {high}), with no even number from the one to the "
            "other. Balanced strings have even lengths: try (4, 20)."
        )
    return even


# Inside this module a symbol is 0 … 2c - 1, opener i closed by 2c - 1 - i, also for the
# plain task (0 opens, 1 closes). An id is the symbol plus one.


def _notation(row: np.ndarray, colors: int) -> list[int]:
    return (1 - 2 * row if colors == 1 else row).tolist()


def _balanced_rows(rng, lengths: np.ndarray, colors: int) -> list[np.ndarray]:
    """Returns one balanced row per length, in that order."""
    rows = [np.zeros(0, int)] * len(lengths)
    for length in np.unique(lengths):
        here = np.flatnonzero(lengths == length)
        ups = _skeletons(rng, len(here), length // 2)
        for i, row in zip(here, _colored(rng, ups, colors), strict=True):
            rows[i] = row
    return rows


def _skeletons(rng, size: int, n: int) -> np.ndarray:
    """Returns uniform balanced skeletons `(size, 2n)`, True for opening parentheses."""
    length = 2 * n + 1
    start = np.tile(np.arange(length) <= n, (size, 1))  # n + 1 openers, n closers
    ups = rng.permuted(start, axis=1)
    height = np.cumsum(2 * ups - 1, axis=1)
    # The rotation begins after the last minimum, without its first opener.
    lowest = length - 1 - height[:, ::-1].argmin(axis=1)
    columns = (lowest[:, None] + 2 + np.arange(2 * n)) % length
    return np.take_along_axis(ups, columns, axis=1)


def _colored(rng, ups: np.ndarray, colors: int) -> np.ndarray:
    """Colors each pair of parentheses independently and uniformly."""
    size, length = ups.shape
    drawn = rng.integers(0, colors, (size, length))
    stack = np.zeros((size, length), int)
    symbols = np.zeros((size, length), int)
    rows, depth = np.arange(size), np.zeros(size, int)
    for t in range(length):
        up = ups[:, t]
        depth -= ~up
        symbols[:, t] = np.where(up, drawn[:, t], 2 * colors - 1 - stack[rows, depth])
        stack[rows[up], depth[up]] = drawn[up, t]
        depth += up
    return symbols


def _unbalance(rng, row: np.ndarray, colors: int, change) -> np.ndarray:
    """Changes a balanced row until it is no longer balanced."""
    while True:
        changed = change(rng, row, colors)
        if not is_balanced(_notation(changed, colors), colors):
            return changed


def _replace(rng, row: np.ndarray, colors: int) -> np.ndarray:
    """Replaces one symbol by another, which is never balanced."""
    changed = row.copy()
    place = rng.integers(len(row))
    changed[place] = (row[place] + rng.integers(1, 2 * colors)) % (2 * colors)
    return changed


def _swap(rng, row: np.ndarray, colors: int) -> np.ndarray:
    """Swaps two different symbols."""
    del colors
    changed = row.copy()
    first = rng.integers(len(row))
    second = rng.choice(np.flatnonzero(row != row[first]))
    changed[[first, second]] = row[[second, first]]
    return changed


def _shuffle(rng, row: np.ndarray, colors: int) -> np.ndarray:
    """Shuffles all symbols."""
    del colors
    return rng.permutation(row)

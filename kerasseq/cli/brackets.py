"""Strings of parentheses as they are typed, for models of `kerasseq train parentheses`.

Loads no Keras.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

BRACKETS = "()[]{}<>«»"  # a pair for each of the first colors
LABELS = ("not balanced", "balanced")


def read(text: str, colors: int) -> list[int]:
    """Reads a string of brackets or of numbers, in the notation of `datasets`.

    Args:
        text: Brackets, one pair for each color; or numbers between spaces or commas.
        colors: Number of colors.

    Raises:
        ValueError: If a symbol is not one of these.

    Examples:
        >>> read("[ () ]", 5), read("1, 0 9 8", 5), read("(())", 1)
        ([1, 0, 9, 8], [1, 0, 9, 8], [1, 1, -1, -1])
    """
    numbers = (1, -1) if colors == 1 else range(2 * colors)
    known = {str(number): number for number in numbers}
    pairs = BRACKETS[: 2 * colors]
    for n, (opener, closer) in enumerate(zip(pairs[::2], pairs[1::2], strict=True)):
        known[opener] = numbers[n]
        known[closer] = numbers[-1 - n]
    symbols = _symbols(text)
    for symbol in symbols:
        if symbol not in known:
            allowed = "1 and -1" if colors == 1 else f"0 to {2 * colors - 1}"
            raise ValueError(
                f"expected a string of brackets, {pairs}, or of the numbers {allowed} "
                f"with spaces between them, received {symbol!r:.60} in {text!r:.60}"
            )
    if not symbols:
        raise ValueError(f"expected a string of brackets, {pairs}, received {text!r}")
    return [known[symbol] for symbol in symbols]


def _symbols(text):
    """The brackets of a text, or what stands between its spaces and commas."""
    words = text.replace(",", " ").split()
    if any(symbol in BRACKETS for symbol in text):
        return [symbol for word in words for symbol in word]
    return words


def as_ids(symbols: Sequence[int], colors: int) -> np.ndarray:
    """Converts symbols to the ids that the models read, int32; 0 is padding.

    Examples:
        >>> as_ids([1, -1], 1).tolist(), as_ids([0, 9], 5).tolist()
        ([1, 2], [1, 10])
    """
    found = np.array(symbols)
    return (((1 - found) // 2 if colors == 1 else found) + 1).astype("int32")


def classify(model: Any, texts: Sequence[str], colors: int) -> list[dict[str, Any]]:
    """Predicts whether strings are balanced, as plain data."""
    rows = [as_ids(read(text, colors), colors) for text in texts]
    found = []
    for each in model.classify(rows, batch_size=256):
        p = dict(zip(LABELS, each.probabilities.values(), strict=True))
        found.append(
            {
                "label": LABELS[each.label],
                "probability": each.probability,
                "probabilities": p,
            }
        )
    return found

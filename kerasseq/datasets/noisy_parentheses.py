r"""Parentheses with wrong labels, for which the accuracy of the best model is known.

A label is flipped with probability q, independently of the string. So the best model
says whether the string is balanced, is right with probability 1 - q, and has the loss

$$
H(q) = - q \log_2 q - (1 - q) \log_2 (1 - q)
$$

A model that is better on strings that it has not seen reads the labels somewhere.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kerasseq.core.checks import (
    fits_memory,
    number,
    random_generator,
    whole_number,
)
from kerasseq.datasets.parentheses import parentheses

BYTES = 100  # at least, of a string


class NoisyParentheses(NamedTuple):
    """Sequences of which some have the wrong label.

    Attributes:
        ids: As those of `Parentheses`.
        labels: int32 of shape `(size,)`: 1 balanced, 0 not; some are flipped.
        sequences: As those of `Parentheses`.
        balanced: int32 of shape `(size,)`: 1 balanced, 0 not; none is flipped.
        accuracy: That of the best model, on the average of many strings.
        optimum: The least mean loss, in bits a label.
    """

    ids: np.ndarray
    labels: np.ndarray
    sequences: list[list[int]]
    balanced: np.ndarray
    accuracy: float
    optimum: float


def noisy_parentheses(
    size: int, *, flipped: float = 0.1, seed: int | None = None, **kwargs: Any
) -> NoisyParentheses:
    """Samples strings of parentheses, and flips some labels.

    Args:
        size: Number of strings.
        flipped: The probability that a label is wrong, from 0 to 0.5.
        seed: Seed of all random choices.
        **kwargs: As for `parentheses`.

    Returns:
        The strings, as `NoisyParentheses`.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If `flipped` is out of range; else as `parentheses`.

    Examples:
        >>> data = noisy_parentheses(1000, flipped=0.11, colors=1, seed=0)
        >>> data.accuracy, round(data.optimum, 3)
        (0.89, 0.5)
        >>> float((data.labels == data.balanced).mean())
        0.905
    """
    q = number("flipped", flipped)
    if not 0 <= q <= 0.5:
        raise ValueError(f"flipped must be from 0 to 0.5, received {q}")
    size = whole_number("size", size, at_least=0)
    fits_memory("size", size, bytes_each=BYTES)
    rng = random_generator(seed)
    clean = parentheses(size, seed=int(rng.integers(2**31)), **kwargs)
    labels = np.where(rng.random(size) < q, 1 - clean.labels, clean.labels)
    return NoisyParentheses(
        clean.ids,
        labels.astype("int32"),
        clean.sequences,
        clean.labels,
        accuracy=1 - q,
        optimum=-sum(p * math.log2(p) for p in (q, 1 - q) if p),
    )

"""Tasks that need a memory: pairs to follow in a chain, and bits to copy."""

from typing import NamedTuple

import numpy as np

from kerasseq.core.checks import random_generator, several, whole_number


class Chains(NamedTuple):
    """Pairs a → b, and where they lead.

    Attributes:
        query: The symbol to start from, `(size,)`.
        keys: The symbols a of the pairs, `(size, pairs)`, each once.
        values: The symbols b, `(size, pairs)`.
        answers: The symbol after `steps` pairs, `(size,)`.
        places: The place of the pair of each step, `(size, steps)`.
    """

    query: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    answers: np.ndarray
    places: np.ndarray


def chains(
    size: int,
    *,
    pairs: int = 12,
    symbols: int = 24,
    steps: int = 2,
    seed: int | None = 0,
) -> Chains:
    """Samples lists of pairs a → b, one of which is to be followed several times.

    With more symbols than pairs a value may lead nowhere. If all are keys, and the
    values are the keys again, the answer can be found by exclusion.

    Args:
        size: Number of lists.
        pairs: Pairs of a list.
        symbols: Number of symbols, more than `pairs`. They are ids from 0 on.
        steps: How many pairs are followed, at most `pairs`.
        seed: Random seed.

    Returns:
        The lists, as `Chains` of int32.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is too small, there are too few symbols, or too many
            steps.

    Examples:
        >>> data = chains(3, pairs=4, symbols=7)
        >>> row = data.keys[0].tolist()
        >>> middle = data.values[0, row.index(data.query[0])]
        >>> bool(data.values[0, row.index(middle)] == data.answers[0])
        True
    """
    size = whole_number("size", size)
    pairs = whole_number("pairs", pairs)
    steps = whole_number("steps", steps)
    symbols = whole_number("symbols", symbols)
    if symbols <= pairs:
        raise ValueError(
            f"symbols must be more than the {pairs} pairs, so that some lead nowhere, "
            f"received {symbols}"
        )
    if steps > pairs:
        raise ValueError(
            f"steps must be at most the number of pairs, {pairs}, received {steps}"
        )
    rng = random_generator(seed)
    order = rng.permuted(np.tile(np.arange(symbols), (size, 1)), axis=1)
    keys, others = order[:, :pairs], order[:, pairs:]
    rows = np.arange(size)[:, None]
    known = rng.permuted(np.tile(np.arange(pairs), (size, 1)), axis=1)
    unknown = rng.integers(0, others.shape[1], (size, pairs))
    leads_on = rng.random((size, pairs)) < 0.5
    values = np.where(leads_on, keys[rows, known], others[rows, unknown])
    places = rng.permuted(np.tile(np.arange(pairs), (size, 1)), axis=1)[:, :steps]
    values[rows, places[:, :-1]] = keys[rows, places[:, 1:]]
    arrays = (
        keys[rows[:, 0], places[:, 0]],
        keys,
        values,
        values[rows[:, 0], places[:, -1]],
        places,
    )
    return Chains(*(array.astype("int32") for array in arrays))


class CopyBits(NamedTuple):
    """Vectors of bits to be written down, and then to be repeated.

    Attributes:
        x: float32 `(size, time, bits + 1)`: the vectors, a mark in the last column, and
            zeros while they are repeated; zeros after that.
        y: float32 `(size, time, bits)`: the vectors, at the steps after the mark.
        weights: float32 `(size, time)`: 1 at these steps, 0 at the others.
        mask: Boolean `(size, time)`, False at the padding of shorter rows.
    """

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    mask: np.ndarray


def copy_bits(
    size: int,
    *,
    bits: int = 8,
    lengths: tuple[int, int] = (1, 10),
    seed: int | None = 0,
) -> CopyBits:
    """Samples sequences of random vectors of bits, which are to be repeated.

    Args:
        size: Number of sequences.
        bits: Bits of a vector.
        lengths: The smallest and the largest number of vectors; all between are as
            frequent.
        seed: Random seed.

    Returns:
        The sequences, as `CopyBits`; time is twice the largest length and 1.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is below 1, or the smallest length above the largest.

    Examples:
        >>> data = copy_bits(3, bits=2, lengths=(1, 2))
        >>> data.x.shape, data.weights.sum(axis=1).tolist()
        ((3, 5, 3), [2.0, 2.0, 2.0])

    References:
        Graves, Wayne and Danihelka, "Neural Turing Machines", 2014: the copy task.
    """
    size, bits = whole_number("size", size), whole_number("bits", bits)
    both = [whole_number("lengths", n) for n in several("lengths", lengths, "numbers")]
    if len(both) != 2 or both[0] > both[1]:
        raise ValueError(
            "lengths must be the smallest and the largest number of vectors, as in "
            f"(1, 10), received {lengths}"
        )
    shortest, longest = both
    rng = random_generator(seed)
    count = rng.integers(shortest, longest + 1, size)[:, None]
    vectors = rng.integers(0, 2, (size, longest, bits)).astype("float32")
    vectors[np.arange(longest) >= count] = 0
    t = np.arange(2 * longest + 1)
    x = np.zeros((size, len(t), bits + 1), "float32")
    x[:, :longest, :bits] = vectors
    x[np.arange(size), count[:, 0], bits] = 1
    repeated = (t > count) & (t <= 2 * count)
    y = np.zeros((size, len(t), bits), "float32")
    y[repeated] = vectors[np.arange(longest) < count]
    return CopyBits(x, y, repeated.astype("float32"), t <= 2 * count)

"""Arrays of probabilities: checked, drawn at random, or normalized from counts."""

import math
import numbers
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.text.texts import id_array

Seed = int | Sequence[int] | np.random.Generator | None


def zero_or_more(name: str, value: float) -> float:
    """Returns `value` as a finite float that is not negative.

    Examples:
        >>> zero_or_more("k", -1)
        Traceback (most recent call last):
        ...
        ValueError: `k` must be zero or a positive number, received -1.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"`{name}` must be zero or a positive number, received {value!r}."
        )
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError(
            f"`{name}` must be zero or a positive number, received {value}."
        )
    return float(value)


def probability_rows(
    name: str,
    rows: ArrayLike | None,
    shape: tuple[int, ...],
    rng: np.random.Generator | None,
) -> np.ndarray:
    """Returns `rows` as float64 that sum to 1 along the last axis, or random ones.

    Args:
        name: The argument's name, for the message.
        rows: The probabilities, or None for rows from a uniform Dirichlet distribution.
        shape: The shape they must have.
        rng: The generator.

    Raises:
        ValueError: If the shape is wrong, a value is not a number or negative, or a row
            does not sum to 1.

    Examples:
        >>> probability_rows("initial", [0.5, 0.4], (2,), None)
        Traceback (most recent call last):
        ...
        ValueError: `initial` must sum to 1, received 0.9. Divide it by its sum.
    """
    if rows is None:
        return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
    try:
        array = np.array(rows, "float64")
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be {_table_of(shape)}: {error}.") from error
    if array.shape != shape:
        raise ValueError(
            f"`{name}` must be {_table_of(shape)}, received {array.shape}."
        )
    wrong = ~(array >= 0)  # NaN too
    if wrong.any():
        where = np.unravel_index(wrong.argmax(), shape)
        raise ValueError(
            f"`{name}{_index(where)}` must not be negative, received {array[where]}."
        )
    sums = array.sum(axis=-1, keepdims=True)
    far = ~(np.abs(sums - 1) <= 1e-6)  # float32 rounds to 1e-7; infinity is far too
    if far.any():
        where = np.unravel_index(far.argmax(), sums.shape)
        raise ValueError(
            f"`{name}{_index(where[:-1])}` must sum to 1, received {sums[where]:.6g}. "
            "Divide it by its sum."
        )
    # Rows that sum to 1 except for rounding stay unchanged, so files keep all bits.
    return np.where(np.abs(sums - 1) <= 1e-12, array, array / sums)


def counted_rows(counts: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Divides rows of counts by their sums; empty rows are those of `otherwise`.

    Examples:
        >>> counted_rows(np.array([[1.0, 3.0], [0.0, 0.0]]), np.array([[0.5, 0.5]] * 2))
        array([[0.25, 0.75],
               [0.5 , 0.5 ]])
    """
    sums = counts.sum(axis=-1, keepdims=True)
    return np.divide(counts, sums, out=otherwise.copy(), where=sums > 0)


def log(p: np.ndarray) -> np.ndarray:
    """Returns the natural logarithm, `-inf` for 0 without a warning."""
    with np.errstate(divide="ignore"):
        return np.log(p)


def some_sequences(name: str, sequences: ArrayLike, size: int) -> list[np.ndarray]:
    """Returns one row of ids, or several, as a list of int64 rows that are not empty.

    Examples:
        >>> some_sequences("sequences", [2, 0], 3)
        [array([2, 0])]
        >>> some_sequences("sequences", [[2, 0], [1]], 3)
        [array([2, 0]), array([1])]
    """
    if not np.iterable(sequences):
        raise TypeError(f"`{name}` must be rows of ids, received {sequences!r}.")
    rows = list(sequences)
    if not rows:
        raise ValueError(f"`{name}` is empty. Pass at least one sequence.")
    if all(np.ndim(row) == 0 for row in rows):
        return [id_array(sequences, size, name=name)]
    result = []
    for number, row in enumerate(rows):
        result.append(id_array(row, size, name=f"{name}[{number}]"))
        if not len(result[-1]):
            raise ValueError(f"`{name}[{number}]` is empty. Leave it out.")
    return result


def _table_of(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"a row of {shape[0]} probabilities"
    return f"{shape[0]} rows of {shape[1]} probabilities"


def _index(where) -> str:
    return "".join(f"[{i}]" for i in where)

"""Rows with an empty cell: counted, and refused, dropped or left without prediction."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.tasks.input_rows import check_not_empty, number_of_rows

SKIP = "skip"  # drops these rows
MISSING = ("error", SKIP)  # what is done with them
FIRST = 5  # that a message names
NO_VALUES = ("NAType", "NaTType")  # types of pandas


def complete_rows(
    x: Any,
    y: Any,
    sample_weight: Any,
    missing: str,
    *,
    has_texts: bool = True,
    has_labels: bool = True,
    method: str = "fit",
) -> tuple[Any, Any, Any]:
    """Returns the rows without empty cells, of which there is at least one.

    A cell is empty if it is None, NaN or a blank text, or has such a part: a text of a
    pair, a word or a tag.

    Args:
        x: Inputs, as from `sources.read`.
        y: Labels, or None.
        sample_weight: Weight of each row, or None.
        missing: "skip" drops rows with an empty cell, and warns with their number.
        has_texts: Whether inputs are texts, or are not checked.
        has_labels: Whether `y` has labels, or is not checked.
        method: The name of the method that needs the rows.

    Raises:
        ValueError: If a cell is empty and `missing` is "error", or no row is left. The
            message has the number of these rows, and the first.

    Examples:
        >>> complete_rows(["a", None, ""], ["x", "y", "x"], None, "error")
        Traceback (most recent call last):
        ...
        ValueError: x and y must have no empty cells, received 2 rows with one, of 3: \
x[1] is None, x[2] is ''. Fill them, or pass missing="skip" to drop the rows
    """
    checks.one_of("missing", missing, MISSING)
    check_not_empty(x, method)
    empty = _empty_rows(x if has_texts else None, y if has_labels else None)
    count = number_of_rows(x)
    if not empty or not (y is None or len(y) == count):
        return x, y, sample_weight
    what = "x" if y is None else "x and y"
    _refuse(empty, count, what, missing, "drop the rows", least=1)
    warnings.warn(
        f"{_described(empty, count)} are left out: {_first(empty)}", stacklevel=4
    )
    kept = sorted(set(range(count)).difference(empty))
    return taken(x, kept), taken(y, kept), taken(sample_weight, kept)


def predictable_rows(
    x: Any, missing: str, *, has_texts: bool = True
) -> list[int] | None:
    """Returns the rows that can be predicted, those without empty cells; None for all.

    Args:
        x: Inputs, as for `complete_rows`.
        missing: "skip" leaves rows with an empty cell without prediction, and warns
            with their number.
        has_texts: Whether inputs are texts, or are not checked.

    Raises:
        ValueError: If a cell is empty and `missing` is "error".

    Examples:
        >>> predictable_rows(["a", "b"], "error") is None
        True
    """
    checks.one_of("missing", missing, MISSING)
    empty, count = _empty_rows(x if has_texts else None), number_of_rows(x)
    if not empty:
        return None
    _refuse(empty, count, "x", missing, "leave the rows without prediction")
    warnings.warn(
        f"{_described(empty, count)} get no prediction, but None, or NaN in an array: "
        f"{_first(empty)}",
        stacklevel=5,
    )
    return sorted(set(range(count)).difference(empty))


def is_complete(row: Sequence[Any]) -> bool:
    """Returns whether an input and its label have no empty cell.

    Args:
        row: `(x,)`, `(x, y)` or `(x, y, sample_weight)`.

    Examples:
        >>> is_complete(("a", 1)), is_complete((" ", 1)), is_complete(("a", None))
        (True, False, False)
    """
    return not any(map(_is_empty, row[:2])) and not _is_without_words(row[0])


def spread(predictions: Any, rows: Sequence[int], count: int) -> Any:
    """Returns predictions in the order of all rows: None, or NaN in arrays, for others.

    Args:
        predictions: Those of some rows: a list, an array or several by name.
        rows: The indices of these rows.
        count: The number of all rows.

    Examples:
        >>> spread(["a", "b"], [0, 2], 3), spread(np.ones(1), [1], 2).tolist()
        (['a', None, 'b'], [nan, 1.0])
    """
    if isinstance(predictions, Mapping):
        return {name: spread(part, rows, count) for name, part in predictions.items()}
    if isinstance(predictions, list):
        by_row = dict(zip(rows, predictions, strict=True))
        return [by_row.get(row) for row in range(count)]
    array = np.full((count, *predictions.shape[1:]), np.nan, predictions.dtype)
    array[rows] = predictions
    return array


def _empty_rows(x, y=None):
    """Returns the first empty cell of each row that has one, as text."""
    empty: dict[int, str] = {}
    for name, part in (("x", x), ("y", y)):
        if _has_cells(part):
            for row, cell in enumerate(part):
                if _is_empty(cell) or (name == "x" and _is_without_words(cell)):
                    empty.setdefault(row, f"{name}[{row}] is {checks.short(cell)}")
    return dict(sorted(empty.items()))


def _first(empty):
    """Returns the first empty cells."""
    return ", ".join([*empty.values()][:FIRST]) + ", …" * (len(empty) > FIRST)


def _described(empty, count):
    return f"{len(empty):,} of {count:,} rows have an empty cell and"


def _refuse(empty, count, what, missing, skipping, least=0):
    """Raises if empty cells are an error, or fewer rows than the least are left."""
    left = count - len(empty)
    if missing == SKIP and left >= least:
        return
    advice = f', or pass missing="skip" to {skipping}' * (left >= least)
    raise ValueError(
        f"{what} must have no empty cells, received {len(empty):,} "
        f"row{'s' * (len(empty) > 1)} with one, of {count:,}: {_first(empty)}. Fill "
        f"them{advice}"
    )


def _has_cells(part: Any) -> bool:
    """Returns whether rows can have empty cells: lists, and arrays of one axis."""
    if isinstance(part, list | tuple):
        return True
    return isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in "OUf"


def _is_empty(cell: Any) -> bool:
    """Returns whether a cell has no value, or a part without one.

    Examples:
        >>> [_is_empty(cell) for cell in (None, float("nan"), " ", ("a", ""), "a", [])]
        [True, True, True, True, False, False]
    """
    if isinstance(cell, str):
        return not cell.strip()
    if isinstance(cell, list | tuple):
        return any(map(_is_empty, cell))
    if isinstance(cell, np.ndarray) and cell.dtype.kind in "OU":
        return any(map(_is_empty, cell.tolist()))
    if isinstance(cell, float | np.floating):
        return bool(np.isnan(cell))
    return cell is None or type(cell).__name__ in NO_VALUES


def _is_without_words(cell: Any) -> bool:
    return isinstance(cell, list | tuple | np.ndarray) and not len(cell)


def taken(part: Any, rows: Sequence[int]) -> Any:
    """Selects rows of a list, an array or several by name; None as it is."""
    if part is None:
        return None
    if isinstance(part, Mapping):
        return {name: taken(array, rows) for name, array in part.items()}
    if isinstance(part, list | tuple):
        return [part[row] for row in rows]
    return np.asarray(part)[rows]

"""Rows with an empty cell: counted, and refused or dropped."""

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
) -> tuple[Any, Any, Any]:
    """Returns the rows without empty cells, of which there is at least one.

    A cell is empty if it is None, NaN or a blank text, or has such a part: a text of a
    pair, a word or a tag.

    Args:
        x: Inputs, as from `text_inputs.from_dataset`.
        y: Labels, or None.
        sample_weight: Weight of each row, or None.
        missing: "skip" drops rows with an empty cell, and warns with their number.
        has_texts: Whether inputs are texts, or are not checked.
        has_labels: Whether `y` has labels, or is not checked.

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
    check_not_empty(x)
    found: dict[int, str] = {}
    for name, part, is_checked in (("x", x, has_texts), ("y", y, has_labels)):
        if is_checked and _has_cells(part):
            for row, cell in enumerate(part):
                if _is_empty(cell) or (name == "x" and _is_without_words(cell)):
                    found.setdefault(row, f"{name}[{row}] is {checks.short(cell)}")
    rows, count = sorted(found), number_of_rows(x)
    if not rows or not (y is None or len(y) == count):
        return x, y, sample_weight
    shown = ", ".join(found[row] for row in rows[:FIRST])
    shown += ", …" * (len(rows) > FIRST)
    if missing != SKIP or len(rows) == count:
        advice = ', or pass missing="skip" to drop the rows' * (len(rows) < count)
        raise ValueError(
            f"x and y must have no empty cells, received {len(rows):,} "
            f"row{'s' * (len(rows) > 1)} with one, of {count:,}: {shown}. Fill them"
            f"{advice}"
        )
    warnings.warn(
        f"{len(rows):,} of {count:,} rows have an empty cell and are left out: {shown}",
        stacklevel=4,
    )
    kept = sorted(set(range(count)).difference(rows))
    return taken(x, kept), taken(y, kept), taken(sample_weight, kept)


def _has_cells(part: Any) -> bool:
    """Whether rows can have empty cells: lists, and arrays of one axis."""
    if isinstance(part, list | tuple):
        return True
    return isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in "OUf"


def _is_empty(cell: Any) -> bool:
    """Whether a cell has no value, or a part without one.

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
    """Some rows of a list, an array or several by name; None as it is."""
    if part is None:
        return None
    if isinstance(part, Mapping):
        return {name: taken(array, rows) for name, array in part.items()}
    if isinstance(part, list | tuple):
        return [part[row] for row in rows]
    return np.asarray(part)[rows]

"""Cells of a csv that a spreadsheet would compute instead of showing them."""

import os
from collections.abc import Iterable
from typing import Any

from kerasseq.cli.console import note

STARTS = ("=", "+", "-", "@")


def is_formula(cell: Any) -> bool:
    """Whether a spreadsheet may take a cell for a formula.

    Examples:
        >>> is_formula("=1+1"), is_formula(" @a"), is_formula("-1.5"), is_formula(-1.5)
        (True, True, False, False)
    """
    if not isinstance(cell, str) or not cell.strip().startswith(STARTS):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def note_formulas(file: str | os.PathLike[str], cells: Iterable[Any]) -> None:
    """Notes how many cells of a csv look like formulas, which can run programs."""
    count = sum(map(is_formula, cells))
    if count:
        note(
            f"{count:,} cells of {file} begin with {', '.join(STARTS)}, which a "
            "spreadsheet may compute as formulas. Import the columns of texts as text"
        )

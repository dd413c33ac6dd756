"""Predictions as files: csv or JSON lines, written as they come."""

import csv
import json
import pathlib
from collections.abc import Iterable
from typing import Any

from kerasseq.cli import text_tables
from kerasseq.cli.console import note
from kerasseq.cli.errors import UsageError
from kerasseq.core.files import replacing

LONG = "probabilities"  # left out of a csv


def check_out(file: str) -> None:
    """Raises if predictions cannot be written to a file."""
    if not file.endswith((".csv", ".jsonl")):
        raise UsageError(f"--out must end in .csv or .jsonl, received {file}")
    if pathlib.Path(file).exists():
        raise UsageError(f"{file} exists already, and nothing is overwritten")
    if not pathlib.Path(file).absolute().parent.is_dir():
        raise UsageError(f"--out: there is no folder {pathlib.Path(file).parent}")


def write(file: str, rows: Iterable[dict[str, Any]]) -> None:
    """Writes predictions as they come, atomically."""
    count, formulas = 0, []
    with (
        replacing(file) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as stream,
    ):
        writer = None
        for row in rows:
            count += 1
            if file.endswith(".jsonl"):
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
                continue
            cells = _cells(row)
            formulas += filter(text_tables.is_formula, cells.values())
            if writer is None:
                writer = csv.DictWriter(stream, list(cells))
                writer.writeheader()
            writer.writerow(cells)
    note(f"wrote {count:,} rows to {file}")
    text_tables.note_formulas(file, formulas)


def _cells(row):
    """Returns a prediction as the cells of a row.

    Examples:
        >>> _cells({"words": ["a", "b"], "next": [{"token": "c", "probability": 0.5}]})
        {'words': 'a b', 'token_1': 'c', 'probability_1': 0.5}
    """
    cells = {}
    for name, value in row.items():
        if name == "next":
            for n, each in enumerate(value, 1):
                cells |= {f"{key}_{n}": one for key, one in each.items()}
        elif name != LONG:
            is_list = isinstance(value, list)
            cells[name] = " ".join(map(str, value)) if is_list else value
    return cells

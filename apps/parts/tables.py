"""The values of a figure as a table and as CSV."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st

MAX_ROWS = 20_000


def draw(here: Any, name: str, rows: Any, columns: dict[str, str] | None) -> None:
    """Draws a table with a button for CSV.

    Args:
        here: The lab.
        name: The name of the figure, for keys and the file.
        rows: A list of dictionaries, or an array with up to two axes.
        columns: Headings by key.
    """
    rows = as_rows(rows)[:MAX_ROWS]
    columns = columns or {key: key for key in (rows[0] if rows else {})}
    shown = [{title: row.get(key) for key, title in columns.items()} for row in rows]
    st.dataframe(shown, hide_index=True, height=min(38 * (len(rows) + 1) + 2, 320))
    st.download_button(
        here.text("csv"),
        as_csv(shown).encode("utf-8-sig"),
        file_name=f"kerasseq_{here.name}_{name}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=f"{here.name}.{name}.csv",
    )


def show(
    here: Any, rows: Sequence[dict[str, Any]], columns: dict[str, str] | None = None
) -> None:
    """Draws rows as a table of text, with numbers as in the language of the page.

    Args:
        here: The lab.
        rows: The rows.
        columns: Headings by key.
    """
    columns = columns or {key: key for key in (rows[0] if rows else {})}
    st.table(
        [
            {
                title: here.write(v, 3 if isinstance(v, float) else None)
                for key, title in columns.items()
                for v in [row.get(key, "")]
            }
            for row in rows
        ],
        hide_index=True,
    )


def as_rows(values: Any) -> list[dict[str, Any]]:
    """Returns an array as rows; rows as they are.

    Examples:
        >>> as_rows(np.array([[1, 2]]))
        [{'row': 0, 'column': 0, 'value': 1}, {'row': 0, 'column': 1, 'value': 2}]
    """
    if not isinstance(values, np.ndarray):
        return list(values)
    if values.ndim == 1:
        return [{"index": i, "value": v} for i, v in enumerate(values.tolist())]
    return [
        {"row": i, "column": j, "value": v}
        for i, row in enumerate(values.tolist())
        for j, v in enumerate(row)
    ]


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    r"""Writes rows as CSV.

    Examples:
        >>> as_csv([{"a": 1, "b": "x,y"}])
        'a,b\r\n1,"x,y"\r\n'
    """
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()

"""Several figures side by side with one table; below each other on a phone."""

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
import streamlit as st

from parts import figures_matrix, tables

TYPICAL = 0.98  # the share of values within the ends of the colors


def draw(
    here: Any,
    name: str,
    charts: dict[str, alt.TopLevelMixin | dict[str, Any]],
    rows: Sequence[dict[str, Any]],
    columns: dict[str, str] | None = None,
    across: int = 3,
    width: Literal["stretch", "content"] = "stretch",
) -> None:
    """Draws figures with their titles, under the title of all.

    Args:
        here: The lab.
        name: The key of the title; `<name>_about` explains it, if it exists.
        charts: The figures by their titles: of Altair, or as plain Vega-Lite.
        rows: The values of all.
        columns: Headings of the columns; the keys of the rows if None.
        across: How many stand side by side.
        width: "stretch", or "content" for figures with a width of their own.
    """
    st.markdown(f"**{here.text(name)}**")
    if here.has(f"{name}_about"):
        here.say(f"{name}_about")
    titles = list(charts)
    for start in range(0, len(titles), across):
        part = titles[start : start + across]
        for place, title in zip(st.columns(across), part, strict=False):
            place.caption(title)
            chart = charts[title]
            if isinstance(chart, dict):
                place.vega_lite_chart(chart, width=width, theme="streamlit")
            else:
                place.altair_chart(chart, width=width, theme="streamlit")
    with st.expander(here.text("as_table")):
        tables.draw(here, name, rows, columns)


def matrices(
    here: Any,
    name: str,
    found: dict[str, np.ndarray],
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    titles: dict[str, str],
    across: int = 3,
    shared: bool = True,
    **options: Any,
) -> None:
    """Draws matrices with the same rows side by side.

    Args:
        here: The lab.
        name: The key of the title.
        found: The matrices by their titles.
        rows: The label of each row.
        columns: The label of each column; numbers from 1 if None.
        titles: Titles of "row", "column" and "value".
        across: How many stand side by side.
        shared: Whether diverging colors are the same in all.
        **options: Arguments of `figures_matrix.matrix`.
    """
    hidden = options.get("hidden")
    if options.get("diverging") and shared:
        options["limits"] = _limits(np.concatenate([m.ravel() for m in found.values()]))
    charts, data = {}, []
    for title, values in found.items():
        if options.get("diverging") and not shared:
            options["limits"] = _limits(values)
        names = columns or [str(n + 1) for n in range(values.shape[1])]
        charts[title] = figures_matrix.matrix(
            here.style, values, rows, names, titles=titles, **options
        )
        cells = figures_matrix.cells(
            values, rows, names, hidden, None, titles.get("hidden", "")
        )
        data += [{"panel": title, **cell} for cell in cells]
    headings = {"panel": here.text("panel"), **titles, "shown": titles["value"]}
    keys = ("panel", "row", "column", "shown")
    draw(here, name, charts, data, {key: headings[key] for key in keys}, across)


def _limits(values):
    """Ends of diverging colors that a few large values do not turn pale."""
    peak = float(np.quantile(np.abs(values), TYPICAL)) or 1.0
    return -peak, peak

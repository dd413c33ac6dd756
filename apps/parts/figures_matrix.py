"""Matrices as colored cells, with their numbers or words, and with hidden cells."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from parts.figures import AXIS, cell_labels, finish, inline
from parts.style import DIVERGING, SEQUENTIAL, Style

MOST_NUMBERS = 14  # columns of a matrix whose numbers are written into its cells
TOOLTIPS = {"row": "row", "column": "column", "word": "word", "value": "shown"}
MOST_CELLS = 32  # in a row or column, with lines between them
ROOM = 80  # characters in a row of words
PHONE = 14  # more columns than this leave no room for all labels


def matrix(
    style: Style,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    titles: dict[str, str],
    hidden: np.ndarray | None = None,
    words: Sequence[Sequence[str]] | None = None,
    diverging: bool = False,
    limits: tuple[float, float] | None = None,
    small: bool = False,
    height: int | None = None,
    colors: Sequence[str] | None = None,
    root: bool = False,
    legend: str = "right",
) -> Any:
    """Draws a matrix with its numbers or words in the cells, if there is room.

    Args:
        style: The style.
        values: The matrix.
        rows: The label of each row.
        columns: The label of each column.
        titles: Titles of "row", "column", "value" and "word".
        hidden: Boolean, True for cells that are masked: they are gray, and their value
            is shown as the title "hidden", such as "−∞".
        words: Words to write into the cells, instead of the numbers.
        diverging: Whether 0 is the middle of the colors.
        limits: The ends of the colors.
        small: Whether to leave out axes, legend and numbers, as in a panel.
        height: In pixels, without the labels; if None, by the number of rows.
        colors: Pale colors from the lowest to the highest value, without a legend.
        root: Whether colors follow the square root, so that small weights are seen.
        legend: Where it stands, "right" or "bottom".
    """
    if words is not None:  # the mouse shows them in full
        most = max(2, ROOM // len(columns))
        short = [
            [w if len(w) <= most else f"{w[:most]}…" for w in row] for row in words
        ]
    data = cells(values, rows, columns, hidden, words, titles.get("hidden", ""))
    if words is not None:
        data = [{**row, "short": short[row["i"]][row["j"]]} for row in data]
    shown = [row["value"] for row in data if row["value"] is not None]
    limits = limits or _limits(shown, diverging)
    base = alt.Chart(inline(data)).encode(
        y=alt.Y("i:O", axis=_axis(rows, titles.get("row"), small)),
        x=alt.X("j:O", axis=_axis(columns, titles.get("column"), small, below=True)),
        tooltip=[
            alt.Tooltip(f"{field}:N", title=titles[key])
            for key, field in TOOLTIPS.items()
            if key != "word" or words is not None
        ],
    )
    scheme = DIVERGING if diverging else SEQUENTIAL
    painted = {"range": list(colors)} if colors else {"scheme": scheme}
    painted |= {"type": "sqrt"} if root else {}
    scale = alt.Scale(**painted, domain=list(limits), clamp=True)
    key = alt.Legend(orient=legend, gradientLength=130, format=".3~g", title=None)
    without = small or colors is not None
    color = alt.Color("value:Q", scale=scale, legend=None if without else key)
    fine = small or max(len(rows), len(columns)) > MOST_CELLS
    edge = {"stroke": style.paper, "strokeWidth": 0 if fine else 1}
    filled = base.transform_filter("datum.value !== null")
    chart = filled.mark_rect(**edge).encode(color=color)
    if hidden is not None:
        gray = alt.value("#565b66" if style.dark else "#d9dce2")
        masked = base.transform_filter("datum.value === null")
        chart += masked.mark_rect(**edge).encode(color=gray)
    if not small and (words is not None or len(columns) <= MOST_NUMBERS):
        ink = alt.value(style.ink) if colors else _ink(limits, diverging, root)
        size = style.font_size - (3 if len(columns) > 5 else 0)
        field = alt.Text("value:Q", format=".2f") if words is None else "short:N"
        # On a phone the cells have no room: the mouse or a finger shows the numbers.
        room = alt.ExprRef(f"bandwidth('x') < {2 * size} ? 0 : 1")
        text = filled.mark_text(fontSize=size, clip=True, opacity=room)
        chart += text.encode(text=field, color=ink)
    if small:
        return finish(style, chart, 150)
    each = 34 if words is not None else 30 if len(columns) <= MOST_NUMBERS else 22
    height = height or min(640, each * max(2, len(rows)))
    longest = 0 if _upright(columns) else max(map(len, columns), default=0)
    return finish(style, chart, height + AXIS + 8 * min(longest, 20))


def _limits(shown, diverging):
    """The ends of the colors: those of the values, and 0."""
    low, high = min(shown, default=0), max(shown, default=0)
    peak = max(-low, high) or 1.0
    return (-peak, peak) if diverging else (min(low, 0), max(high, 0) or 1.0)


def cells(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    hidden: np.ndarray | None = None,
    words: Sequence[Sequence[str]] | None = None,
    hidden_title: str = "",
) -> list[dict[str, Any]]:
    """Returns a row for each cell, without numbers that JSON does not have.

    Examples:
        >>> cells(np.array([[0.5, 1]]), ["a"], ["b", "c"], np.array([[False, True]]))[1]
        {'i': 0, 'j': 1, 'row': 'a', 'column': 'c', 'value': None, 'shown': ''}
    """
    values = np.asarray(values, "float64")
    found = []
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            is_hidden = np.isnan(values[i, j])
            is_hidden |= hidden is not None and hidden[i, j]
            value = None if is_hidden else round(float(values[i, j]), 6)
            shown = hidden_title if is_hidden else f"{value:.4g}"
            cell = {"i": i, "j": j, "row": row, "column": column, "value": value}
            cell |= {"shown": shown}
            found.append(cell if words is None else cell | {"word": words[i][j]})
    return found


def _axis(names, title, small, below=False):
    if small:
        return None
    upright = below and _upright(names)
    return alt.Axis(
        labelExpr=cell_labels(names),
        title=title,
        ticks=False,
        labelFlush=False,
        labelAngle=-50 if below and not upright else 0,
        labelOverlap=len(names) > PHONE,
    )


def _upright(names):
    return max(map(len, names), default=0) < 4


def _ink(limits, diverging, root):
    """The color of numbers or words, which can be read on that of their cell."""
    low, high = limits
    dark = f"datum.value < {low + (high - low) * (0.25 if root else 0.5)}"
    if diverging:
        dark = f"abs(datum.value) > {0.6 * max(abs(low), abs(high))}"
    return alt.condition(dark, alt.value("#ffffff"), alt.value("#111111"))

"""Figures that several labs draw: functions of rows or arrays that return charts.

The first argument is the style of the page. Each value that the mouse shows is in the
rows, which `Lab.picture` also draws as a table. Colors are never the only difference:
lines of several networks differ in their dashes, too.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from parts.style import Style

DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [12, 4], [1, 3])
HEIGHT = 320
AXIS, LEGEND = 64, 34  # pixels of an axis with its title, and of a row of a legend
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Rows = Sequence[dict[str, Any]]

alt.data_transformers.disable_max_rows()


def finish(style: Style, chart: Any, height: int | None = HEIGHT) -> Any:
    """Sets sizes, type and the writing of numbers of a chart.

    Args:
        style: The style.
        chart: The chart.
        height: In pixels, with its axes and legend: that is how Streamlit fits it.
    """
    if height is not None:
        chart = chart.properties(
            height=round(height * (1.25 if style.projector else 1))
        )
    return chart.configure(**config(style))


def config(style: Style) -> dict[str, Any]:
    """Returns type and writing of numbers, as Vega-Lite's `config`."""
    size, ink = style.font_size, style.ink
    found = {
        "axis": {
            "labelFontSize": size,
            "titleFontSize": size,
            "labelColor": ink,
            "titleColor": ink,
            "labelLimit": 260,
            "titlePadding": 10,
        },
        "legend": {
            "labelFontSize": size,
            "titleFontSize": size,
            "labelColor": ink,
            "titleColor": ink,
            "orient": "top",
            "labelLimit": 320,
            "columns": 3,
            "symbolSize": 180,
            "symbolStrokeWidth": 3,
        },
        "header": {"labelFontSize": size, "titleFontSize": size, "labelColor": ink},
        "text": {"fontSize": size},
        "title": {"fontSize": size + 1},
    }
    if style.language == "fr":
        found["locale"] = {
            "number": {
                "decimal": ",",
                "thousands": "\N{NARROW NO-BREAK SPACE}",
                "grouping": [3],
                "currency": ["", "\N{NO-BREAK SPACE}€"],
            }
        }
    return found


def inline(rows: Rows) -> dict[str, Any]:
    """Returns rows as the data of a chart; Altair checks `alt.Data` value by value."""
    return {"values": list(rows)}


def colors(style: Style, names: Sequence[str]) -> list[str]:
    """Returns a color for each name: that of its network, the others in order.

    Examples:
        >>> colors(Style(), ["elman", "a"]) == [Style().palette[1], Style().palette[0]]
        True
    """
    taken = [style.color(n) for n in names if style.is_cell(n)]
    free = iter([c for c in style.palette if c not in taken] + list(style.palette) * 9)
    return [style.color(n) if style.is_cell(n) else next(free) for n in names]


def lines(
    style: Style,
    rows: Rows,
    x: str,
    y: str,
    by: str,
    *,
    titles: dict[str, str],
    names: dict[str, str] | None = None,
    range_x: tuple[float, float] | None = None,
    range_y: tuple[float, float] | None = None,
    rules: dict[str, float] | None = None,
    points: bool = False,
    log_x: int | None = None,
    log_y: tuple[float, float] | None = None,
    at: float | None = None,
    legend: bool = True,
    height: int = HEIGHT,
) -> Any:
    """Draws a line for each name in the column `by`.

    Args:
        style: The style.
        rows: The values.
        x: The column of the horizontal axis.
        y: The column of the vertical axis.
        by: The column of names.
        titles: The titles of the columns.
        names: How the names are shown.
        range_x: The ends of the horizontal axis.
        range_y: The ends of the vertical axis.
        rules: Horizontal lines, by their labels.
        points: Whether to mark each value.
        log_x: The base of a logarithmic horizontal axis.
        log_y: The farthest ends of a logarithmic vertical axis.
        at: Where a vertical line stands, as the mark of a slider.
        legend: Whether the names are listed, and not only shown by the mouse.
        height: In pixels.
    """
    order = list(dict.fromkeys(row[by] for row in rows))
    shown = [(names or {}).get(name, name) for name in order]
    rows = [{**row, by: (names or {}).get(row[by], row[by])} for row in rows]
    key = alt.Legend(title=None) if legend and len(order) > 1 else None
    scale = alt.Scale(domain=list(range_y), clamp=True) if range_y else alt.Undefined
    axis = alt.Undefined
    if log_y:
        scale, axis = _decades([row[y] for row in rows], log_y)
    options_x = {"type": "log", "base": log_x} if log_x else {}
    scale_x = alt.Scale(**options_x, **({"domain": list(range_x)} if range_x else {}))
    whole = all(isinstance(row[x], int) for row in rows)
    axis_x = alt.Axis(tickMinStep=1, format=",d") if whole else alt.Undefined
    tooltips = [alt.Tooltip(f"{by}:N", title=titles.get(by, by))]
    tooltips += [
        alt.Tooltip(f"{c}:Q", title=titles.get(c, c), format=",.4~g") for c in (x, y)
    ]
    palette = alt.Scale(domain=shown, range=colors(style, order))
    dashes = alt.Scale(domain=shown, range=[DASHES[i % 7] for i in range(len(shown))])
    base = (
        alt.Chart(inline(rows))
        .mark_line(
            strokeWidth=3 if style.projector else 2.5,
            point=points or len(rows) < 3,
        )
        .encode(
            x=alt.X(f"{x}:Q", title=titles.get(x, x), scale=scale_x, axis=axis_x),
            y=alt.Y(f"{y}:Q", title=titles.get(y, y), scale=scale, axis=axis),
            color=alt.Color(f"{by}:N", scale=palette, legend=key, sort=shown),
            strokeDash=alt.StrokeDash(f"{by}:N", scale=dashes, legend=key),
            tooltip=tooltips,
        )
    )
    layers = [base, _nearest(base)]
    for label, value in (rules or {}).items():
        data = inline([{y: value, "label": label}])
        rule = alt.Chart(data).mark_rule(strokeDash=[3, 3], color="#8a8a8a")
        layers.append(rule.encode(y=f"{y}:Q", tooltip="label:N"))
        mark = alt.Chart(data).mark_text(
            align="right", dx=-4, dy=-9, color="#8a8a8a", fontSize=style.font_size - 2
        )
        layers.append(mark.encode(y=f"{y}:Q", x=alt.value("width"), text="label:N"))
    if at is not None:
        mark = alt.Chart(inline([{x: at}])).mark_rule(color=style.ink)
        layers.append(mark.encode(x=f"{x}:Q"))
    return finish(style, alt.layer(*layers), height)


def _nearest(lines):
    """Shows the values nearest to the mouse: a line itself is too thin to be hit."""
    shown = lines.encoding
    found = alt.Chart(lines.data).mark_point(size=1, opacity=0)
    found = found.encode(x=shown.x, y=shown.y, tooltip=shown.tooltip)
    # A name of its own: with one that Altair counts, the figure would be another one
    # each time the page is drawn.
    return found.add_params(
        alt.selection_point(name="nearest", nearest=True, on="pointerover", empty=False)
    )


def _decades(values, ends, most=8):
    """The scale and the axis of values over powers of ten, within the farthest ends."""
    kept = np.clip([value for value in values if value > 0] or [1.0], *ends)
    low = math.floor(math.log10(kept.min()) + 1e-9)
    high = max(math.ceil(math.log10(kept.max()) - 1e-9), low + 1)
    powers = range(low, high + 1, -(-(high - low) // most))
    labels = {str(n): "10" + str(n).translate(SUPERSCRIPTS) for n in powers}
    axis = alt.Axis(
        values=[10.0**n for n in powers],
        labelExpr=f"{json.dumps(labels)}[round(log(datum.value) / LN10)]",
    )
    return alt.Scale(type="log", domain=[10.0**low, 10.0**high], nice=False), axis


def bars(
    style: Style,
    rows: Rows,
    value: str,
    name: str,
    *,
    titles: dict[str, str],
    by: str | None = None,
    format: str = ".4~s",
    range_value: tuple[float, float] | None = None,
    log: bool = False,
) -> Any:
    """Draws horizontal bars, in the order of the rows, with their values beside them.

    Args:
        style: The style.
        rows: The values.
        value: The column of lengths.
        name: The column of labels.
        titles: The titles of the columns.
        by: A column of colors.
        format: How values are written, as in D3.
        range_value: The ends of the axis.
        log: Whether the axis is logarithmic.
    """
    options = {"type": "log"} if log else {}
    if range_value:
        options["domain"] = list(range_value)
    elif not log:  # with room for the numbers
        options["domain"] = [
            0,
            1.18 * max((row[value] for row in rows), default=1) or 1,
        ]
    shown = list(dict.fromkeys(row[by] for row in rows)) if by else []
    color = (
        alt.Color(
            f"{by}:N",
            scale=alt.Scale(domain=shown, range=colors(style, shown)),
            title=None,
            sort=shown,
        )
        if by
        else alt.value(style.palette[0])
    )
    tooltips = [alt.Tooltip(f"{name}:N", title=titles.get(name, name))]
    tooltips += [alt.Tooltip(f"{by}:N", title=titles.get(by, by))] if by else []
    tooltips += [alt.Tooltip(f"{value}:Q", title=titles.get(value, value), format=",")]
    order = list(dict.fromkeys(row[name] for row in rows))
    base = alt.Chart(inline(rows)).encode(
        y=alt.Y(f"{name}:N", sort=order, title=None),
        x=alt.X(
            f"{value}:Q",
            title=titles.get(value, value),
            scale=alt.Scale(**options),
            axis=alt.Axis(format=_axis_format(rows, value), tickCount=6),
            stack=None,
        ),
        tooltip=tooltips,
    )
    bar = base.mark_bar(cornerRadiusEnd=3).encode(color=color)
    if by:
        bar = bar.encode(yOffset=alt.YOffset(f"{by}:N", sort=shown))
        legend = LEGEND * -(-len(shown) // 3)
        return finish(style, bar, 24 * len(rows) + 10 * len(order) + AXIS + legend)
    # Beside a bar to the left, its number stands to the right of 0.
    beside = base.transform_calculate(end=f"max(0, datum['{value}'])")
    text = beside.mark_text(align="left", dx=5, fontSize=style.font_size).encode(
        x=alt.X("end:Q", title=titles.get(value, value)),
        text=alt.Text(f"{value}:Q", format=format),
        color=alt.value(_gray(style)),
    )
    return finish(style, bar + text, 32 * len(order) + AXIS)


def _axis_format(rows, value):
    """Prefixes of the SI for large numbers; 0.1 rather than 100m."""
    return "~s" if any(abs(row[value]) >= 1000 for row in rows) else "~g"


def stacked(
    style: Style,
    rows: Rows,
    value: str,
    name: str,
    by: str,
    *,
    titles: dict[str, str],
) -> Any:
    """Draws a horizontal bar for each name, in parts of several colors.

    Args:
        style: The style.
        rows: The values.
        value: The column of lengths.
        name: The column of labels.
        by: The column of parts.
        titles: The titles of the columns.
    """
    order = list(dict.fromkeys(row[name] for row in rows))
    parts = list(dict.fromkeys(row[by] for row in rows))
    rows = [{**row, "place": parts.index(row[by])} for row in rows]
    chart = (
        alt.Chart(inline(rows))
        .mark_bar(stroke=style.paper, strokeWidth=1)
        .encode(
            y=alt.Y(f"{name}:N", sort=order, title=None),
            x=alt.X(f"{value}:Q", title=titles.get(value, value), stack="zero"),
            color=alt.Color(
                f"{by}:N",
                scale=alt.Scale(domain=parts, range=colors(style, parts)),
                legend=alt.Legend(title=None),
                sort=parts,
            ),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip(f"{name}:N", title=titles.get(name, name)),
                alt.Tooltip(f"{by}:N", title=titles.get(by, by)),
                alt.Tooltip(
                    f"{value}:Q", title=titles.get(value, value), format=",.4~f"
                ),
            ],
        )
    )
    legend = LEGEND * -(-len(parts) // 3)
    return finish(style, chart, 52 * len(order) + AXIS + legend)


def cell_labels(names: Sequence[str]) -> str:
    """An expression for Vega: labels by index, so that equal labels stay apart."""
    return f"{json.dumps(list(names), ensure_ascii=False)}[datum.value]"


def _gray(style):
    return "#c8c8c8" if style.dark else "#444444"

"""Sizes of published models by year, beside what they are compared with."""

import re
from collections.abc import Mapping
from typing import Any

import altair as alt

from parts import figures
from parts.style import Style

KINDS = ("decoder", "prefix_decoder", "encoder_decoder", "encoder", "vision")
SHAPES = ["circle", "triangle-up", "square", "diamond", "cross"]
LEAST, MOST = 1e7, 1e15  # of the axis


def table(architectures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns model, kind, year of its paper, size and paper, the oldest first.

    Examples:
        >>> import kerasseq
        >>> rows = table(kerasseq.models.architectures)
        >>> rows[0]["model"], rows[0]["year"], rows[0]["parameters"]
        ('Transformer base', 2017, 65000000)
    """
    rows = [
        {
            "model": each.title,
            "kind": each.kind,
            "year": int(re.search(r"\b20\d\d\b", each.source)[0]),
            "parameters": int(each.size),
            "paper": each.source,
        }
        for each in architectures.values()
    ]
    return sorted(rows, key=lambda row: (row["year"], row["parameters"]))


def sizes(
    style: Style, rows: figures.Rows, rules: Mapping[str, float], titles: dict[str, str]
) -> Any:
    """Draws a mark for each model, on a logarithmic axis, and dashed lines.

    Args:
        style: The style.
        rows: As `table` returns them; "kind" may be in the language of the page.
        rules: Numbers to compare with, by their labels.
        titles: The titles of the columns.
    """
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    years = [row["year"] for row in rows]
    powers = range(7, 16)
    labels = {10.0**n: "10" + str(n).translate(figures.SUPERSCRIPTS) for n in powers}
    written = " : ".join(f"datum.value == {v:.0f} ? '{t}'" for v, t in labels.items())
    axis = alt.Axis(values=list(labels), labelExpr=f"{written} : ''")
    scale = alt.Scale(type="log", domain=[LEAST, MOST], nice=False)
    y = alt.Y("parameters:Q", title=titles["parameters"], scale=scale, axis=axis)
    x = alt.X(
        "year:Q",
        title=titles["year"],
        scale=alt.Scale(domain=[min(years) - 0.5, max(years) + 0.5]),
        axis=alt.Axis(format="d", tickMinStep=1),
    )
    palette = alt.Scale(domain=kinds, range=figures.colors(style, kinds))
    marks = (
        alt.Chart(figures.inline(rows))
        .mark_point(filled=True, size=110, opacity=0.8)
        .encode(
            x=x,
            y=y,
            color=alt.Color("kind:N", scale=palette, legend=alt.Legend(title=None)),
            shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=SHAPES)),
            tooltip=[
                alt.Tooltip("model:N", title=titles["model"]),
                alt.Tooltip("year:Q", title=titles["year"], format="d"),
                alt.Tooltip("parameters:Q", title=titles["parameters"], format=",.4~g"),
                alt.Tooltip("paper:N", title=titles["paper"]),
            ],
        )
    )
    layers = [marks]
    for label, value in rules.items():
        data = figures.inline([{"parameters": value, "label": label}])
        rule = alt.Chart(data).mark_rule(strokeDash=[3, 3], color="#8a8a8a")
        layers.append(rule.encode(y="parameters:Q", tooltip="label:N"))
        text = alt.Chart(data).mark_text(
            align="left", dx=4, dy=-9, color="#8a8a8a", fontSize=style.font_size - 2
        )
        layers.append(text.encode(y="parameters:Q", x=alt.value(0), text="label:N"))
    return figures.finish(style, alt.layer(*layers))

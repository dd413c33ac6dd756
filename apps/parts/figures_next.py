"""Bars of the next token: its probability before and after a sampler."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from parts.figures import AXIS, LEGEND, Rows, cell_labels, finish, inline
from parts.figures_steps import shown
from parts.style import Style
from parts.texts import number

ROW = 27  # pixels of a token
FATES = {"kept": 0, "top_k": 1, "top_p": 3, "min_p": 4, "sampler": 2}  # their colors


def fates(stages: Mapping[str, np.ndarray]) -> list[str]:
    """Returns for each token the stage that removed it, or "kept".

    A token whose probability is rounded to 0 by a low temperature is kept.

    Args:
        stages: Probabilities by stage, as those of `NextTokens`.

    Examples:
        >>> fates({"model": np.array([0.9, 0.1]), "top_k": np.array([1.0, 0.0])})
        ['kept', 'top_k']
    """
    found = ["kept"] * len(next(iter(stages.values())))
    before: np.ndarray | None = None
    for stage, p in stages.items():
        if before is not None and stage != "temperature":
            for n in np.flatnonzero((p == 0) & (before > 0)):
                found[n] = stage
        before = p
    return found


def table(
    tokens: Sequence[str], stages: Mapping[str, np.ndarray], labels: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Returns a row for each token: its probability at each stage, and its fate.

    Args:
        tokens: The tokens.
        stages: Probabilities by stage; the first and the last are also "before" and
            "after".
        labels: The name of each fate.

    Examples:
        >>> stages = {"model": np.array([0.9, 0.1]), "top_k": np.array([1.0, 0.0])}
        >>> row = table(["a", " "], stages, {"kept": "kept", "top_k": "cut"})[1]
        >>> row["token"], row["before"], row["after"], row["label"]
        ('·', 0.1, 0.0, 'cut')
    """
    names = list(stages)
    return [
        {
            "token": shown(token),
            "fate": fate,
            "label": labels[fate],
            "before": float(stages[names[0]][n]),
            "after": float(stages[names[-1]][n]),
            **{name: float(p[n]) for name, p in stages.items()},
        }
        for n, (token, fate) in enumerate(zip(tokens, fates(stages), strict=True))
    ]


def bars(
    style: Style, rows: Rows, *, titles: Mapping[str, str], small: bool = False
) -> Any:
    """Draws two bars for each token: pale before, and narrow and strong after.

    Args:
        style: The style.
        rows: Rows of `table`.
        titles: Titles of "token", "before", "after" and "label".
        small: Whether it is a panel, without the names of the colors.
    """
    digits = 2 if small else 3
    values = [
        {**_written(style, row, digits), "place": n} for n, row in enumerate(rows)
    ]
    labels = cell_labels([row["token"] for row in rows])
    known = {row["fate"]: row["label"] for row in rows}
    present = [fate for fate in FATES if fate in known]
    scale = alt.Scale(
        domain=[known[fate] for fate in present],
        range=[style.palette[FATES[fate]] for fate in present],
    )
    most = (
        max([row[key] for row in rows for key in ("before", "after")], default=1.0)
        or 1.0
    )
    base = alt.Chart(inline(values)).encode(
        y=alt.Y(
            "place:O",
            title=None,
            axis=alt.Axis(labelExpr=labels, ticks=False),
        ),
        tooltip=[
            alt.Tooltip("token:N", title=titles["token"]),
            alt.Tooltip("before:Q", title=titles["before"], format=".5~f"),
            alt.Tooltip("after:Q", title=titles["after"], format=".5~f"),
            alt.Tooltip("label:N", title=titles["label"]),
        ],
    )
    color = alt.Color(
        "label:N",
        scale=scale,
        legend=None if small else alt.Legend(title=None),
        sort=list(scale.domain),
    )
    x_axis = {
        # Room for the numbers, but no marks above 1.
        "scale": alt.Scale(domain=[0, (1.7 if small else 1.45) * most], nice=False),
        "axis": alt.Axis(format=".2~f", values=_ticks(most)),
        "title": titles["before"] + " → " + titles["after"],
    }
    # The wide bar has an edge: on a projector the pale color alone is not seen.
    before = base.mark_bar(
        opacity=0.6 if style.dark else 0.38, size=ROW - 7, strokeWidth=1
    ).encode(x=alt.X("before:Q", **x_axis), color=color, stroke=color)
    after = base.mark_bar(size=9).encode(x=alt.X("after:Q", **x_axis), color=color)
    text = base.mark_text(align="left", dx=6, fontSize=style.font_size - 2).encode(
        x=alt.X("longer:Q", **x_axis), text="numbers:N", color=alt.value(style.ink)
    )
    height = ROW * max(2, len(rows)) + AXIS + (0 if small else LEGEND)
    return finish(style, alt.layer(before, after, text), height)


def _ticks(most):
    """Round numbers from 0 to the largest probability."""
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2) if most / s <= 6)
    return [round(n * step, 2) for n in range(int(most / step) + 1)]


def _written(style, row, digits):
    pair = [number(row[key], style.language, digits) for key in ("before", "after")]
    return {
        **row,
        "longer": max(row["before"], row["after"]),
        "numbers": " → ".join(pair),
    }

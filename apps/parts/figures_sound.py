"""Figures of sounds: the wave, and a spectrogram with letters at their times."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from parts.figures import Rows, finish, inline
from parts.style import SEQUENTIAL, Style

WAVE, SPECTROGRAM = 170, 330  # pixels
COLUMNS = 200  # at most, of a figure
ROOM = 0.13  # of the height, for letters above a spectrogram


def wave_rows(wave: np.ndarray, rate: int) -> list[dict[str, float]]:
    """Returns the lowest and the highest sample of each moment.

    Examples:
        >>> wave_rows(np.array([0.0, 0.5, -1.0]), 10)[1]
        {'second': 0.1, 'low': 0.5, 'high': 0.5}
    """
    parts = np.array_split(wave, min(2 * COLUMNS, len(wave)))
    starts = np.cumsum([0, *map(len, parts)])
    return [
        {
            "second": round(int(start) / rate, 4),
            "low": round(float(part.min()), 4),
            "high": round(float(part.max()), 4),
        }
        for start, part in zip(starts, parts, strict=False)
    ]


def wave(style: Style, rows: Rows, titles: dict[str, str]) -> Any:
    """Draws a wave.

    Args:
        style: The style.
        rows: As `wave_rows` returns.
        titles: Titles of "second" and "sample".
    """
    chart = (
        alt.Chart(inline(rows))
        .mark_area(color=style.palette[0], line={"color": style.palette[0], "size": 1})
        .encode(
            x=_seconds(rows[-1]["second"], titles),
            y=alt.Y("low:Q", title=titles["sample"]),
            y2="high:Q",
        )
    )
    return finish(style, chart, WAVE)


def spectrogram_rows(
    frames: np.ndarray, centers: Sequence[float], seconds: float
) -> list[dict[str, float]]:
    """Returns a row for each cell; of a long sound some frames are averaged.

    Args:
        frames: `(frames, bands)`.
        centers: The middle of each band in Hz.
        seconds: How long the sound is.
    """
    parts = np.array_split(frames, min(COLUMNS, len(frames)))
    ends = np.cumsum([0, *map(len, parts)]) * seconds / len(frames)
    return [
        {
            "second": round(float(start), 3),
            "end": round(float(end), 3),
            "band": band,
            "top": band + 1,
            "hertz": round(float(centers[band])),
            "value": round(float(value), 2),
        }
        for part, start, end in zip(parts, ends[:-1], ends[1:], strict=True)
        for band, value in enumerate(part.mean(axis=0))
    ]


def spectrogram(
    style: Style,
    rows: Rows,
    titles: dict[str, str],
    letters: Sequence[tuple[str, float]] = (),
) -> Any:
    """Draws a spectrogram.

    Args:
        style: The style.
        rows: As `spectrogram_rows` returns.
        titles: Titles of "second", "hertz" and "value".
        letters: Letters to write above it, each with its second.
    """
    bands = 1 + max(row["band"] for row in rows)
    centers = [rows[band]["hertz"] for band in range(bands)]
    shown = range(0, bands, max(1, round(bands / 8)))
    names = ", ".join(f"'{centers[n]}'" for n in range(bands))
    top = bands * (1 + ROOM if letters else 1)
    axis = alt.Axis(
        values=[n + 0.5 for n in shown],
        labelExpr=f"[{names}][floor(datum.value)]",
        grid=False,
        title=titles["hertz"],
    )
    x = _seconds(rows[-1]["end"], titles)
    y = alt.Y("band:Q", scale=alt.Scale(domain=[0, top], nice=False), axis=axis)
    chart = (
        alt.Chart(inline(rows))
        .mark_rect(strokeWidth=0)
        .encode(
            x=x,
            x2="end:Q",
            y=y,
            y2="top:Q",
            color=alt.Color("value:Q", scale=alt.Scale(scheme=SEQUENTIAL), legend=None),
            tooltip=[
                alt.Tooltip(f"{name}:Q", title=titles[name])
                for name in ("second", "hertz", "value")
            ],
        )
    )
    if letters:
        data = [
            {"letter": letter, "second": at, "band": bands} for letter, at in letters
        ]
        base = alt.Chart(inline(data)).encode(x="second:Q")
        options = {"baseline": "bottom", "dy": -2, "fontWeight": "bold"}
        size = style.font_size + 3
        text = base.mark_text(color=style.ink, fontSize=size, **options).encode(
            y="band:Q", text="letter:N", tooltip=["letter:N", "second:Q"]
        )
        line = base.mark_rule(color="white", strokeDash=[2, 3], opacity=0.7).encode(
            y=alt.datum(0), y2=alt.datum(bands)
        )
        chart = chart + line + text
    return finish(style, chart, SPECTROGRAM)


def _seconds(end, titles):
    scale = alt.Scale(domain=[0, end], nice=False)
    return alt.X("second:Q", scale=scale, title=titles["second"])

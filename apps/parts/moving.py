"""A picture that moves: a string is read, and its open parentheses are counted."""

import html
from collections.abc import Sequence

import streamlit as st

from parts.style import Style

CELL, HEIGHT, TOP = 20, 150, 34  # pixels of the drawing
SECONDS = 14
_SCRIPT = """
export default function({ data, parentElement }) {
  const box = parentElement.querySelector("div");
  if (box.dataset.drawn !== data.html) {  // a rerun does not begin again
    box.dataset.drawn = data.html;
    box.innerHTML = data.html;
  }
}
"""


@st.cache_resource(show_spinner=False)
def _component():
    # `st.html` removes drawings.
    return st.components.v2.component(
        "kerasseq.reading", html="<div></div>", js=_SCRIPT
    )


def draw(style: Style, symbols: Sequence[int], label: str) -> None:
    """Draws `reading` on the page."""
    _component()(data={"html": reading(style, symbols, label)}, key="reading")


def depths(symbols: Sequence[int]) -> list[int]:
    """Returns how many parentheses are open after each symbol, from 0 on.

    Examples:
        >>> depths([1, 1, -1])
        [0, 1, 2, 1]
    """
    found = [0]
    for symbol in symbols:
        found.append(found[-1] + (1 if symbol > 0 else -1))
    return found


def reading(style: Style, symbols: Sequence[int], label: str) -> str:
    """Returns HTML: the symbols appear from left to right with the number open.

    Args:
        style: The style.
        symbols: 1 opens, -1 closes.
        label: What a screen reader says.

    Examples:
        >>> "<svg" in reading(Style(), [1, -1], "a string")
        True
    """
    found = depths(symbols)
    low, high = min(found), max(found)
    step = (HEIGHT - TOP - 12) / max(1, high - low)
    width = CELL * len(symbols)

    def y(depth):
        return TOP + 6 + (high - depth) * step

    points = " ".join(f"{CELL * i},{y(depth):.1f}" for i, depth in enumerate(found))
    letters = "".join(
        f'<text x="{CELL * i + CELL / 2}" y="22" text-anchor="middle" '
        f'font-size="21" font-family="monospace" fill="{style.ink}">'
        f"{'(' if symbol > 0 else ')'}</text>"
        for i, symbol in enumerate(symbols)
    )
    svg = (
        f'<svg viewBox="-4 0 {width + 8} {HEIGHT}" width="100%" role="img" '
        f'aria-label="{html.escape(label, quote=True)}">'
    )
    zero = (
        f'<line x1="0" x2="{width}" y1="{y(0):.1f}" y2="{y(0):.1f}" '
        f'stroke="{style.palette[6]}" stroke-dasharray="5 5"/>'
    )
    line = (
        f'<polyline points="{points}" fill="none" stroke="{style.palette[0]}" '
        'stroke-width="3.5" stroke-linejoin="round"/>'
    )
    return f"""<style>
    @keyframes kerasseq-read {{
      from {{ clip-path: inset(0 100% 0 0); }}
      80%, to {{ clip-path: inset(0 0 0 0); }}
    }}
    /* On a phone the drawing is wider than the page, and follows the reading. */
    @keyframes kerasseq-follow {{
      80%, to {{ transform: translateX(min(0px, calc(100cqw - 100%))); }}
    }}
    .kerasseq-read {{ animation: kerasseq-read {SECONDS}s linear infinite; }}
    .kerasseq-follow {{ display: grid; min-width: 34rem;
      animation: kerasseq-follow {SECONDS}s linear infinite; }}
    .kerasseq-window {{ overflow: hidden; container-type: inline-size; }}
    @media (prefers-reduced-motion: reduce) {{
      .kerasseq-read, .kerasseq-follow {{ animation: none; }}
      .kerasseq-window {{ overflow-x: auto; }}
    }}
    </style>
    <div class="kerasseq-window"><div class="kerasseq-follow">
      <div style="grid-area:1/1;">{svg}{zero}</svg></div>
      <div class="kerasseq-read" style="grid-area:1/1;">{svg}{letters}{line}</svg></div>
    </div></div>"""

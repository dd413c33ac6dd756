"""Texts as HTML: pieces in boxes, tokens or characters with a value as color; facts."""

import html
import unicodedata
from collections.abc import Sequence

from parts.style import Style

NEWLINE, SPACE, TAB = "↵", "·", "⇥"


def boxes(
    style: Style,
    pieces: Sequence[str],
    *,
    values: Sequence[float] | None = None,
    limits: tuple[float, float] | None = None,
    titles: Sequence[str] | None = None,
    marked: Sequence[int] = (),
    diverging: bool = False,
) -> str:
    """Returns HTML with a box for each piece.

    Args:
        style: The style.
        pieces: The text in pieces.
        values: A number for each, shown as color; without them colors alternate.
        limits: The ends of the colors; those of the values if None.
        titles: What the mouse shows for each.
        marked: The indices of pieces with a thick border.
        diverging: Whether 0 has no color, and negative values one of their own.

    Examples:
        >>> "a&lt;" in boxes(Style(), ["a<"])
        True
    """
    if values is None:
        paints = _in_turn(style)
    else:
        paints = (_by_sign if diverging else _by_value)(style, values, limits)
    found = []
    for n, piece in enumerate(pieces):
        shown = html.escape(visible(piece)) or "∅"
        title = f' title="{html.escape(titles[n], quote=True)}"' if titles else ""
        border = f"3px solid {style.ink}" if n in marked else "1px solid transparent"
        paper, ink = next(paints)
        found.append(
            f'<span dir="auto"{title} style="background:{paper};color:{ink};'
            f'border:{border};border-radius:.3em;padding:.05em .3em;">{shown}</span>'
        )
    return (
        f'<div dir="{direction("".join(pieces))}" style="line-height:2.1;'
        "font-family:monospace;overflow-wrap:anywhere;"
        'display:flex;flex-wrap:wrap;gap:.15em;">' + "".join(found) + "</div>"
    )


def visible(text: str) -> str:
    """Returns a text with signs for its spaces, tabs and line ends.

    Examples:
        >>> visible("a b")
        'a·b'
    """
    return text.replace(" ", SPACE).replace("\n", NEWLINE).replace("\t", TAB)


def direction(text: str) -> str:
    """Returns in which direction a text runs: that of its first letter.

    Examples:
        >>> direction("1. שלום"), direction("to be")
        ('rtl', 'ltr')
    """
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in ("L", "R", "AL"):
            return "ltr" if kind == "L" else "rtl"
    return "ltr"


def plain(text: str) -> str:
    """Returns HTML with a text as it is, its spaces and line ends, too.

    Examples:
        >>> "a  &lt;b&gt;" in plain("a  <b>")
        True
    """
    return (
        '<div dir="auto" style="white-space:pre-wrap;overflow-wrap:anywhere;'
        f'font-family:monospace;line-height:1.6;">{html.escape(text)}</div>'
    )


def continued(style: Style, prompt: str, text: str) -> str:
    """Returns HTML with a text that was given, and in color how it was continued.

    Examples:
        >>> "a</span>" in continued(Style(), "a", "b")
        True
    """
    return (
        '<div dir="auto" style="white-space:pre-wrap;overflow-wrap:anywhere;'
        'font-family:monospace;line-height:1.6;min-height:6rem;">'
        f'<span style="opacity:.7;">{html.escape(prompt)}</span>'
        f'<span style="color:{style.palette[0]};">{html.escape(text)}</span></div>'
    )


def _in_turn(style):
    colors = ("#1d4e89", "#5c4400", "#1b5e3a", "#6a2c70")
    if not style.dark:
        colors = ("#cfe4f7", "#fbe7b5", "#cdeedd", "#f0d5ea")
    ink, n = style.ink, 0
    while True:
        yield colors[n % len(colors)], ink
        n += 1


def _by_value(style, values, limits):
    low, high = limits or (min(values, default=0), max(values, default=1))
    for value in values:
        share = min(max((value - low) / ((high - low) or 1), 0), 1)
        alpha = 0.06 + 0.86 * share
        rgb = "255,140,66" if style.dark else "213,94,0"
        ink = "#111111" if style.dark and share > 0.45 else style.ink
        yield f"rgba({rgb},{alpha:.2f})", ink


def _by_sign(style, values, limits):
    """Orange for positive and blue for negative values, as in the figures."""
    peak = max(map(abs, limits or values), default=0) or 1
    dark, light = ("255,140,66", "86,180,233"), ("213,94,0", "0,114,178")
    for value in values:
        share = min(abs(value) / peak, 1)
        rgb = (dark if style.dark else light)[value < 0]
        ink = "#111111" if style.dark and share > 0.45 else style.ink
        ink = "#ffffff" if not style.dark and share > 0.7 else ink
        yield f"rgba({rgb},{0.9 * share:.2f})", ink


def facts(names_and_values: Sequence[tuple[str, str]]) -> str:
    """Returns HTML with a few results in large type, which wrap on a narrow screen.

    Examples:
        >>> "<b" in facts([("loss", "0.5")])
        True
    """
    found = "".join(
        '<div style="margin:.2rem 0;">'
        f'<div style="opacity:.8;">{html.escape(name)}</div>'
        f'<b style="font-size:1.45rem;line-height:1.3;">{html.escape(value)}</b></div>'
        for name, value in names_and_values
    )
    grid = "display:grid;grid-template-columns:repeat(auto-fill,minmax(12rem,1fr));"
    return f'<div style="{grid}gap:.2rem 1rem;">{found}</div>'

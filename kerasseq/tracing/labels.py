"""Tokens as labels of a figure: what cannot be seen or drawn is made visible.

Loads matplotlib only when labels are drawn.
"""

import functools
import math
import unicodedata
from typing import NamedTuple

VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "\\r", "\0": "\\0", "": "∅"}
LONGEST = 14  # characters of a label
SIZES = (10, 9, 8, 7)  # points; smaller letters are not legible
LINE, GAP = 1.17, 0.3  # height of a line and space between labels, in font sizes
LARGE = 100  # points, at which widths are measured


def visible(token) -> str:
    r"""Show a token so that spaces, line ends and combining marks can be seen.

    Examples:
        >>> [visible(token) for token in ["a", " ", "\n", "\x1b", "two words", 7]]
        ['a', '␣', '⏎', 'U+001B', 'two␣words', '7']
    """
    token = str(token)
    if token in VISIBLE:
        return VISIBLE[token]
    shown = "".join(_visible_character(c) for c in token)
    if unicodedata.category(token[0]) == "Mn":
        shown = "◌" + shown  # a mark alone, such as an accent, needs something under it
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _visible_character(c):
    if c in VISIBLE:
        return VISIBLE[c]
    # Controls, invisible marks, half pairs, odd spaces.
    return code_point(c) if unicodedata.category(c)[0] in "CZ" else c


def code_point(c: str) -> str:
    """Name a character that cannot be drawn.

    Examples:
        >>> code_point("你")
        'U+4F60'
    """
    return f"U+{ord(c):04X}"


def drawable(label: str):
    """The label with code points where no font has the character, and its fonts.

    Args:
        label: What `visible` gave.

    Returns:
        The text, and the list of font families that draw it together.
    """
    fonts = [_main_font()]
    shown = ""
    for c in label:
        font = next((f for f in fonts if ord(c) in _characters(f)), None) or _find(c)
        if font is not None and font not in fonts:
            fonts.append(font)
        shown += c if font is not None else code_point(c)
    return shown, fonts


def _main_font():
    from matplotlib import font_manager

    path = font_manager.findfont(font_manager.FontProperties())
    return font_manager.get_font(path).family_name


@functools.cache
def _characters(family):
    """The code points that a family has."""
    from matplotlib import font_manager

    path = font_manager.findfont(font_manager.FontProperties(family=[family]))
    return frozenset(font_manager.get_font(path).get_charmap())


@functools.cache
def _find(c):
    """An installed family that has the character; None if there is none."""
    from matplotlib import font_manager

    for font in font_manager.fontManager.ttflist:
        plain = font.weight == 400 and font.style == font.stretch == "normal"
        # Left out: boxes for any character, and TeX fonts with an order of their own.
        odd = font.name.startswith(("Last Resort", "cm", "STIXSize", "STIXNon"))
        if plain and not odd and ord(c) in _characters(font.name):
            return font.name
    return None


class Labels(NamedTuple):
    """Tokens as the labels of an axis that are legible in the room they have.

    Attributes:
        texts: A label for each token.
        fonts: The font families of each.
        upright: Whether each is written along the horizontal.
        size: Font size in points.
        every: Every n-th label is written: 1 for all.
        depth: Inches from the axis to the far end of the longest label.
    """

    texts: list[str]
    fonts: list[list[str]]
    upright: list[bool]
    size: float
    every: int
    depth: float

    def write(self, axis) -> None:
        """Write the labels at 0, 1, 2 … of `axes.xaxis` or `axes.yaxis`."""
        shown = slice(None, None, self.every)
        axis.set_ticks(range(0, len(self.texts), self.every))
        axis.set_ticklabels(self.texts[shown], parse_math=False)
        styles = zip(self.fonts[shown], self.upright[shown], strict=True)
        for tick, (fonts, upright) in zip(axis.get_ticklabels(), styles, strict=True):
            tick.set(fontsize=self.size, fontfamily=fonts, rotation=90 * (not upright))


def fit_labels(tokens, inches: float, *, vertical: bool = False) -> Labels:
    """Choose the font size of labels, and how many are written.

    The largest size at which each label has room; at the smallest that is legible,
    every second one is written, or every third, and so on.

    Args:
        tokens: A string or a list of tokens.
        inches: Length of the axis.
        vertical: Whether it is a vertical axis, beside which each label is upright.
            Below a horizontal one, labels of more than two characters are turned.

    Examples:
        >>> labels = fit_labels("abc" * 30, 3.0)
        >>> labels.size, labels.every
        (7, 3)
    """
    texts, fonts = zip(*[drawable(visible(token)) for token in tokens], strict=True)
    widths = [_width(text) for text in texts]
    upright = [vertical or len(text) <= 2 for text in texts]
    turned = [not vertical and not up for up in upright]
    sizes = zip(widths, turned, strict=True)
    room = [LINE if vertical or turn else width for width, turn in sizes]
    needed = (max(room) + GAP) * len(texts) / inches / 72  # inches for each point
    size = next((size for size in SIZES if size * needed <= 1), SIZES[-1])
    every = max(1, math.ceil(size * needed))
    sizes = zip(widths[::every], turned[::every], strict=True)
    depth = max(width if vertical or turn else LINE for width, turn in sizes)
    return Labels([*texts], [*fonts], upright, size, every, depth * size / 72)


def _width(text: str) -> float:
    """The width of a label, in units of its font size."""
    return sum(map(_advance, text))


@functools.cache
def _advance(c: str) -> float:
    from matplotlib import font_manager

    if ord(c) not in _characters(_main_font()):
        return 1.0  # of another font
    path = font_manager.findfont(font_manager.FontProperties())
    font = font_manager.get_font(path)
    font.set_size(LARGE, 72)
    return font.load_char(ord(c)).linearHoriAdvance / 65536 / LARGE


def label_time(axis, tokens, length, inches):
    """Label the time axis with tokens, or with the numbers of the steps.

    Args:
        axis: A matplotlib `Axes`, with step t at t.
        tokens: A string, a list of tokens, or None.
        length: Number of steps.
        inches: Width of the axis. Where tokens find no room, every second is labelled,
            or every third, and so on.
    """
    if tokens is None:
        every = max(1, -(-length // 20))
        axis.set_xticks(range(0, length, every))
        axis.set_xlabel("time step")
        return
    fit_labels(tokens, inches).write(axis.xaxis)
    axis.set_xlabel("input, in reading order")


def check_tokens(tokens, length):
    """Raise a `ValueError` unless there is a token for each step."""
    if tokens is not None and len(tokens) != length:
        raise ValueError(
            f"tokens has {len(tokens)} entries, but {length} steps were recorded: give "
            "one for each step, padding included"
        )

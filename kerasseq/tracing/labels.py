"""Tokens as labels of a figure: what cannot be seen or drawn is made visible.

Loads matplotlib only when labels are drawn.
"""

import functools
import unicodedata

VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "\\r", "\0": "\\0", "": "∅"}
LONGEST = 14  # characters of a label


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
    for tick in label_places(axis.xaxis, tokens, inches):
        tick.set_rotation(0 if len(tick.get_text()) <= 2 else 90)
    axis.set_xlabel("input, in reading order")


def label_places(axis, tokens, inches) -> list:
    """Write tokens at 0, 1, 2 … of one axis, as many as find room.

    Args:
        axis: `axes.xaxis` or `axes.yaxis`.
        tokens: A string or a list of tokens.
        inches: Length of the axis.

    Returns:
        The labels that were written.
    """
    labels = [drawable(visible(token)) for token in tokens]
    size = 10 if inches / len(labels) > 0.15 else 6
    every = max(1, round(len(labels) * size / 72 / inches))
    axis.set_ticks(range(0, len(labels), every))
    axis.set_ticklabels([text for text, _ in labels[::every]], parse_math=False)
    written = axis.get_ticklabels()
    for tick, (_, fonts) in zip(written, labels[::every], strict=True):
        tick.set(fontsize=size, fontfamily=fonts)
    return written


def check_tokens(tokens, length):
    """Raise a `ValueError` unless there is a token for each step."""
    if tokens is not None and len(tokens) != length:
        raise ValueError(
            f"tokens has {len(tokens)} entries, but {length} steps were recorded: give "
            "one for each step, padding included"
        )

"""Shared parts of the figures: sizes, colors, names, and tokens as tick labels.

Matplotlib is imported only when a figure is drawn.
"""

import functools
import io
import math
import numbers
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kerasseq.core import packages
from kerasseq.core.checks import nearest
from kerasseq.core.palette import LIGHT
from kerasseq.tracing.listeners import default_axes
from kerasseq.tracing.recording import Trace

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

COLORS = LIGHT
MAX_WIDTH = 20  # inches

VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "\\r", "\0": "\\0", "": "∅"}
MAX_LABEL_LENGTH = 14  # characters
FONT_SIZES = (10, 9, 8, 7)  # points, the largest that fits is used
LINE_HEIGHT, GAP = 1.17, 0.3  # of labels, in font sizes
MEASURED_SIZE = 100  # points, at which the widths of characters are measured


def figure(width: float, height: float) -> "Figure":
    """Creates a matplotlib figure outside of pyplot that notebooks display."""
    matplotlib = packages.load("matplotlib.figure", "matplotlib", "figures need")
    made = matplotlib.Figure(figsize=(width, height), layout="constrained")
    made._repr_png_ = functools.partial(_png, made)
    return made


def _png(made: "Figure") -> bytes:
    out = io.BytesIO()
    made.savefig(out, format="png", bbox_inches="tight")
    return out.getvalue()


def pairs_of_images(
    count: int, per_row: int, size: float, least_width: float = 0.0
) -> tuple["Figure", np.ndarray]:
    """Creates a figure with two panels without axes for each image.

    Args:
        count: Number of images.
        per_row: The most images in a row.
        size: Width and height of a panel, in inches.
        least_width: The least width of the figure.

    Returns:
        The figure and its panels, `(count or more, 2)`.
    """
    columns = min(per_row, count)
    rows = -(-count // columns)
    width = max(2 * size * columns, least_width)
    made = figure(width, (size + 0.35) * rows + 0.5)
    axes = made.subplots(rows, 2 * columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    return made, axes.reshape(-1, 2)


def width_for(length: int, tokens: Sequence[object] | None) -> float:
    """Returns the width in inches for a number of steps; more if there are tokens."""
    per_step = 0.12 if tokens is None else 0.24
    return min(max(5.0, length * per_step), MAX_WIDTH)


def color_map(name: str, missing: str) -> "Colormap":
    """Returns a color map with a color for NaN."""
    from matplotlib import colormaps

    return colormaps[name].with_extremes(bad=missing)


def number_ticks(axis: "Axis", numbers: Sequence[int], at_most: int) -> None:
    """Labels the ticks at 0, 1, 2 … with these numbers, at most `at_most` of them."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    def number(place, _):
        known = place == int(place) and 0 <= place < len(numbers)
        return str(numbers[int(place)]) if known else ""

    axis.set_major_locator(MaxNLocator(nbins=at_most, integer=True, min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(number))


def legend(made: "Figure", axis: "Axes") -> None:
    """Draws a legend below the axes."""
    handles, labels = axis.get_legend_handles_labels()
    first = dict(reversed(list(zip(labels, handles, strict=True))))
    # Bars from left to right, then lines.
    names = sorted(
        dict.fromkeys(labels), key=lambda label: hasattr(first[label], "get_ls")
    )
    room = made.get_figwidth() / (0.5 + 0.1 * max(map(len, names)))  # in columns
    made.legend(
        [first[name] for name in names],
        names,
        loc="outside lower center",
        ncols=max(1, min(len(names), int(room))),
        frameon=False,
    )


def words(name: str) -> str:
    """Replaces the underscores of a name by spaces.

    Examples:
        >>> words("forget_gate")
        'forget gate'
    """
    return name.replace("_", " ")


def split(key: str) -> tuple[str, str]:
    """Splits a key of a trace into path and name.

    Examples:
        >>> split("model/lstm/forget_gate"), split("forget_gate")
        (('model/lstm', 'forget_gate'), ('', 'forget_gate'))
    """
    path, _, name = key.rpartition("/")
    return path, name


def layer_values(
    trace: Mapping[str, Any], layer: str | None
) -> tuple[str, dict[str, np.ndarray]]:
    """Finds a layer in a trace by its path or the beginning of it.

    Returns:
        The path, and the arrays `(batch, time, units)` of the layer by name.
    """
    layers = {}
    for key in trace:
        value = trace[key][0] if isinstance(trace[key], list) else trace[key]
        if _axes(trace, key, value) == ("rows", "steps", "units"):
            path, name = split(key)
            layers.setdefault(path, {})[name] = np.asarray(value, "float32")
    if not layers:
        raise ValueError(
            "trace must have values of shape (batch, time, units), received "
            "nothing over time. Call a recurrent layer of kerasseq inside the trace"
        )
    if layer is None:
        path = next(iter(layers))
    elif layer in layers:
        path = layer
    else:
        path = next((p for p in layers if p.startswith(layer)), None)
    if path is None:
        raise ValueError(
            f'layer="{layer}" is not in the trace.{nearest(layer, layers)} There is: '
            + ", ".join(layers)
        )
    return path, layers[path]


def _axes(trace, key, value):
    """Returns the names of the axes, which a plain mapping does not have."""
    if isinstance(trace, Trace):
        return trace.axes(key)
    return default_axes(np.ndim(value))


def known(argument: str, name: str, names: Iterable[str]) -> str:
    """Returns `name` if it is one of `names`, and raises an error otherwise."""
    if name in names:
        return name
    raise ValueError(
        f'{argument}: "{name}" is not there.{nearest(name, names)} There is: '
        + ", ".join(names)
    )


def in_order(names: Iterable[str]) -> list[str]:
    """Sorts names: gates, then the candidate, then the states."""
    last = ("candidate", "cell_state", "hidden_state")

    def rank(name):
        if name.endswith("_gate"):
            return 0
        return 1 + (last.index(name) if name in last else len(last))

    return sorted(names, key=rank)


def one_sequence(
    value: np.ndarray, example: int, units: int | Iterable[int] | None
) -> tuple[np.ndarray, list[int]]:
    """Returns one sequence, `(time, units)`, and the indices of the units."""
    if not -len(value) <= example < len(value):
        raise ValueError(
            f"example={example} is not in the batch, which has {len(value)} sequences"
        )
    count = value.shape[-1]
    if units is None:
        units = count
    units = list(range(units) if isinstance(units, numbers.Integral) else units)
    if not units or not all(0 <= unit < count for unit in units):
        raise ValueError(f"units must be some of 0 to {count - 1}, received {units}")
    return value[example][:, units], units


def columns(
    history: Mapping[str, Iterable[float]] | list[dict[str, float]],
) -> dict[str, list[float]]:
    """Returns a history as lists by name, with NaN for missing epochs."""
    if not isinstance(history, list):
        return {name: list(values) for name, values in history.items()}
    names = dict.fromkeys(name for epoch in history for name in epoch)
    return {name: [epoch.get(name, np.nan) for epoch in history] for name in names}


def visible(token: object) -> str:
    r"""Replaces spaces, line ends and combining marks by visible characters.

    Examples:
        >>> [visible(token) for token in ["a", " ", "\n", "\x1b", "two words", 7]]
        ['a', '␣', '⏎', 'U+001B', 'two␣words', '7']
    """
    token = str(token)
    if token in VISIBLE:
        return VISIBLE[token]
    shown = "".join(_visible_character(c) for c in token)
    if unicodedata.category(token[0]) == "Mn":
        shown = "◌" + shown  # a combining mark needs a base character
    return (
        shown if len(shown) <= MAX_LABEL_LENGTH else shown[: MAX_LABEL_LENGTH - 1] + "…"
    )


def _visible_character(c: str) -> str:
    if c in VISIBLE:
        return VISIBLE[c]
    # Control and format characters, surrogates, unusual spaces.
    return code_point(c) if unicodedata.category(c)[0] in "CZ" else c


def code_point(c: str) -> str:
    """Returns the code point of a character, for one that no font has.

    Examples:
        >>> code_point("你")
        'U+4F60'
    """
    return f"U+{ord(c):04X}"


def drawable(label: str) -> tuple[str, list[str]]:
    """Chooses fonts for a label, with code points for characters that no font has.

    Args:
        label: The result of `visible`.

    Returns:
        The text, and the list of font families that draw it.
    """
    fonts = [_main_font()]
    shown = ""
    for c in label:
        font = next((f for f in fonts if ord(c) in _characters(f)), None) or _find(c)
        if font is not None and font not in fonts:
            fonts.append(font)
        shown += c if font is not None else code_point(c)
    return shown, fonts


def _main_font() -> str:
    from matplotlib import font_manager

    path = font_manager.findfont(font_manager.FontProperties())
    return font_manager.get_font(path).family_name


@functools.cache
def _characters(family: str) -> frozenset[int]:
    """Returns the code points that a font family supports."""
    from matplotlib import font_manager

    path = font_manager.findfont(font_manager.FontProperties(family=[family]))
    return frozenset(font_manager.get_font(path).get_charmap())


@functools.cache
def _find(c: str) -> str | None:
    """Returns an installed font family that has the character, or None."""
    from matplotlib import font_manager

    for font in font_manager.fontManager.ttflist:
        plain = font.weight == 400 and font.style == font.stretch == "normal"
        # "Last Resort" draws a box for any character; TeX fonts have other encodings.
        excluded = font.name.startswith(("Last Resort", "cm", "STIXSize", "STIXNon"))
        if plain and not excluded and ord(c) in _characters(font.name):
            return font.name
    return None


class Labels(NamedTuple):
    """Tokens as tick labels of an axis.

    Attributes:
        texts: A label for each token.
        fonts: The font families of each.
        upright: Whether each is horizontal.
        size: Font size in points.
        every: n if every n-th label is written; 1 for all.
        depth: Height or width, in inches, of the longest label, away from the axis.
    """

    texts: list[str]
    fonts: list[list[str]]
    upright: list[bool]
    size: float
    every: int
    depth: float

    def write(self, axis: "Axis") -> None:
        """Writes the labels at 0, 1, 2 … of `axes.xaxis` or `axes.yaxis`."""
        shown = slice(None, None, self.every)
        axis.set_ticks(range(0, len(self.texts), self.every))
        axis.set_ticklabels(self.texts[shown], parse_math=False)
        styles = zip(self.fonts[shown], self.upright[shown], strict=True)
        for tick, (fonts, upright) in zip(axis.get_ticklabels(), styles, strict=True):
            tick.set(fontsize=self.size, fontfamily=fonts, rotation=90 * (not upright))


def fit_labels(
    tokens: Sequence[object], inches: float, *, vertical: bool = False
) -> Labels:
    """Chooses the largest font size at which all labels fit.

    If they do not fit at the smallest size, every second one is written, or every
    third, and so on.

    Args:
        tokens: A string or a list of tokens.
        inches: Length of the axis.
        vertical: Whether it is a vertical axis, where all labels are horizontal. On
            a horizontal axis labels of more than two characters are rotated.

    Examples:
        >>> labels = fit_labels("abc" * 30, 3.0)
        >>> labels.size, labels.every
        (7, 3)
    """
    texts, fonts = zip(*[drawable(visible(token)) for token in tokens], strict=True)
    widths = [_width(text) for text in texts]
    upright = [vertical or len(text) <= 2 for text in texts]
    rotated = [not vertical and not up for up in upright]
    sizes = zip(widths, rotated, strict=True)
    room = [LINE_HEIGHT if vertical or turn else width for width, turn in sizes]
    needed = (max(room) + GAP) * len(texts) / inches / 72  # axis lengths per point
    size = next((size for size in FONT_SIZES if size * needed <= 1), FONT_SIZES[-1])
    every = max(1, math.ceil(size * needed))
    sizes = zip(widths[::every], rotated[::every], strict=True)
    depth = max(width if vertical or turn else LINE_HEIGHT for width, turn in sizes)
    return Labels([*texts], [*fonts], upright, size, every, depth * size / 72)


def _width(text: str) -> float:
    """Returns the width of a label, in units of its font size."""
    return sum(map(_advance, text))


@functools.cache
def _advance(c: str) -> float:
    from matplotlib import font_manager

    if ord(c) not in _characters(_main_font()):
        return 1.0  # drawn with another font
    path = font_manager.findfont(font_manager.FontProperties())
    font = font_manager.get_font(path)
    font.set_size(MEASURED_SIZE, 72)
    return font.load_char(ord(c)).linearHoriAdvance / 65536 / MEASURED_SIZE


def label_time(
    axis: "Axes", tokens: Sequence[object] | None, length: int, inches: float
) -> None:
    """Labels the time axis with tokens, or with the numbers of the steps.

    Args:
        axis: A matplotlib `Axes`, with step t at t.
        tokens: A string, a list of tokens, or None.
        length: Number of steps.
        inches: Width of the axis. If the tokens do not fit, every second one is
            labeled, or every third, and so on.
    """
    if tokens is None:
        every = max(1, -(-length // 20))
        axis.set_xticks(range(0, length, every))
        axis.set_xlabel("time step")
        return
    fit_labels(tokens, inches).write(axis.xaxis)
    axis.set_xlabel("input, in reading order")


def check_tokens(tokens: Sequence[object] | None, length: int) -> None:
    """Raises a `ValueError` unless there is one token for each step."""
    if tokens is not None and len(tokens) != length:
        raise ValueError(
            f"tokens must have one entry for each of {length} steps, padding included; "
            f"received {len(tokens)} entries"
        )

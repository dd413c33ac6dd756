"""Figures as SVG that are equal in each execution, for light and dark pages, phones."""

import base64
import collections
import io
import itertools
import re
from typing import TYPE_CHECKING

from kerasseq.core.palette import DARK, INK, LIGHT

if TYPE_CHECKING:  # heavy, and needed in the kernel only
    from matplotlib.figure import Figure

NUMBER = re.compile(r"-?\d+\.\d{3,}")
IMAGE = re.compile(r'data:image/png;base64,([^"]*)"')
SAVING = {
    "savefig.facecolor": "none",
    "svg.fonttype": "none",  # text stays text, and files stay small
    "svg.hashsalt": "kerasseq",  # of the names of parts
}
FONT = "'DejaVu Sans', Verdana, sans-serif"  # matplotlib measures with the first
WITHOUT = (
    (re.compile(r"<\?xml.*?\?>\s*|<!DOCTYPE.*?>\s*", re.DOTALL), ""),
    (re.compile(r"<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL), ""),
    (re.compile(r'<path d="[^"]*" style="fill: none"/>\s*'), ""),  # shows nothing
    (re.compile(r"font-family: ([^;]*sans-serif;?|'DejaVu Sans';) ?"), ""),
    (re.compile(r'(?<=<g) id="[^"]*"'), ""),  # nothing refers to groups
    (re.compile(r"<g ?/>\s*"), ""),
    (re.compile(r' transform="rotate\(-?0 [^)]*\)"'), ""),
    (re.compile(r"<svg(?=[ >])"), f'<svg style="font-family: {FONT}"'),
    (re.compile(r"\s*\n\s*"), "\n"),
)
GROUP = re.compile(r"(<g\b[^>]*>\n?|</g>\n?)")
# Grays of matplotlib and of our plots: lines of a grid, patches, remarks.
GRAYS = {"#000000": INK[1], "#808080": "#9a9a9a", "#b0b0b0": "#5c6270"}
EXCHANGED = {
    **dict(zip(LIGHT, DARK, strict=True)),
    INK[0]: INK[1],
    "#ffffff": "#1e2129",  # the paper of the dark pages
    **GRAYS,
}
COLOR = re.compile("|".join(EXCHANGED), re.IGNORECASE)
# The label of a tick of a horizontal axis, if it is a number.
LABEL = re.compile(
    r'<text(?= style="[^"]*font-size: (?P<size>[\d.]+)px; text-anchor: middle[^"]*" '
    r'x="(?P<x>[\d.]+)" y="(?P<y>[\d.]+)">(?P<text>[-\u2212]?\d[\d.,]*)</text>)'
)
DIGIT = 0.64  # width in font sizes
STYLE = re.compile(r'(?: class="(?P<names>[^"]*)")? style="(?P<style>[^"]*)"')
PHONE = "@media (max-width: 480px) {.second {display: none}}"


def style() -> dict[str, object]:
    """Returns the settings of matplotlib for the figures of the tutorials."""
    from cycler import cycler

    ink = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color")
    ink += ("ytick.color", "legend.labelcolor")
    return {
        **dict.fromkeys(ink, INK[0]),
        "axes.prop_cycle": cycler(color=LIGHT),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "legend.frameon": False,
    }


def svg(figure: "Figure") -> str:
    """Writes a figure as SVG, without the date and with short numbers."""
    import matplotlib

    out = io.StringIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context(SAVING):
        figure.savefig(out, format="svg", metadata=metadata)
    return shorten(out.getvalue())


def shorten(text: str) -> str:
    r"""Rounds the coordinates of an SVG to two decimals, and names the font once.

    Examples:
        >>> shorten('<g><g id="a"/>\n <path d="M 1.234567 2.5 L -0.000001 3"/></g>')
        '<path d="M 1.23 2.5 L 0 3"/>'
    """
    for pattern, new in WITHOUT:
        text = pattern.sub(new, text)
    text = _without_groups(text)
    return IMAGE.sub(_repacked, NUMBER.sub(_rounded, text))


def _without_groups(text):
    """Removes the tags of groups that say nothing, as most do."""
    kept, is_kept = [], []
    for part in GROUP.split(text):
        if part.startswith("<g"):
            is_kept.append(part.strip() != "<g>")
        if not GROUP.match(part) or is_kept[-1]:
            kept.append(part)
        if part.startswith("</g"):
            is_kept.pop()
    return "".join(kept)


def _rounded(match):
    short = f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def _repacked(match):
    """The image of a heat map, with a table of its colors if there are few."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(match[1]))).convert("RGBA")
    colors = image.getcolors(256)
    if colors is None or any(color[3] < 255 for _, color in colors):
        return match[0]
    out = io.BytesIO()
    image.convert("RGB").quantize(len(colors)).save(out, "png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode() + '"'


def for_phones(text: str) -> str:
    r"""Hides every second number of a crowded axis where the figure is shown small.

    Examples:
        >>> tick = '<text style="font-size: 10px; text-anchor: middle" x="{}" y="7">'
        >>> crowded = [tick.format(15 * n) + f"{n}</text>" for n in range(10, 13)]
        >>> ["second" in part for part in for_phones("\n".join(crowded)).split("\n")]
        [False, True, False]
        >>> loose = [tick.format(25 * n) + f"{n}</text>" for n in range(10, 13)]
        >>> "second" in for_phones("\n".join(loose))
        False
    """
    second = set()
    for _, found in itertools.groupby(LABEL.finditer(text), lambda match: match["y"]):
        labels = list(found)
        for left, right in itertools.pairwise(labels):
            width = DIGIT * float(right["size"]) * len(right["text"])
            if 0 < float(right["x"]) - float(left["x"]) < 1.5 * width:
                second |= {label.start() for label in labels[1::2]}
    if not second:
        return text
    marked = LABEL.sub(
        lambda m: '<text class="second"' if m.start() in second else m[0], text
    )
    return marked.replace("</style>", f"{PHONE}</style>", 1)


def with_classes(text: str) -> str:
    r"""Writes a style that several parts have once, as a class: files stay small.

    Examples:
        >>> part = '<path style="fill: none"/>'
        >>> with_classes(f"<style></style>{part}{part}")
        '<style>.a0 {fill: none}</style><path class="a0"/><path class="a0"/>'
    """
    counts = collections.Counter(found["style"] for found in STYLE.finditer(text))
    styles = [style for style, count in counts.items() if count > 1]
    classes = {style: f"a{n}" for n, style in enumerate(styles)}

    def named(match):
        if match["style"] not in classes:
            return match[0]
        names = filter(None, (match["names"], classes[match["style"]]))
        return f' class="{" ".join(names)}"'

    rules = "".join(f".{name} {{{style}}}" for style, name in classes.items())
    return STYLE.sub(named, text).replace("</style>", f"{rules}</style>", 1)


def dark(text: str) -> str:
    """Exchanges the colors of a figure for those of dark pages.

    Examples:
        >>> dark("stroke: #0072B2; fill: #123456")
        'stroke: #56b4e9; fill: #123456'
    """
    return COLOR.sub(lambda match: EXCHANGED[match[0].lower()], text)

"""Plots of images: several beside each other, and which pixels moved a decision."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core import checks
from kerasseq.tracing import drawing
from kerasseq.tracing.attention_plots import displayable

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IMAGE_SIZE = 1.6  # inches
IMAGES_PER_ROW = 8  # 12.8 inches
LONGEST = 22  # characters of a line of a title


def plot_images(
    images: Sequence[ArrayLike],
    titles: Sequence[str] | None = None,
    title: str | None = None,
    *,
    columns: int = IMAGES_PER_ROW,
) -> "Figure":
    """Plots images in rows, each with a title.

    Args:
        images: Arrays `(H, W)` or `(H, W, C)` with C = 1 or 3, which may have different
            sizes.
        titles: One title per image, which may have several lines.
        title: Title of the figure.
        columns: The most images in a row.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there are no images, or the number of titles is not theirs.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> figure = plot_images([np.eye(3), np.ones((2, 4, 3))], ["one", "two"])
        >>> [axis.get_title() for axis in figure.axes]
        ['one', 'two']
    """
    titles = [""] * len(images) if titles is None else list(titles)
    if not len(images) or len(titles) != len(images):
        raise ValueError(
            "images must be at least one image, and titles have one entry for each, "
            f"received {len(images)} images and {len(titles)} titles"
        )
    columns = min(checks.whole_number("columns", columns), len(images))
    rows = -(-len(images) // columns)
    lines = max(text.count("\n") for text in titles) + 1
    height = IMAGE_SIZE + 0.17 * lines
    figure = drawing.figure(
        max(IMAGE_SIZE * columns, 4.0), height * rows + (0.5 if title else 0.0)
    )
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat[len(images) :]:
        axis.remove()
    for axis, image, text in zip(axes.flat, images, titles, strict=False):
        _show(axis, np.asarray(image))
        _write_title(axis, text)
    figure.suptitle(title or "")
    return figure


def plot_pixels(
    images: ArrayLike,
    scores: ArrayLike,
    titles: Sequence[str] | None = None,
    title: str | None = None,
) -> "Figure":
    """Plots images, each beside the scores of its pixels.

    Red pixels speak for the label and blue ones against it, each relative to the
    largest score of the image.

    Args:
        images: Array `(B, H, W)` or `(B, H, W, C)` with C = 1 or 3.
        scores: Array `(B, H, W)`, such as `ViT.attribution` returns.
        titles: One title per image.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If the shapes or the number of titles do not fit.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> figure = plot_pixels(np.ones((1, 3, 5)), np.ones((1, 3, 5)), ["a"])
        >>> len(figure.axes)
        2
    """
    images, scores = np.asarray(images), np.asarray(scores, "float32")
    titles = [""] * len(scores) if titles is None else list(titles)
    if scores.ndim != 3 or images.shape[:3] != scores.shape:
        raise ValueError(
            "scores must be (batch, height, width) for images (batch, height, width) "
            f"or with channels, received shape {scores.shape} for images of shape "
            f"{images.shape}"
        )
    if len(titles) != len(scores):
        raise ValueError(
            f"titles must have one entry for each of {len(scores)} images, received "
            f"{len(titles)}"
        )
    figure, pairs = drawing.pairs_of_images(
        len(scores), IMAGES_PER_ROW // 2, IMAGE_SIZE, least_width=4.0
    )
    for (left, right), image, values, text in zip(
        pairs, images, scores, titles, strict=False
    ):
        _show(left, image)
        _write_title(left, text)
        most = float(np.abs(values).max()) or 1.0
        right.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most)
    figure.suptitle(title or "")
    return figure


def _show(axis: "Axes", image: np.ndarray) -> None:
    axis.set_axis_off()
    is_bytes = image.dtype == "uint8"
    limits = {"vmin": 0, "vmax": 255} if is_bytes else {}
    axis.imshow(displayable(image), cmap="gray", **limits)


def _write_title(axis: "Axes", text: str) -> None:
    """Writes a title with fonts that have its characters, and without math."""
    lines, fonts = [], []
    for line in text.split("\n"):
        line = line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
        shown, of_line = drawing.drawable(line)
        lines.append(shown)
        fonts += [font for font in of_line if font not in fonts]
    axis.set_title("\n".join(lines), fontsize=9, fontfamily=fonts, parse_math=False)

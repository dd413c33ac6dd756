"""Plot of a picture with the attention to it for each word of its caption."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.tracing import drawing
from kerasseq.tracing.attention_plots import displayable

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.figure import Figure

IMAGE_SIZE = 1.6  # inches
IMAGES_PER_ROW = 6  # 9.6 inches
DARKEST = 0.15  # of the brightness, where the weight is 0


def plot_caption(
    image: ArrayLike,
    maps: ArrayLike,
    words: Sequence[str],
    title: str | None = None,
) -> "Figure":
    """Plots a picture, and for each word of its caption where attention lies.

    The brightness of a cell is its weight relative to the largest weight of the word.

    Args:
        image: Array `(H, W)` or `(H, W, C)` with C = 1 or 3.
        maps: Attention weights `(words, rows, columns)`, as `Translation.maps` or one
            of the arrays of `Seq2Seq.attention_maps`.
        words: The words, as `Translation.target_tokens`.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If a shape is wrong, or the number of words is not that of maps.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> maps = np.eye(4).reshape(4, 2, 2)[:2]
        >>> figure = plot_caption(np.ones((6, 6, 3)), maps, ["red", "cross"])
        >>> [axis.get_title() for axis in figure.axes]
        ['', 'red', 'cross']

    References:
        Xu et al. 2015, figure 2. Slides B.
    """
    image, maps = np.asarray(image), np.asarray(maps, "float32")
    channels = image.shape[2:] or (1,)
    if image.ndim not in (2, 3) or channels[0] not in (1, 3):
        raise ValueError(
            "image must be (height, width) or (height, width, channels) with 1 or 3 "
            f"channels, received shape {image.shape}"
        )
    if maps.ndim != 3 or not len(maps) or len(words) != len(maps):
        raise ValueError(
            "maps must be (words, rows, columns), one for each word, received shape "
            f"{maps.shape} and {len(words)} words"
        )
    columns = min(IMAGES_PER_ROW, len(maps) + 1)
    rows = -(-(len(maps) + 1) // columns)
    width = max(IMAGE_SIZE * columns, 4.0)
    height = (IMAGE_SIZE + 0.25) * rows + (0.4 if title else 0.0)
    figure = drawing.figure(width, height)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(maps) + 1 :]:
        axis.remove()
    shown = displayable(image)
    low, high = float(shown.min()), float(shown.max())
    axes[0].imshow(shown, cmap="gray")
    for axis, weights, word in zip(axes[1:], maps, words, strict=False):
        axis.imshow(lit(shown, weights), cmap="gray", vmin=low, vmax=high)
        text, fonts = drawing.drawable(word)
        axis.set_title(text, fontsize=9, fontfamily=fonts, parse_math=False)
    for axis in axes[: len(maps) + 1]:
        axis.set_axis_off()
    figure.suptitle(title or "")
    return figure


def lit(image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns an image, dark where the weights of its cells are 0, bright elsewhere.

    Args:
        image: `(H, W)` or `(H, W, C)`.
        weights: `(rows, columns)`.

    Examples:
        >>> lit(np.ones((2, 4)), np.array([[0.5, 0.0]])).tolist()
        [[1.0, 1.0, 0.15, 0.15], [1.0, 1.0, 0.15, 0.15]]
    """
    row, column = (
        np.arange(size) * cells // size
        for size, cells in zip(image.shape, weights.shape, strict=False)
    )
    light = DARKEST + (1 - DARKEST) * weights / (float(weights.max()) or 1.0)
    light = light[row][:, column]
    if image.ndim == 3:
        light = light[..., None]
    white = 255 if image.dtype.kind in "ui" else max(float(image.max()), 1.0)
    # Half white, so that a cell of a black background can be seen.
    bright = DARKEST * image + (light - DARKEST) * (image / 2 + white / 2)
    return bright.astype(image.dtype) if image.dtype.kind in "ui" else bright

"""Words in the plane: a labeled projection of their vectors."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.tracing import drawing

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.figure import Figure

MAX_LENGTH = 20  # characters of a label


def plot_words(
    points: ArrayLike,
    words: Sequence[str],
    *,
    pairs: Sequence[tuple[str, str]] = (),
    title: str | None = None,
) -> "Figure":
    """Plots words in the plane, such as a projection of their vectors.

    Args:
        points: `(words, 2)`, as of `WordVectors.projection`.
        words: The words.
        pairs: Pairs of words that an arrow connects, such as singular and plural.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If the points are not one for each word, or a pair has another word.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> pairs = [("cat", "cats")]
        >>> figure = plot_words([[0, 1], [1, 1]], ["cat", "cats"], pairs=pairs)
        >>> [text.get_text() for text in figure.axes[0].texts if text.get_text()]
        ['cat', 'cats']
    """
    points, words = np.asarray(points, float), list(words)
    if not words or points.shape != (len(words), 2):
        raise ValueError(
            f"points must have the shape ({len(words)}, 2), one for each of at least "
            f"one word, received {points.shape}"
        )
    place = dict(zip(words, points, strict=True))
    unknown = {word for pair in pairs for word in pair} - place.keys()
    if unknown:
        raise ValueError(
            f"pairs must be of the words that are drawn, received {sorted(unknown)[:3]}"
        )
    side = min(4 + 0.5 * len(words) ** 0.5, 12.0)
    figure = drawing.figure(1.3 * side, side)
    axis = figure.subplots()
    axis.scatter(*points.T, s=12, color=drawing.COLORS[0])
    for first, second in pairs:
        axis.annotate(
            "",
            xy=place[second],
            xytext=place[first],
            arrowprops={"arrowstyle": "->", "color": drawing.COLORS[1], "alpha": 0.6},
        )
    for word, point in zip(words, points, strict=True):
        axis.annotate(
            drawing.visible(word[:MAX_LENGTH]),
            point,
            xytext=(3, 3),
            textcoords="offset points",
            fontsize="small",
        )
    axis.margins(0.1)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_title(title or "", fontsize="medium")
    return figure

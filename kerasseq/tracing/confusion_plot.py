"""The confusion matrix of a classifier as a picture."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.tracing import drawing

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.figure import Figure

LEGIBLE = 20  # classes up to which counts are written into the cells


def plot_confusion(
    counts: ArrayLike, names: Sequence[object], title: str | None = None
) -> "Figure":
    """Plots a confusion matrix: rows are the true classes.

    The color of a cell is its share of the row, so that rare classes are visible.

    Args:
        counts: `(classes, classes)`, from true to predicted class, as from
            `kerasseq.training.confusion_matrix`.
        names: Names of the classes.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If the shape does not fit the names.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> figure = plot_confusion([[3, 1], [0, 2]], ["cat", "dog"])
        >>> figure.axes[0].get_xlabel()
        'predicted'
    """
    counts = np.asarray(counts)
    classes = len(names)
    if counts.shape != (classes, classes):
        raise ValueError(
            f"`counts` must have the shape ({classes}, {classes}), as there are "
            f"{classes} names, received {counts.shape}"
        )
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = max(4.0, min(0.42 * classes + 2.2, 14.0))
    figure = drawing.figure(size + 0.8, size)
    axis = figure.subplots()
    image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    labels = [drawing.visible(str(name)[:20]) for name in names]
    step = max(1, -(-classes // 40))
    places = np.arange(0, classes, step)
    axis.set_xticks(places, [labels[n] for n in places], rotation=90)
    axis.set_yticks(places, [labels[n] for n in places])
    if classes <= LEGIBLE:
        for (row, column), count in np.ndenumerate(counts):
            if count:
                color = "white" if shares[row, column] > 0.5 else "black"
                axis.text(
                    column, row, f"{count:,}",
                    ha="center", va="center", color=color, fontsize="small",
                )  # fmt: skip
    axis.set_xlabel("predicted")
    axis.set_ylabel("true")
    axis.set_title("Confusion matrix" if title is None else title)
    figure.colorbar(image, ax=axis, label="share of the true class")
    return figure

"""F1 of several learners as a picture: by label, and the mean with its interval."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kerasseq.tracing import drawing

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.figure import Figure

LEGIBLE = 26  # labels up to which scores are written into the cells


def plot_scores(
    scores: Mapping[str, Mapping[str, float]],
    means: Mapping[str, Sequence[float]],
    title: str | None = None,
) -> "Figure":
    """Plots F1 of several learners: a cell for each label, and the mean beside it.

    Args:
        scores: F1 `scores[learner][label]`, with the same labels for all.
        means: `means[learner]`: the mean F1, and the low and the high end of its
            interval.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there are no learners, or they differ in their labels or between
            `scores` and `means`.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> scores = {"svc": {"+": 0.5, "-": 0.4}, "bert": {"+": 0.9, "-": 0.8}}
        >>> means = {"svc": (0.45, 0.3, 0.6), "bert": (0.85, 0.8, 0.9)}
        >>> figure = plot_scores(scores, means)
        >>> figure.axes[1].get_xlabel()
        'mean of F1'
    """
    learners = list(scores)
    labels = list(scores[learners[0]]) if learners else []
    same = all(list(row) == labels for row in scores.values())
    if not labels or not same or set(means) != set(learners):
        raise ValueError(
            "scores must have scores[learner][label] with the same labels for all "
            f"learners, and means the same learners, received {learners} with "
            f"{[list(row)[:5] for row in scores.values()][:2]}, and {list(means)}"
        )
    table = np.array([[scores[name][label] for label in labels] for name in learners])
    height = max(2.8, 0.34 * len(learners) + 1.5)
    cells = min(0.46 * len(labels) + 1.8, 12.0)
    figure = drawing.figure(cells + 3.4, height)
    left, right = figure.subplots(1, 2, width_ratios=(cells, 2.9), sharey=True)
    _draw_cells(left, table, labels)
    left.set_yticks(range(len(learners)), [str(name)[:30] for name in learners])
    _draw_means(right, [means[name] for name in learners])
    left.set_title("F1 of each label", fontsize="medium")
    right.set_title("mean, and interval of 95 %", fontsize="medium")
    figure.suptitle(title, fontsize="large")
    return figure


def _draw_cells(axis, table, labels):
    axis.imshow(table, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(len(labels)), [drawing.visible(str(n)[:20]) for n in labels])
    if max(map(len, map(str, labels))) > 3:
        axis.tick_params("x", rotation=90)
    if len(labels) <= LEGIBLE:
        for (row, column), value in np.ndenumerate(table):
            axis.text(
                *(column, row, f"{value:.2f}".lstrip("0") or "0"),
                ha="center",
                va="center",
                color="white" if value > 0.6 else "black",
                fontsize="small",
            )


def _draw_means(axis, means):
    middle, low, high = np.array(means, float).T
    rows = np.arange(len(means))
    axis.hlines(rows, low, high, color=drawing.COLORS[0], linewidth=2)
    axis.plot(middle, rows, "o", color=drawing.COLORS[0])
    axis.set_xlabel("mean of F1")
    axis.set_xlim(max(0.0, low.min() - 0.05), min(1.0, high.max() + 0.05))
    axis.grid(axis="x", alpha=0.3)
    axis.tick_params("y", length=0)

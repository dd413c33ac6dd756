"""How many steps it takes before each state of a stack is known, as a picture."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kerasseq.tracing import drawing

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGEST = 24  # states that are drawn in a row: of more, these are the first


def plot_first_steps(steps: Mapping[str, Sequence[Sequence[int]]]) -> "Figure":
    """Plots the number of steps before each state, one panel for each architecture.

    Args:
        steps: `steps[title]`: rows of numbers by layer, from the lowest, and by time,
            as `layers.costs(…).first_steps()` returns them.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no panel, or a panel has no row, or rows of different
            lengths.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> figure = plot_first_steps({"LSTM": [[1, 2, 3], [2, 3, 4]]})
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['1', '2', '3', '2', '3', '4']

    References:
        Slides D, "RNN limit 3: Parallelization".
    """
    for title, rows in steps.items():
        if len({len(row) for row in rows}) != 1 or not len(rows[0]):
            raise ValueError(
                "steps must have rows of the same length, with at least one number "
                f"each, received {[len(row) for row in rows]} for {title!r}"
            )
    if not steps:
        raise ValueError("steps must have at least one panel, received none")
    tables = {title: np.array(rows)[:, :LONGEST] for title, rows in steps.items()}
    width = max(table.shape[1] for table in tables.values())
    height = sum(table.shape[0] + 1.3 for table in tables.values())
    figure = drawing.figure(0.5 * width + 1.6, 0.5 * height + 0.4)
    ratios = [table.shape[0] + 1 for table in tables.values()]
    panels = figure.subplots(len(tables), 1, squeeze=False, height_ratios=ratios)
    most = max(table.max() for table in tables.values())
    for panel, (title, table) in zip(panels[:, 0], tables.items(), strict=True):
        _draw(panel, title, table, most)
    panels[-1, 0].set_xlabel("time")
    return figure


def _draw(panel: "Axes", title: str, table: np.ndarray, most: int) -> None:
    layers, times = np.indices(table.shape)
    panel.scatter(
        *(times.ravel(), layers.ravel()),
        c=table.ravel(),
        cmap="Blues",
        vmin=0,
        vmax=most * 1.3,
        s=330,
        edgecolors=drawing.COLORS[0],
    )
    for (layer, time), number in np.ndenumerate(table):
        panel.text(
            *(time, layer, str(number)),
            ha="center",
            va="center",
            color="white" if number > 0.8 * most else "black",
            fontsize="small",
        )
    panel.set_title(title, fontsize="medium", loc="left")
    panel.set_yticks(
        range(table.shape[0]), [f"layer {n + 1}" for n in range(len(table))]
    )
    panel.set_xticks(range(table.shape[1]), range(1, table.shape[1] + 1))
    panel.set_xlim(-0.6, table.shape[1] - 0.4)
    panel.set_ylim(-0.6, table.shape[0] - 0.4)
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)

"""The loss around the weights of models as a picture."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kerasseq.tracing import drawing
from kerasseq.tracing.loss_surface import LossSurface

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = 13  # lines of equal loss


def plot_loss_surface(surfaces: Mapping[str, LossSurface]) -> "Figure":
    """Plots the loss around the weights of models, above that in the middle.

    Lines are drawn into one panel; of squares each has a panel with lines of equal
    loss, which are the same in all. The differences are on a logarithmic axis, as
    models differ by orders of magnitude.

    Args:
        surfaces: What `loss_surface` returned, by the name of the model.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is none, or lines and squares are mixed.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> at = np.linspace(-1, 1, 5)
        >>> figure = plot_loss_surface({"parabola": LossSurface(at, at**2)})
        >>> [line.get_label() for line in figure.axes[0].lines]
        ['parabola']
    """
    kinds = {surface.losses.ndim for surface in surfaces.values()}
    if len(kinds) != 1:
        raise ValueError(
            "surfaces must have at least one, all along one direction or all along "
            f"two, received {len(surfaces)} with directions {sorted(kinds)}"
        )
    return _lines(surfaces) if kinds == {1} else _squares(surfaces)


def _lines(surfaces: Mapping[str, LossSurface]) -> "Figure":
    figure = drawing.figure(5.5, 3.6)
    axis = figure.subplots()
    for n, (name, surface) in enumerate(surfaces.items()):
        color = drawing.COLORS[n % len(drawing.COLORS)]
        axis.plot(surface.positions, _above(surface), label=name, color=color)
    axis.set_yscale("symlog", linthresh=1e-2)
    axis.set_xlabel("position along the direction, in lengths of the weights")
    axis.set_ylabel("loss above that of the model")
    axis.legend()
    axis.grid(alpha=0.3)
    return figure


def _squares(surfaces: Mapping[str, LossSurface]) -> "Figure":
    figure = drawing.figure(3.6 * len(surfaces) + 0.8, 3.6)
    panels = figure.subplots(1, len(surfaces), squeeze=False)[0]
    above = {name: np.maximum(_above(s), 1e-3) for name, s in surfaces.items()}
    ends = [np.log10(f(list(map(f, above.values())))) for f in (np.min, np.max)]
    levels = np.linspace(*ends, LEVELS) if ends[0] < ends[1] else [ends[0], 1 + ends[0]]
    for panel, (name, surface) in zip(panels, surfaces.items(), strict=True):
        drawn = _square(panel, surface, np.log10(above[name]), levels)
        panel.set_title(name, fontsize="medium")
    bar = figure.colorbar(drawn, ax=panels, label="loss above that of the model")
    ticks = range(int(np.ceil(levels[0])), int(np.floor(levels[-1])) + 1)
    bar.set_ticks(ticks, labels=[f"{10.0**tick:g}" for tick in ticks])
    return figure


def _square(panel: "Axes", surface: LossSurface, heights: np.ndarray, levels):
    at = surface.positions
    drawn = panel.contourf(at, at, heights.T, levels=levels, cmap="viridis")
    panel.plot(0, 0, "+", color="white")
    panel.set_aspect("equal")
    panel.set_xlabel("α")
    panel.set_ylabel("β")
    return drawn


def _above(surface: LossSurface) -> np.ndarray:
    return surface.losses - surface.center

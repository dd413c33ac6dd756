"""Losses or accuracies by the size of models as a picture."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core import checks
from kerasseq.core.measured import by_size
from kerasseq.tracing import drawing

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.figure import Figure

BEYOND = 2.0  # by how much a law is drawn further than the sizes
POINTS = 100  # of a law


class Law(Protocol):
    """A law of the loss by size, as `training.PowerLaw`."""

    @property
    def exponent(self) -> float:
        """The exponent α."""

    def predict(self, size: ArrayLike) -> np.ndarray:
        """Computes the loss of models of these sizes."""


def plot_scaling(
    sizes: ArrayLike,
    values: ArrayLike,
    laws: Mapping[str, Law] | None = None,
    title: str | None = None,
    *,
    lines: Mapping[str, float] | None = None,
    label: str = "loss",
) -> "Figure":
    """Plots the losses of models by their size, with power laws.

    A point is a seed, the line joins the means. Both axes are logarithmic; that of the
    values is linear where no law is given, as for accuracies.

    Args:
        sizes: N of each model, `(M,)`, such as its number of parameters.
        values: The loss of each, `(M,)`, or `(M, seeds)`.
        laws: Laws from `training.power_law` by name, drawn a little beyond the sizes.
        title: Title of the figure.
        lines: Values to compare with by name, drawn as horizontal lines, such as the
            entropy of the source.
        label: What the values are.

    Returns:
        A matplotlib `Figure`.

    Raises:
        TypeError: If sizes or values are not numbers.
        ValueError: If their shapes do not match, a size is not positive, or a value is
            not, and there are laws.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> from kerasseq.training import power_law
        >>> N, losses = [1000, 8000, 60_000], [[3.0, 3.1], [2.7, 2.8], [2.5, 2.4]]
        >>> figure = plot_scaling(N, losses, {"E = 0": power_law(N, losses)})
        >>> [line.get_label() for line in figure.axes[0].lines[1:]]
        ['mean', 'E = 0: α = 0.053']
    """
    N, V = _checked(sizes, values, bool(laws))
    figure = drawing.figure(6, 4)
    axis = figure.subplots()
    black = {"color": "k", "zorder": 3}
    axis.plot(
        *(np.repeat(N, V.shape[1]), V.ravel(), "o"),
        **{"markerfacecolor": "none", "markersize": 4, "label": "a seed"} | black,
    )
    order = np.argsort(N)
    axis.plot(N[order], V.mean(axis=1)[order], "-", label="mean", **black)
    further = np.geomspace(N.min() / BEYOND, N.max() * BEYOND, POINTS)
    for n, (name, law) in enumerate((laws or {}).items()):
        shown = f"{name}: α = {law.exponent:.3f}"
        color = drawing.COLORS[n % len(drawing.COLORS)]
        axis.plot(further, law.predict(further), "--", color=color, label=shown)
    for n, (name, value) in enumerate((lines or {}).items(), start=len(laws or {})):
        color = drawing.COLORS[n % len(drawing.COLORS)]
        axis.axhline(value, linestyle=":", color=color, label=f"{name}: {value:.3g}")
    axis.set_xscale("log")
    _log_ticks(axis.xaxis, (1, 2, 5))
    if laws:
        axis.set_yscale("log")
        _log_ticks(axis.yaxis, (1, 1.5, 2, 3, 4, 5, 7))
    axis.set_xlabel("number of parameters")
    axis.set_ylabel(label)
    axis.grid(which="both", alpha=0.3)
    drawing.legend(figure, axis)
    axis.set_title(title)
    return figure


def _log_ticks(axis, digits):
    """Marks a logarithmic axis at these digits, with numbers as people write them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=digits))
    axis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axis.set_minor_formatter(NullFormatter())


def _checked(sizes, values, is_log):
    N, V = by_size("values", sizes, values)
    if not np.isfinite(V).all() or (is_log and not (V > 0).all()):
        wanted = "positive numbers" if is_log else "numbers"
        raise ValueError(f"values must be {wanted}, received {checks.short(V)}")
    return N, V

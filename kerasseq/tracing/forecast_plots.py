"""Plots of forecasts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kerasseq.tracing import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_PANELS = 6  # 2.6 inches each, one below the other
MAX_HISTORY = 5  # times the length of the forecast, or the number below
LEAST_HISTORY = 60  # steps, in which a season can be seen


class ForecastPanel(NamedTuple):
    """One series and its forecast.

    Attributes:
        title: Name of the series.
        history: Values so far, `(time,)`.
        forecast: Values after them, `(steps,)`.
        dates: Dates of both, `(time + steps,)`, or None.
        lower: Lower bounds of the intervals, `(steps,)`, or None.
        upper: Upper bounds, `(steps,)`, or None.
        actual: Values that came, `(steps,)`, or None.
    """

    title: str
    history: np.ndarray
    forecast: np.ndarray
    dates: np.ndarray | None = None
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    actual: np.ndarray | None = None


def plot_forecast(
    panels: Sequence[ForecastPanel],
    interval: str | None = None,
    title: str | None = None,
) -> "Figure":
    """Plots series and their forecasts, one panel for each, at most six.

    Args:
        panels: The series.
        interval: Name of the intervals, such as "0.1 to 0.9".
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ImportError: If matplotlib is not installed.

    Examples:
        >>> panel = ForecastPanel("sales", np.arange(5.0), np.array([5.0, 6.0]))
        >>> figure = plot_forecast([panel])
        >>> [line.get_label() for line in figure.axes[0].lines]
        ['values', 'forecast']
    """
    shown = list(panels)[:MAX_PANELS]
    figure = drawing.figure(8.0, 2.6 * len(shown) + 0.6)
    all_axes = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    for axes, panel in zip(all_axes, shown, strict=True):
        _draw(axes, panel, interval)
    drawing.legend(figure, all_axes[0])
    all_axes[-1].set_xlabel("step" if shown[0].dates is None else "date")
    if len(panels) > len(shown):
        title = f"{title or 'Forecasts'}: {len(shown)} of {len(panels)} series"
    if title:
        figure.suptitle(title)
    return figure


def _draw(axes, panel, interval):
    """Draws the end of one series, and its forecast from the last value on."""
    steps, time = len(panel.forecast), len(panel.history)
    x = np.arange(time + steps) if panel.dates is None else panel.dates
    first = max(0, time - max(MAX_HISTORY * steps, LEAST_HISTORY))
    past, after = slice(first, time), slice(time - 1, time + steps)
    last = panel.history[-1:]
    axes.plot(x[past], panel.history[past], color="0.35", label="values")
    if panel.actual is not None:
        actual = np.concatenate([last, panel.actual])
        axes.plot(x[after], actual, color="0.35", ls=":", label="held out")
    color = drawing.COLORS[0]
    axes.plot(
        x[after], np.concatenate([last, panel.forecast]), color=color, label="forecast"
    )
    if panel.lower is not None and panel.upper is not None:
        low, high = (np.concatenate([last, y]) for y in (panel.lower, panel.upper))
        label = f"quantiles {interval}" if interval else "interval"
        axes.fill_between(
            x[after], low, high, color=color, alpha=0.2, lw=0, label=label
        )
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)

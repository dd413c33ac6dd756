"""Plots of gates, gradients, attention, experts, position encodings and training.

Each function returns a `matplotlib.figure.Figure` and draws it nowhere else: make it
the last line of a notebook cell, or call `figure.savefig("gates.png")`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kerasseq.tracing import drawing
from kerasseq.tracing.attention_plots import (
    plot_alignments,
    plot_attention,
    plot_patches,
)
from kerasseq.tracing.caption_plot import plot_caption
from kerasseq.tracing.confusion_plot import plot_confusion
from kerasseq.tracing.drawing import COLORS, check_tokens, label_time, words
from kerasseq.tracing.expert_plot import plot_experts
from kerasseq.tracing.first_steps_plot import plot_first_steps
from kerasseq.tracing.forecast_plots import ForecastPanel, plot_forecast
from kerasseq.tracing.image_plots import plot_images, plot_pixels
from kerasseq.tracing.loss_surface_plot import plot_loss_surface
from kerasseq.tracing.positions import plot_positions
from kerasseq.tracing.scaling_plot import plot_scaling
from kerasseq.tracing.score_plot import plot_scores
from kerasseq.tracing.tape_plot import plot_tape
from kerasseq.tracing.word_plot import plot_words

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.figure import Figure

BESIDE_OPTIMUM = ("bits", "held_out_bits", "held_out_mse")  # metrics of a history
LABEL_HEIGHT = 0.065  # of the number above a bar, in units of accuracy

__all__ = [
    "ForecastPanel",
    "plot_alignments",
    "plot_attention",
    "plot_caption",
    "plot_confusion",
    "plot_experts",
    "plot_first_steps",
    "plot_forecast",
    "plot_gates",
    "plot_gradient_flow",
    "plot_history",
    "plot_images",
    "plot_loss_surface",
    "plot_patches",
    "plot_pixels",
    "plot_positions",
    "plot_race",
    "plot_scaling",
    "plot_scores",
    "plot_tape",
    "plot_words",
]


def plot_gates(
    trace: Mapping[str, Any],
    layer: str | None = None,
    tokens: str | Sequence[object] | None = None,
    gates: list[str] | None = None,
    units: int | list[int] | None = None,
    title: str | None = None,
    *,
    example: int = 0,
) -> "Figure":
    """Plots the gates and states of one layer over time, as heat maps.

    All gates share one scale from 0, closed, to 1, open. States and candidates have
    scales of their own, symmetric around 0.

    Args:
        trace: A `Trace`, or a mapping from paths to arrays `(batch, time, units)`. If
            the layer was called more than once, the first call is plotted.
        layer: Path of the layer, or the beginning of it. Defaults to the first layer.
        tokens: The input: a string, or a list with one entry per step.
        gates: Names to plot, such as `["forget_gate", "cell_state"]`. Defaults to all.
        units: Indices of the units to plot, or the number of first units. Defaults to
            all.
        title: Title of the figure. Defaults to the path of the layer.
        example: Index of the sequence in the batch.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If a name is unknown, or the number of tokens is not that of steps.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> figure = plot_gates({"lstm/forget_gate": np.ones((1, 3, 2))}, tokens="abc")
        >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
        ['a', 'b', 'c']
    """
    path, values = drawing.layer_values(trace, layer)
    wanted = gates or drawing.in_order(values)
    names = [drawing.known("gates", name, values) for name in wanted]
    shown = {}
    for name in names:
        shown[name], numbers = drawing.one_sequence(values[name], example, units)
    length = len(shown[names[0]])
    check_tokens(tokens, length)

    width = drawing.width_for(length, tokens)
    height = min(0.55 + 0.08 * len(numbers), 1.6)
    figure = drawing.figure(width + 1.6, height * len(names) + 1.3)
    axes = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    gate_axes = []
    for axis, name in zip(axes, names, strict=True):
        is_gate = name.endswith("_gate")
        limit = float(np.nanmax(np.abs(shown[name]), initial=0)) or 1.0
        low, high, colors = (0, 1, "viridis") if is_gate else (-limit, limit, "RdBu_r")
        image = axis.imshow(
            shown[name].T,
            aspect="auto",
            interpolation="nearest",
            vmin=low,
            vmax=high,
            cmap=colors,
        )
        axis.set_ylabel(words(name).replace(" ", "\n", 1) + "\n(unit)")
        drawing.number_ticks(axis.yaxis, numbers, at_most=5)
        axis.tick_params(axis="x", length=0)
        if is_gate:
            gate_axes.append(axis)
            gate_image = image
        else:
            figure.colorbar(image, ax=axis, aspect=8, pad=0.01)
    if gate_axes:
        tall = 8 * len(gate_axes)
        bar = figure.colorbar(gate_image, ax=gate_axes, aspect=tall, pad=0.01)
        bar.set_ticks([0, 0.5, 1], labels=["0 closed", "0.5", "1 open"])
    label_time(axes[-1], tokens, length, width)
    figure.suptitle(path if title is None else title, parse_math=title is not None)
    return figure


def plot_gradient_flow(
    flow: Mapping[str, np.ndarray],
    tokens: str | Sequence[object] | None = None,
    title: str | None = None,
) -> "Figure":
    """Plots the gradient norm at each step on a logarithmic scale.

    Steps without a gradient, such as masked ones, are gaps in the line, with open
    circles on the lower edge.

    Args:
        flow: The result of `tracing.gradient_flow`: arrays `(time,)` by path.
        tokens: The input: a string, or a list with one entry per step.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If `flow` is empty, or the number of tokens is not that of steps.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> figure = plot_gradient_flow({"lstm/hidden_state": np.array([0.1, 1.0])})
        >>> figure.axes[0].get_yscale()
        'log'
    """
    if not flow:
        raise ValueError(
            "flow must have at least one array, but flow is empty. Pass the result of "
            "tracing.gradient_flow"
        )
    length = max(len(values) for values in flow.values())
    check_tokens(tokens, length)
    width = max(drawing.width_for(length, tokens), 6)
    figure = drawing.figure(width + 1, 4.2)
    axis = figure.subplots()
    layers = list(dict.fromkeys(drawing.split(key)[0] for key in flow))
    all_zero = not any(np.any(values) for values in flow.values())
    for key, values in flow.items():
        path, name = drawing.split(key)
        values = np.asarray(values, "float64")
        is_cell = name.startswith("cell_state")
        style = {"color": COLORS[layers.index(path) % len(COLORS)]}
        style["linestyle"] = "--" if is_cell else "-"
        marker = "s" if is_cell else "o"
        label = f"{path}: {words(name)}" if path else words(name)
        positive = np.where(values > 0, values, np.nan)
        axis.plot(positive, marker=marker, markersize=4, label=label, **style)
        zero = np.flatnonzero(values == 0)
        edge = axis.get_xaxis_transform()  # y = 0 is the lower edge
        axis.plot(
            zero,
            np.full(len(zero), 0.02),
            "o",
            transform=edge,
            fillstyle="none",
            color=style["color"],
            label="no gradient" if len(zero) else None,
        )
    if all_zero:
        axis.set(ylim=(0, 1), yticks=[])
    else:
        axis.set_yscale("log")
    axis.set_ylabel("‖∂loss / ∂state at this step‖")
    axis.set_xlim(-0.5, length - 0.5)
    axis.grid(axis="y", alpha=0.3)
    label_time(axis, tokens, length, width)
    drawing.legend(figure, axis)
    axis.set_title("Gradient norm at each step" if title is None else title)
    return figure


def plot_history(
    history: Any,
    baselines: Mapping[str, float] | None = None,
    metric: str = "bits",
    title: str | None = None,
) -> "Figure":
    """Plots a metric over the epochs of a training, with baselines.

    Args:
        history: The result of `model.fit`, a dictionary of lists, or a list with a
            dictionary per epoch.
        baselines: Values of other models by name, drawn as horizontal lines, such as
            `{"bigrams": 3.5}`. The optimum is another one where the history has it,
            see `training.KnownOptimum` and `ForecastOptimum`, for the metrics "bits",
            "held_out_bits" and "held_out_mse".
        metric: Name of the metric. Values named `"val_" + metric` are drawn as a
            second curve.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If the metric is not in the history.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> figure = plot_history([{"bits": 4.0}, {"bits": 3.0}], {"bigrams": 3.5})
        >>> figure.axes[0].get_ylabel()
        'bits per character'
    """
    columns = drawing.columns(getattr(history, "history", history))
    known = dict.fromkeys(name.removeprefix("val_") for name in columns)
    metric = drawing.known("metric", metric, known)
    figure = drawing.figure(7, 4.2)
    axis = figure.subplots()
    curves = {"training": metric, "validation": f"val_{metric}"}
    for n, (label, name) in enumerate(curves.items()):
        if name not in columns:
            continue
        values = np.asarray(columns[name], "float64")
        epochs = np.arange(1, len(values) + 1)
        axis.plot(epochs, values, "os"[n] + "-", color=COLORS[n], label=label)
    baselines = dict(baselines or {})
    if "optimum" in columns and metric in BESIDE_OPTIMUM:
        baselines["optimum"] = columns["optimum"][-1]
    for n, (label, value) in enumerate(baselines.items()):
        color = COLORS[(n + 2) % len(COLORS)]
        axis.axhline(value, linestyle="--", color=color, label=f"{label}: {value:.3g}")
    axis.set_xlabel("epoch")
    drawing.number_ticks(axis.xaxis, range(len(epochs) + 1), at_most=10)
    axis.set_ylabel("bits per character" if metric == "bits" else words(metric))
    axis.grid(alpha=0.3)
    drawing.legend(figure, axis)
    axis.set_title("Training history" if title is None else title)
    return figure


def plot_race(
    results: Mapping[str, Mapping[str, Sequence[float] | np.ndarray]],
    title: str | None = None,
    *,
    chance: float | None = 0.5,
    optimum: float | None = None,
) -> "Figure":
    """Plots the accuracy of several models on several test sets.

    A bar shows the mean over seeds, and each point one seed.

    Args:
        results: Accuracies `results[model][test_set]`, a list with one value per seed.
        title: Title of the figure.
        chance: Accuracy of random guessing, drawn as a line; None for no line.
        optimum: Accuracy of the best possible model, drawn as a line, where known.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If `results` is empty.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> figure = plot_race({"elman": {"hard": [0.5, 0.7]}, "lstm": {"hard": [0.9]}})
        >>> [round(float(bar.get_height()), 3) for bar in figure.axes[0].patches]
        [0.6, 0.9]
    """
    tests = list(dict.fromkeys(test for scores in results.values() for test in scores))
    if not tests:
        raise ValueError(
            "results must have results[model][test_set] = [accuracy], but results is "
            "empty"
        )
    known = {"chance": chance, "best possible": optimum}
    lines = {name: value for name, value in known.items() if value is not None}
    bar = 0.8 / max(len(results), 2)
    figure = drawing.figure(max(5, 1.6 + 0.6 * len(results) * len(tests)), 4.4)
    axis = figure.subplots()
    for n, (model, scores) in enumerate(results.items()):
        middle = (n - (len(results) - 1) / 2) * bar
        color = COLORS[n % len(COLORS)]
        for place, test in enumerate(tests):
            seeds = np.atleast_1d(np.asarray(scores.get(test, []), "float64"))
            if not len(seeds):
                continue
            x, mean = place + middle, float(seeds.mean())
            label = None if model in axis.get_legend_handles_labels()[1] else model
            axis.bar(x, mean, bar * 0.92, color=color, alpha=0.75, label=label)
            across = x + bar * 0.2 * np.linspace(-1, 1, len(seeds) + 2)[1:-1]
            axis.plot(across, seeds, "o", color="white", markeredgecolor="k", ms=4)
            y = max(mean, seeds.max()) + 0.035
            for value in lines.values():  # keep the label off the lines
                if y - 0.01 < value < y + LABEL_HEIGHT:
                    y = max(y, value + 0.02)
            axis.text(x, y, f"{mean:.2f}", ha="center", fontsize=8)
    for (name, value), style in zip(lines.items(), (":", "--"), strict=False):
        label = f"{name}: {value:.3g}"
        axis.axhline(value, color="k", linestyle=style, label=label)
    axis.set_xticks(range(len(tests)), [words(test) for test in tests])
    axis.set_xlim(-0.55, len(tests) - 0.45)
    axis.set(ylim=(0, 1.1), yticks=np.linspace(0, 1, 6), ylabel="accuracy, 0 to 1")
    axis.set_axisbelow(True)
    axis.grid(axis="y", alpha=0.3)
    drawing.legend(figure, axis)
    axis.set_title("Mean accuracy; each point is a seed" if title is None else title)
    return figure

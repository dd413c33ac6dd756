"""Which expert of a mixture reads which token, and how busy each of them is."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kerasseq.core.checks import nearest
from kerasseq.tracing import drawing

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.figure import Figure

RECORDED = ("chosen", "gates", "load")  # what `MixtureOfExperts` records
ROW_HEIGHT, LEAST_HEIGHT, MOST_HEIGHT = 0.26, 1.7, 7.5  # inches
LOAD_WIDTH = 2.3  # inches
ALL_NUMBERED = 24  # experts up to which each has its number beside it
UNREAD = "#ececec"


def plot_experts(
    trace: Mapping[str, Any],
    layer: str | None = None,
    tokens: str | Sequence[object] | None = None,
    title: str | None = None,
    *,
    example: int = 0,
) -> "Figure":
    """Plots which expert reads which token, with the gate, and the load of each expert.

    A cell is gray where the expert does not read the token. Padding has gray cells
    alone, as a token that is beyond the capacity of its experts in training.

    Args:
        trace: A `Trace`, or a mapping from paths to arrays, with the values of a
            `MixtureOfExperts`: `chosen` and `gates` `(B, T, k)`, and `load` `(E,)`. If
            the layer was called more than once, the first call is plotted.
        layer: Path of the layer, or the beginning of it. Defaults to the first one.
        tokens: The input: a string, or a list with one entry per step.
        title: Title of the figure. Defaults to the path of the layer.
        example: Index of the sequence in the batch. The load is that of the batch.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no such layer, or the number of tokens is not that of
            steps.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> trace = {
        ...     "experts/chosen": np.array([[[0], [2]]]),
        ...     "experts/gates": np.array([[[0.9], [0.5]]]),
        ...     "experts/load": np.array([0.5, 0.0, 0.5]),
        ... }
        >>> figure = plot_experts(trace, tokens="ab")
        >>> [axis.get_xlabel() for axis in figure.axes[:2]]
        ['input, in reading order', 'share of the choices']
    """
    path, values = _layer(trace, layer)
    load = values["load"]
    if not -len(values["gates"]) <= example < len(values["gates"]):
        raise ValueError(
            f"example={example} is not in the batch, which has {len(values['gates'])} "
            "sequences"
        )
    read = gates_of_experts(
        values["chosen"][example], values["gates"][example], len(load)
    )
    E, T = read.shape
    drawing.check_tokens(tokens, T)
    width = drawing.width_for(T, tokens)
    height = min(max(ROW_HEIGHT * E, LEAST_HEIGHT), MOST_HEIGHT)
    figure = drawing.figure(width + LOAD_WIDTH + 1.3, height + 1.3)
    left, right = figure.subplots(1, 2, width_ratios=(width, LOAD_WIDTH), sharey=True)
    colors = drawing.color_map("viridis_r", missing=UNREAD)
    image = left.imshow(
        read, cmap=colors, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    left.set_ylabel("expert")
    drawing.number_ticks(left.yaxis, range(E), E if E <= ALL_NUMBERED else 17)
    drawing.label_time(left, tokens, T, width)
    left.set_title("gate of the experts that read a token", fontsize="medium")
    _draw_load(right, load)
    bar = figure.colorbar(image, ax=right, pad=0.02, aspect=25)
    bar.set_label("gate, from 0 to 1")
    figure.suptitle(path if title is None else title, parse_math=title is not None)
    return figure


def _draw_load(axis, load):
    """Draws a bar for each expert, and a line where all are equally busy."""
    E = len(load)
    axis.barh(range(E), load, height=0.75, color=drawing.COLORS[0])
    axis.axvline(1 / E, color="k", linestyle=":")
    axis.set_xlim(0, max(1.05 * float(load.max()), 1.5 / E))
    axis.set_ylim(E - 0.5, -0.5)
    axis.tick_params("y", length=0)
    axis.set_xlabel("share of the choices")
    axis.set_title(f"load; dotted: 1/{E}", fontsize="medium")
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)


def gates_of_experts(
    chosen: np.ndarray, gates: np.ndarray, num_experts: int
) -> np.ndarray:
    """Returns the gate of each expert for each token, NaN where it does not read it.

    Args:
        chosen: Experts of the tokens `(T, k)`; E for none.
        gates: Their gates `(T, k)`.
        num_experts: E.

    Returns:
        `(E, T)`.

    Examples:
        >>> gates_of_experts(np.array([[1], [2]]), np.array([[0.25], [0.5]]), 2)
        array([[ nan,  nan],
               [0.25,  nan]])
    """
    read = np.full((num_experts + 1, len(chosen)), np.nan)
    read[chosen.T, np.arange(len(chosen))] = gates.T
    return read[:num_experts]


def expert_layers(trace: Mapping[str, Any]) -> list[str]:
    """Returns the paths of the mixtures of experts in a trace.

    Examples:
        >>> expert_layers({"a/chosen": 0, "a/gates": 0, "a/load": 0, "b/load": 0})
        ['a']
    """
    names: dict[str, set[str]] = {}
    for key in trace:
        path, name = drawing.split(key)
        names.setdefault(path, set()).add(name)
    return [path for path, recorded in names.items() if recorded.issuperset(RECORDED)]


def _layer(trace, layer):
    """Returns the path of a mixture of experts, and what it recorded."""
    paths = expert_layers(trace)
    if not paths:
        raise ValueError(
            "trace must have chosen, gates and load of a MixtureOfExperts, received "
            "none. Call a model with one inside the trace"
        )
    path = paths[0]
    if layer is not None:
        path = next((each for each in paths if each.startswith(layer)), None)
    if path is None:
        raise ValueError(
            f'layer="{layer}" is not in the trace.{nearest(layer, paths)} There is: '
            + ", ".join(paths)
        )
    values = {}
    for name in RECORDED:
        value = trace[f"{path}/{name}" if path else name]
        values[name] = np.asarray(value[0] if isinstance(value, list) else value)
    if values["gates"].ndim != 3:
        raise ValueError(
            "gates of the experts must be (batch, time, k), received the shape "
            f"{values['gates'].shape}. Call the layer with a sequence"
        )
    return path, values

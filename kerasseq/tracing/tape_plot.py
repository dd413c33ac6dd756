"""The picture of a neural Turing machine: what its heads write and read over time."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kerasseq.core import checks
from kerasseq.tracing import drawing

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.figure import Figure

PANELS = {  # labels by name
    "write_weights": "writes to\n(place)",
    "add": "adds\n(column)",
    "read_weights": "reads from\n(place)",
    "read": "has read\n(column)",
}
SHARES = {"write_weights", "read_weights"}
LEAST, MOST, UNIT = 0.7, 1.9, 0.06  # inches of a panel, and of a unit of it
TAPE = 2.2  # inches of the tape


def plot_tape(
    trace: Mapping[str, Any],
    layer: str | None = None,
    tokens: str | Sequence[object] | None = None,
    title: str | None = None,
    *,
    places: int | None = None,
    example: int = 0,
) -> "Figure":
    r"""Plots where a `NTMCell` writes and reads over time, and what.

    A machine that copies writes along a diagonal of its places, and reads along the
    same one later. Beside the heads stands the tape after the last step.

    Args:
        trace: A `Trace`, or a mapping from paths to arrays with the values of a
            `NTMCell`. If it was called more than once, the first call is plotted.
        layer: Path of the layer. Defaults to the first one with a tape.
        tokens: The input: a string, or a list with one entry per step.
        title: Title of the figure. Defaults to the path of the layer.
        places: The number of first places to draw. Defaults to all.
        example: Index of the sequence in the batch.

    Returns:
        A matplotlib `Figure`.

    Raises:
        TypeError: If `places` is not a whole number.
        ValueError: If no layer of the trace has a tape, or the number of tokens is not
            that of steps.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> import kerasseq
        >>> layer = kerasseq.layers.RNN(kerasseq.layers.NTMCell(5, 7, 3))
        >>> with kerasseq.tracing.trace(layer) as inside:
        ...     _ = layer(np.ones((1, 4, 2)))
        >>> [axes.get_ylabel() for axes in plot_tape(inside).axes[:2]]
        ['writes to\n(place)', 'adds\n(column)']

    References:
        Graves, Wayne and Danihelka, "Neural Turing Machines", 2014, figure 6.
    """
    path, values = _of_layer(trace, layer)
    drawing.one_sequence(values["read"], example, None)  # checks the example
    if places is not None:
        places = checks.whole_number("places", places)
        values |= {name: values[name][..., :places] for name in SHARES}
        values["tape"] = values["tape"][..., :places, :]
    panels = [
        (name, part) for name in PANELS for part in _parts(name, values[name][example])
    ]
    tape = values["tape"][example][-1]
    length = len(panels[0][1])
    drawing.check_tokens(tokens, length)

    width = drawing.width_for(length, tokens)
    heights = [min(max(UNIT * part.shape[1], LEAST), MOST) for _, part in panels]
    figure = drawing.figure(width + TAPE + 1.6, sum(heights) + 1.3)
    sides = figure.subfigures(1, 2, width_ratios=[width + 1, TAPE])
    axes = sides[0].subplots(
        len(panels), 1, sharex=True, squeeze=False, height_ratios=heights
    )[:, 0]
    for axis, (name, part) in zip(axes, panels, strict=True):
        _draw(sides[0], axis, part, PANELS[name], is_share=name in SHARES)
    drawing.label_time(axes[-1], tokens, length, width)
    axis = sides[1].subplots()
    _draw(sides[1], axis, tape.T, "place", is_share=False)  # a row is a place
    axis.set_xlabel("column")
    axis.set_title("tape after the last step", fontsize="medium")
    figure.suptitle(path if title is None else title, parse_math=title is not None)
    return figure


def _of_layer(trace, layer):
    """Returns the path of a layer with a tape, and its values by name."""
    first = {k: v[0] if isinstance(v, list) else v for k, v in trace.items()}
    paths = [drawing.split(key)[0] for key in first if drawing.split(key)[1] == "tape"]
    if not paths or layer not in (None, *paths):
        there = f" There is: {', '.join(paths)}" if paths else ""
        raise ValueError(
            f"layer must be one with a NTMCell, which is in the trace, received "
            f"{layer!r}.{checks.nearest(layer, paths)}{there}"
        )
    path = paths[0] if layer is None else layer
    names = (*PANELS, "tape")
    prefix = f"{path}/" if path else ""
    return path, {n: np.asarray(first[prefix + n], "float32") for n in names}


def _parts(name, values):
    """Splits the weights of several heads, each `(time, places)`."""
    if values.ndim == 2:
        return [values]
    if name in SHARES:
        return [values[:, head] for head in range(values.shape[1])]
    return [values.reshape(len(values), -1)]


def _draw(figure, axis, values, label, is_share):
    """Draws `(time, units)` as a heat map."""
    limit = float(np.abs(values).max()) or 1.0
    low, high, colors = (0, 1, "viridis") if is_share else (-limit, limit, "RdBu_r")
    image = axis.imshow(
        values.T,
        aspect="auto",
        interpolation="nearest",
        vmin=low,
        vmax=high,
        cmap=colors,
    )
    axis.set_ylabel(label)
    axis.tick_params(axis="x", length=0)
    figure.colorbar(image, ax=axis, aspect=8, pad=0.01)

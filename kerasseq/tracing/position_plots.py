"""What layers say of positions, side by side."""

import numpy as np

from kerasseq.tracing import drawing
from kerasseq.tracing.criteria import position_code, position_relation, with_weights


def plot_positions(layers, length=64, width=16, title=None):
    """Draw the code of each position, and the relation of each two.

    On the left the numbers of a code are rows and positions columns. On the right
    stands, for a code, the distance of two codes, and for a bias that of the first
    head: where stripes run from corner to corner, the relation depends on the distance
    of the positions alone.

    Args:
        layers: Layers of positions by name. Those without weights stay so.
        length: How many positions.
        width: How wide the codes are.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is no layer, or one gives no code of this size.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> from kerasseq.layers import SinePositionEncoding
        >>> figure = plot_positions({"sine": SinePositionEncoding()}, length=8)
        >>> figure.axes[0].get_ylabel()
        'sine'
    """
    if not layers:
        raise ValueError('layers is empty: give layers by name, as {"sine": layer}')
    figure = drawing.figure(9, 0.8 + 1.9 * len(layers))
    ratios = {"width_ratios": [2.6, 1]}
    rows = figure.subplots(len(layers), 2, squeeze=False, gridspec_kw=ratios)
    for (left, right), (name, layer) in zip(rows, layers.items(), strict=True):
        layer = with_weights(layer)
        _left(figure, left, layer, length, width)
        _right(figure, right, layer, length, width)
        left.set_ylabel(name)
    for axis, what in zip(rows[0], ("code of each position", "relation"), strict=True):
        axis.set_title(what)
    for axis in rows[-1]:
        axis.set_xlabel("position")
    figure.suptitle("Where does a token stand?" if title is None else title)
    return figure


def _left(figure, axis, layer, length, width):
    """The code, which for a bias is that of all places, seen from each."""
    if hasattr(layer, "bias"):
        code = position_relation(layer, length, width)[..., 0].T
    else:
        code = position_code(layer, length, width).T
    _image(figure, axis, code)
    axis.set_yticks([])


def _right(figure, axis, layer, length, width):
    _image(figure, axis, position_relation(layer, length, width)[..., 0], aspect=1)
    axis.set_yticks([])


def _image(figure, axis, values, aspect="auto"):
    highest = float(np.abs(values).max()) or 1.0
    if values.min() < 0:
        scale = {"vmin": -highest, "vmax": highest, "cmap": "RdBu_r"}
    else:
        scale = {"vmin": 0, "vmax": highest, "cmap": "viridis"}
    image = axis.imshow(values, aspect=aspect, interpolation="nearest", **scale)
    figure.colorbar(image, ax=axis, pad=0.02)

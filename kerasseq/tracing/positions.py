r"""Five criteria for position encodings, measured and plotted.

Slides A require that an encoding be unique, that the relation of two positions depend
only on their distance, that it extend to any length and any width, and that it be
deterministic. `position_criteria` measures each of these for a layer that adds an
encoding to the tokens, rotates queries and keys, or adds a bias to attention scores;
`plot_positions` draws encodings beside each other.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.tracing import drawing

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_DISTANCE = 1e-3  # encodings that are closer count as equal
MAX_VARIATION = 1e-3  # a relation that varies less counts as constant
WIDTHS = (2, 3, 5, 8, 32)  # tried for the criterion "width"
LENGTH_FACTOR = 16  # the criterion "length" is tried up to this multiple
NUM_HEADS = 4  # of a bias that is not built yet
HEAD_DIM = 4  # of its queries, if the bias depends on them


class Criterion(NamedTuple):
    """The result for one criterion.

    Attributes:
        holds: Whether the encoding meets the criterion.
        value: The measured value.
    """

    holds: bool
    value: float | int | tuple[int, ...]


def position_criteria(
    layer: keras.layers.Layer, length: int = 64, width: int = 16
) -> dict[str, Criterion]:
    """Measures five criteria of a position encoding.

    - "unique": all encodings differ. The value is the smallest distance of two.
    - "relation": the relation of two positions depends only on their distance. The
      value is its largest variation, relative to the largest relation.
    - "length": longer sequences have unique encodings, too. The value is the longest
      sequence, of those up to 16 times `length`, for which this is the case.
    - "width": any width works. The value is a tuple of the widths, of five that are
      tried, at which there is no encoding, two positions have the same, or a feature
      is constant or repeats another one.
    - "deterministic": two new layers have the same encodings. The value is the largest
      difference.

    Args:
        layer: A layer of positions, such as `SinePositionEncoding`, `RotaryEmbedding`
            or `AlibiBias`. A layer that is not built yet is not built by this.
        length: Number of positions to compare.
        width: Width of the encoding.

    Returns:
        A `Criterion` by name.

    Raises:
        TypeError: If `layer` is not a layer.
        ValueError: If it has no encoding of this length and width.

    Examples:
        >>> from kerasseq.layers import BinaryPosition
        >>> criteria = position_criteria(BinaryPosition(), length=16, width=8)
        >>> [name for name, criterion in criteria.items() if criterion.holds]
        ['unique', 'length', 'deterministic']
    """
    layer = _built_or_new(layer)
    distance = _smallest_distance(position_code(layer, length, width))
    variation = _variation(position_relation(layer, length, width))
    longest = _longest(layer, length, width)
    failing = tuple(w for w in WIDTHS if not _is_informative(_new(layer), length, w))
    two = (position_code(_new(layer), length, width) for _ in range(2))
    difference = float(np.abs(np.subtract(*two)).max())
    return {
        "unique": Criterion(distance > MIN_DISTANCE, distance),
        "relation": Criterion(variation < MAX_VARIATION, variation),
        "length": Criterion(longest == LENGTH_FACTOR * length, longest),
        "width": Criterion(not failing, failing),
        "deterministic": Criterion(difference == 0, difference),
    }


def position_code(layer: keras.Layer, length: int, width: int = 16) -> np.ndarray:
    """Computes the encoding of each position.

    For a layer that adds an encoding, this is what it adds; for one that rotates, a
    rotated vector of ones; for a bias, its values for all key positions.

    Args:
        layer: A layer of positions, which is built if it is not.
        length: Number of positions.
        width: Width of the encoding.

    Returns:
        Array `(length, features)`.

    Raises:
        TypeError: If `layer` is not a layer.
        ValueError: If it has no encoding of this length and width.

    Examples:
        >>> from kerasseq.layers import AmplitudePosition
        >>> position_code(AmplitudePosition(), length=3, width=2).tolist()
        [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    """
    _check_layer(layer)
    positions = ops.arange(length, dtype="int32")[None]
    if _has_bias(layer):
        return _bias(layer, positions).reshape(length, -1)
    ones = ops.ones((1, length, width))
    if hasattr(layer, "rotate"):
        code = layer.rotate(ones, positions)
    else:
        code = layer(0 * ones)
    if ops.shape(code) != (1, length, width):
        raise ValueError(
            f"layer must be a layer of positions, whose output has the shape of its "
            f"inputs, (1, {length}, {width}). Received {type(layer).__name__} with "
            f"output shape {ops.shape(code)}"
        )
    return ops.convert_to_numpy(ops.cast(code, "float32"))[0].astype("float64")


def position_relation(layer: keras.Layer, length: int, width: int = 16) -> np.ndarray:
    """Computes the relation of each pair of positions.

    Args:
        layer: A layer of positions, which is built if it is not.
        length: Number of positions.
        width: Width of the encoding.

    Returns:
        Array `(length, length, relations)`: the distance of the two encodings, or the
        bias of each head.

    Raises:
        TypeError: If `layer` is not a layer.
        ValueError: If it has no encoding of this length and width.

    Examples:
        >>> from kerasseq.layers import AmplitudePosition
        >>> position_relation(AmplitudePosition(), length=3, width=1)[..., 0].tolist()
        [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    _check_layer(layer)
    if _has_bias(layer):
        return _bias(layer, ops.arange(length, dtype="int32")[None])
    return _distances(position_code(layer, length, width))[..., None]


def _built_or_new(layer: keras.Layer) -> keras.Layer:
    """Returns a built layer itself, and otherwise a copy that may be built."""
    _check_layer(layer)
    return layer if layer.built else _new(layer)


def _check_layer(layer: object) -> None:
    if not isinstance(layer, keras.layers.Layer):
        raise TypeError(f"layer must be a layer of positions, received {layer!r}")
    if getattr(layer, "needs_contents", False):
        raise ValueError(
            f"layer must encode positions by themselves, received a "
            f"{type(layer).__name__}, which compares them with contents. Trace the "
            "scores of an attention that has it"
        )


def _new(layer: keras.Layer) -> keras.Layer:
    """Returns a layer with the same arguments that is not built."""
    return type(layer).from_config(layer.get_config())


def _has_bias(layer: keras.Layer) -> bool:
    """Returns whether it is an `AttentionPosition` with a bias."""
    return getattr(layer, "has_bias", False)


def _bias(layer: keras.Layer, positions: Tensor) -> np.ndarray:
    """Returns the bias `(T, S, N)`."""
    layer.build_for(NUM_HEADS, HEAD_DIM)
    b = layer.bias(positions, positions)
    b = ops.convert_to_numpy(ops.cast(b, "float32"))[0]
    return np.moveaxis(b, 0, -1).astype("float64")


def _distances(code: np.ndarray) -> np.ndarray:
    squares = np.sum(code**2, -1)
    between = squares[:, None] + squares[None] - 2 * code @ code.T
    return np.sqrt(np.maximum(between, 0))


def _smallest_distance(code: np.ndarray) -> float:
    distances = _distances(code)
    return float(distances[~np.eye(len(code), dtype=bool)].min())


def _variation(relation: np.ndarray) -> float:
    """Returns the largest variation along a diagonal, relative to the maximum."""
    length, largest = len(relation), np.abs(relation).max()
    diagonals = (np.diagonal(relation, k) for k in range(1 - length, length))
    return float(max(np.ptp(d, axis=-1).max() for d in diagonals) / largest)


def _longest(layer: keras.Layer, length: int, width: int) -> int:
    """Returns the longest length with unique encodings, halving from the maximum."""
    tried = LENGTH_FACTOR * length
    while tried >= length:
        try:
            if _smallest_distance(position_code(layer, tried, width)) > MIN_DISTANCE:
                return tried
        except ValueError:  # the layer has fewer positions
            pass
        tried //= 2
    return 0


def _is_informative(layer: keras.Layer, length: int, width: int) -> bool:
    """Returns whether encodings of a width are unique, no feature constant or twice."""
    if _has_bias(layer):
        return True  # a bias has no width
    try:
        code = position_code(layer, length, width)
    except ValueError:
        return False
    columns = (code - code[0]).T.round(6) + 0.0
    distinct = {tuple(column) for column in columns if np.any(column)}
    return len(distinct) == width and _smallest_distance(code) > MIN_DISTANCE


def plot_positions(
    layers: Mapping[str, keras.Layer],
    length: int = 64,
    width: int = 16,
    title: str | None = None,
) -> "Figure":
    """Plots the encoding of each position, and the relation of each pair.

    The left panel of a layer has a column for each position and a row for each feature
    of its encoding. The right panel shows the distance of each pair of encodings, or
    the bias of the first head. Stripes along the diagonal mean that the relation
    depends only on the distance of the positions.

    Args:
        layers: Layers of positions by name. Layers that are not built stay unbuilt.
        length: Number of positions.
        width: Width of the encodings.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If `layers` is empty, or a layer has no encoding of this size.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> from kerasseq.layers import SinePositionEncoding
        >>> figure = plot_positions({"sine": SinePositionEncoding()}, length=8)
        >>> figure.axes[0].get_ylabel()
        'sine'
    """
    if not layers:
        raise ValueError(
            'layers must have at least one layer by name, such as {"sine": layer}, '
            "but layers is empty"
        )
    figure = drawing.figure(9, 0.8 + 1.9 * len(layers))
    ratios = {"width_ratios": [2.6, 1]}
    rows = figure.subplots(len(layers), 2, squeeze=False, gridspec_kw=ratios)
    for (left, right), (name, layer) in zip(rows, layers.items(), strict=True):
        layer = _built_or_new(layer)
        relation = position_relation(layer, length, width)[..., 0]
        code = relation if _has_bias(layer) else position_code(layer, length, width)
        _image(figure, left, code.T)
        _image(figure, right, relation, aspect=1)
        left.set_ylabel(name)
    rows[0, 0].set_title("encoding of each position")
    rows[0, 1].set_title("relation")
    for axis in rows[-1]:
        axis.set_xlabel("position")
    figure.suptitle("Position encodings" if title is None else title)
    return figure


def _image(
    figure: "Figure", axis: "Axes", values: np.ndarray, aspect: str | float = "auto"
) -> None:
    highest = float(np.abs(values).max()) or 1.0
    if values.min() < 0:
        scale = {"vmin": -highest, "vmax": highest, "cmap": "RdBu_r"}
    else:
        scale = {"vmin": 0, "vmax": highest, "cmap": "viridis"}
    image = axis.imshow(values, aspect=aspect, interpolation="nearest", **scale)
    axis.set_yticks([])
    figure.colorbar(image, ax=axis, pad=0.02)

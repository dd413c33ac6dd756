r"""What a code of positions should be: the five criteria of the course, measured.

Slides A ask that a code be unique, that the relation of two positions be simple, that
any length and any width will do, and that it be deterministic. Here each is a number,
for whatever says where a token stands: a layer whose code is added to the tokens, one
that turns queries and keys, one that biases scores.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops

APART = 1e-3  # codes that are nearer are taken for one
SAME = 1e-3  # a relation that varies less is the same everywhere
WIDTHS = (2, 3, 5, 8, 32)  # that are tried
LENGTHS = 16  # times the length: so far it is tried
HEADS = 4  # of scores, where a bias has none yet
WIDTH = 4  # of its queries, where they have a say in it


class Criterion(NamedTuple):
    """What was found.

    Attributes:
        holds: Whether the code is as it should be.
        value: What was measured.
    """

    holds: bool
    value: float | int | tuple


def position_criteria(layer, length=64, width=16):
    """Measure the five criteria.

    Args:
        layer: A layer of positions, such as `SinePositionEncoding`, `RotaryEmbedding`
            or `AlibiBias`. One without weights yet stays so.
        length: How many positions are compared.
        width: How wide the code is.

    Returns:
        A `Criterion` by name. "unique": the distance of the nearest two codes.
        "relation": how much the relation of two positions varies between places,
        where 1 is as much as the largest relation. "length": the longest sequence
        with codes all different, of those up to 16 times the length. "width": the
        widths, of five that are tried, at which there is no code, or not a unique
        one, or some numbers of it tell nothing. "deterministic": how much the codes of
        two new layers differ.

    Raises:
        TypeError: If it is no layer.
        ValueError: If it gives no code, or not of this length and width.

    Examples:
        >>> from kerasseq.layers import BinaryPosition
        >>> found = position_criteria(BinaryPosition(), length=16, width=8)
        >>> [name for name, criterion in found.items() if criterion.holds]
        ['unique', 'length', 'deterministic']
    """
    layer = with_weights(layer)
    nearest = _nearest(position_code(layer, length, width))
    varies = _variation(position_relation(layer, length, width))
    longest = _longest(layer, length, width)
    narrow = tuple(w for w in WIDTHS if not _fits(_new(layer), length, w))
    again = (position_code(_new(layer), length, width) for _ in range(2))
    difference = float(np.abs(np.subtract(*again)).max())
    return {
        "unique": Criterion(nearest > APART, nearest),
        "relation": Criterion(varies < SAME, varies),
        "length": Criterion(longest == LENGTHS * length, longest),
        "width": Criterion(not narrow, narrow),
        "deterministic": Criterion(difference == 0, difference),
    }


def position_code(layer, length, width=16):
    """What stands for each position, as an array `(length, numbers)`.

    That is the code which is added; what becomes of a vector of ones when it is turned;
    or the bias of all places, seen from the position.

    Examples:
        >>> from kerasseq.layers import AmplitudePosition
        >>> position_code(AmplitudePosition(), length=3, width=2).tolist()
        [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    """
    at = ops.arange(length, dtype="int32")[None]
    if hasattr(layer, "bias"):
        return _bias(layer, at).reshape(length, -1)
    ones = ops.ones((1, length, width))
    code = layer.rotate(ones, at) if hasattr(layer, "rotate") else layer(0 * ones)
    if ops.shape(code) != (1, length, width):
        raise ValueError(
            f"{type(layer).__name__} gives no code of the shape of its inputs, (1, "
            f"{length}, {width}), but {ops.shape(code)}: it is no layer of positions"
        )
    return ops.convert_to_numpy(ops.cast(code, "float32"))[0].astype("float64")


def position_relation(layer, length, width=16):
    """What there is between each two positions, `(length, length, relations)`.

    The distance of their codes, or the bias of each head.
    """
    if hasattr(layer, "bias"):
        return _bias(layer, ops.arange(length, dtype="int32")[None])
    return _distances(position_code(layer, length, width))[..., None]


def with_weights(layer):
    """The layer, or one like it if it has no weights yet: then it stays without."""
    if not isinstance(layer, keras.layers.Layer):
        raise TypeError(f"layer must be a layer of positions, got {layer!r}")
    return layer if layer.built else _new(layer)


def _bias(layer, at):
    """The bias `(T, S, N)`."""
    if not layer.built:
        by_queries = hasattr(layer, "content")
        heads = (None, None, HEADS, WIDTH) if by_queries else (None, HEADS, None, None)
        layer.build(heads)
    b = ops.convert_to_numpy(ops.cast(layer.bias(at, at), "float32"))[0]
    return np.moveaxis(b, 0, -1).astype("float64")


def _distances(code):
    squares = np.sum(code**2, -1)
    between = squares[:, None] + squares[None] - 2 * code @ code.T
    return np.sqrt(np.maximum(between, 0))


def _nearest(code):
    """The distance of the nearest two."""
    distances = _distances(code)
    return float(distances[~np.eye(len(code), dtype=bool)].min())


def _variation(relation):
    """By how much what is k places apart differs, at worst."""
    length, largest = len(relation), np.abs(relation).max()
    diagonals = (np.diagonal(relation, k) for k in range(1 - length, length))
    return float(max(np.ptp(d, axis=-1).max() for d in diagonals) / largest)


def _longest(layer, length, width):
    """The longest sequence that works, of those half as long as the one before."""
    tried = LENGTHS * length
    while tried >= length:
        try:
            if _nearest(position_code(layer, tried, width)) > APART:
                return tried
        except ValueError:  # the layer says that this is too long
            pass
        tried //= 2
    return 0


def _fits(layer, length, width):
    """Whether a width gives unique codes, and each number of them is of use."""
    if hasattr(layer, "bias"):
        return True  # a bias has no width
    try:
        code = position_code(layer, length, width)
    except ValueError:
        return False
    columns = (code - code[0]).T.round(6) + 0.0
    told = {tuple(column) for column in columns if np.any(column)}
    return len(told) == width and _nearest(code) > APART


def _new(layer):
    """One of the same arguments, without weights."""
    return type(layer).from_config(layer.get_config())

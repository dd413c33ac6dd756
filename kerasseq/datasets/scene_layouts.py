"""Which shapes a scene has, and where: drawn, with some combinations held out.

A combination is a color, a shape and a place; in a film a color, a shape and a motion;
for two shapes both of them and their relation, with which "A left of B" and "B right of
A" are one combination.
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np

COLORS = ("red", "green", "blue", "yellow", "purple", "white")
SHAPES = ("square", "circle", "triangle", "cross")
SIZES = ("small", "medium", "large")
PLACES = (
    *("top left", "top", "top right"),
    *("left", "center", "right"),
    *("bottom left", "bottom", "bottom right"),
)
RELATIONS = ("left of", "above", "right of", "below")  # each two after its inverse
MOTIONS = ("left", "right", "up", "down", "still")
LAYOUTS = {"places": PLACES, "relations": RELATIONS, "motions": MOTIONS}
DRAWS = 6  # random numbers that place the shapes of a scene


class Layout(NamedTuple):
    """The shapes of scenes, as indices and pixels.

    Attributes:
        colors: Indices of `COLORS`, `(count, objects)`.
        shapes: Indices of `SHAPES`, `(count, objects)`.
        sizes: Indices of `SIZES`, `(count, objects)`.
        layouts: Indices of the places, relations or motions, `(count,)`.
        radii: Half the width of each shape without its middle, `(count, objects)`.
        centers: Column and row of the middle, `(count, frames, objects, 2)`.
    """

    colors: np.ndarray
    shapes: np.ndarray
    sizes: np.ndarray
    layouts: np.ndarray
    radii: np.ndarray
    centers: np.ndarray


def draw(kind: str, draws: np.ndarray, rows: np.ndarray, size: int, frames: int):
    """Draws the shapes of scenes.

    Args:
        kind: "places", "relations" or "motions".
        draws: Uniform random numbers from 0 to 1, `(count, DRAWS)`.
        rows: The combinations, some of `combinations(kind)`.
        size: Height and width in pixels.
        frames: Number of frames.

    Returns:
        A `Layout`.
    """
    drawn = rows[_integers(draws[:, 0], 0, len(rows) - 1)]
    return _DRAWN[kind](drawn, draws[:, 1:], size, frames)


@functools.cache
def combinations(kind: str) -> np.ndarray:
    """Returns all combinations: the layout, then color and shape of each shape."""
    looks = list(itertools.product(range(len(COLORS)), range(len(SHAPES))))
    if kind != "relations":
        layouts = range(len(LAYOUTS[kind]))
        return np.array([(layout, *look) for layout in layouts for look in looks])
    pairs = list(itertools.permutations(looks, 2))  # never two equal ones
    return np.array([(layout, *a, *b) for layout in range(2) for a, b in pairs])


def divide(kind: str, held_out: float) -> tuple[np.ndarray, np.ndarray]:
    """Divides the combinations in those that are shown and those held out.

    Which ones are held out depends on their share alone. Each layout has as many. Of
    opposite motions the same colors and shapes are held out: otherwise these would tell
    the motion, and with it which half of a film came first.

    Args:
        kind: "places", "relations" or "motions".
        held_out: Share of the combinations.

    Examples:
        >>> shown, hidden = divide("motions", 0.25)
        >>> len(shown), len(hidden), np.bincount(hidden[:, 0]).tolist()
        (90, 30, [6, 6, 6, 6, 6])
    """
    rows, rng = combinations(kind), np.random.default_rng(0)
    of_layout = np.split(rows, rows[:, 0].max() + 1)
    count = round(held_out * len(of_layout[0]))
    orders = [rng.permutation(len(group)) for group in of_layout]
    if kind == "motions":
        orders[1], orders[3] = orders[0], orders[2]
    mixed = [group[order] for group, order in zip(of_layout, orders, strict=True)]
    shown = np.concatenate([group[count:] for group in mixed])
    return shown, np.concatenate([group[:count] for group in mixed])


def _integers(draws: np.ndarray, low, high) -> np.ndarray:
    """Returns whole numbers from `low` to `high`, both included."""
    low, high = np.asarray(low), np.asarray(high)
    return low + np.floor(draws * (high - low + 1)).astype("int64")


def _placed(drawn: np.ndarray, draws: np.ndarray, size: int, frames: int) -> Layout:
    """Returns one small or large shape near one of nine places."""
    large, small, jitter = round(size / 6), max(2, round(size / 12)), size // 24
    is_large = _integers(draws[:, 0], 0, 1)
    last = size - 1  # the bands of low, middle and high are mirrored
    lows = np.array([large, last // 2 - jitter, last - large - 2 * jitter])
    highs = np.array([large + 2 * jitter, size // 2 + jitter, last - large])
    row, column = np.divmod(drawn[:, 0], 3)
    x = _integers(draws[:, 1], lows[column], highs[column])
    y = _integers(draws[:, 2], lows[row], highs[row])
    return Layout(
        drawn[:, 1:2],
        drawn[:, 2:3],
        (2 * is_large)[:, None],
        drawn[:, 0],
        np.where(is_large, large, small)[:, None],
        np.stack([x, y], axis=-1)[:, None, None],
    )


def _related(drawn: np.ndarray, draws: np.ndarray, size: int, frames: int) -> Layout:
    """Places two shapes beside the middle, and side by side on the other axis."""
    radius = round(size / 8)
    last = size - 1 - radius
    most = min(4 * radius + 3, last - radius)
    distance = _integers(draws[:, 0], 2 * radius + 3, most)
    jitter = _integers(draws[:, 1], -(size // 24), size // 24)
    before = np.clip((size - 1 - distance) // 2 + jitter, radius, last - distance)
    across = _integers(draws[:, 2], size // 4, size - 1 - size // 4)
    shift = _integers(draws[:, 3], 1 - radius, radius - 1)  # the boxes still overlap
    along = np.stack([before, before + distance], axis=-1)
    across = np.stack([across, np.clip(across + shift, radius, last)], axis=-1)
    is_row = (drawn[:, 0] == 0)[:, None]  # "left of", otherwise "above"
    centers = np.stack(
        [np.where(is_row, along, across), np.where(is_row, across, along)], axis=-1
    )
    # Either shape can be named first: "A left of B" or "B right of A".
    exchanged = (draws[:, 4] < 0.5)[:, None]
    looks = np.where(exchanged, drawn[:, [3, 4, 1, 2]], drawn[:, 1:])
    return Layout(
        looks[:, 0::2],
        looks[:, 1::2],
        np.ones((len(drawn), 2), "int64"),
        drawn[:, 0] + 2 * exchanged[:, 0],
        np.full((len(drawn), 2), radius),
        np.where(exchanged[..., None], centers[:, ::-1], centers)[:, None],
    )


def _moving(drawn: np.ndarray, draws: np.ndarray, size: int, frames: int) -> Layout:
    """Returns one shape with constant speed, whose whole path lies in the picture."""
    radius = round(size / 8)
    slowest, fastest = speeds(size, frames)
    speed = _integers(draws[:, 0], slowest, fastest)
    ways = np.array([(-1, 0), (1, 0), (0, -1), (0, 1), (0, 0)])  # as `MOTIONS`
    step = ways[drawn[:, 0]] * speed[:, None]
    path = (frames - 1) * step
    # Starts of opposite motions are mirrored, as each path is as likely as its reverse.
    low = radius - np.minimum(path, 0)
    high = size - 1 - radius - np.maximum(path, 0)
    start = _integers(draws[:, 1:3], low, high)
    centers = start[:, None] + np.arange(frames)[:, None] * step[:, None]
    return Layout(
        drawn[:, 1:2],
        drawn[:, 2:3],
        np.ones((len(drawn), 1), "int64"),
        drawn[:, 0],
        np.full((len(drawn), 1), radius),
        centers[:, :, None],
    )


def speeds(size: int, frames: int) -> tuple[int, int]:
    """Returns the least and largest speed in pixels a frame; 0 if none is possible.

    Examples:
        >>> speeds(24, 4), speeds(24, 8), speeds(24, 19)
        ((2, 4), (2, 2), (0, 0))
    """
    fastest = min(size // 6, (size - 1 - 2 * round(size / 8)) // (frames - 1))
    return min(fastest, size // 12), fastest


_DRAWN = {"places": _placed, "relations": _related, "motions": _moving}

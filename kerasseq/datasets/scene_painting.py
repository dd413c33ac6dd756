"""Pictures of colored shapes."""

import numpy as np

from kerasseq.datasets.scene_layouts import Layout

RGB = np.array(  # in the order of `COLORS`
    [
        (255, 26, 26),
        (26, 204, 26),
        (38, 64, 255),
        (255, 242, 26),
        (166, 38, 191),
        (255, 255, 255),
    ],
    "float32",
)
CHUNK = 2**21  # numbers that are painted at once


def masks(shapes: np.ndarray, offsets: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Returns which pixels belong to shapes.

    Each shape touches the four sides of its box of `2 * radius + 1` pixels.

    Args:
        shapes: Indices of `SHAPES`, `(n,)`.
        offsets: Columns and rows of the pixels from the middle of each shape, from the
            left and from the top: `(n, width)` and `(n, height)`.
        radii: Half the widths of the shapes without their middle, `(n,)`.

    Returns:
        Boolean of shape `(n, height, width)`.

    Examples:
        >>> middle = np.arange(5)[None] - 2
        >>> cross = masks(np.array([3]), (middle, middle), np.array([2]))
        >>> cross[0].astype(int)
        array([[0, 0, 1, 0, 0],
               [0, 0, 1, 0, 0],
               [1, 1, 1, 1, 1],
               [0, 0, 1, 0, 0],
               [0, 0, 1, 0, 0]])
    """
    dx, dy = offsets[0][:, None, :], offsets[1][:, :, None]
    r = radii[:, None, None]
    box = (abs(dx) <= r) & (abs(dy) <= r)
    circle = dx**2 + dy**2 <= (r + 0.2) ** 2
    triangle = box & (abs(dx) <= (dy + r) / 2 + 0.3)
    cross = box & ((abs(dx) <= 0.3 * r) | (abs(dy) <= 0.3 * r))
    return np.choose(shapes[:, None, None], [box, circle, triangle, cross])


def paint(
    layout: Layout,
    size: int,
    lights: np.ndarray,
    noise: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Paints scenes.

    Args:
        layout: The shapes.
        size: Height and width in pixels.
        lights: Brightness of the background and of the shapes of each scene, from 0
            to 1, `(count, 2)`.
        noise: Standard deviation of the noise in each pixel, where white is 1.
        rng: The generator of the noise.

    Returns:
        uint8 of shape `(count, frames, size, size, 3)`.
    """
    count, frames = layout.centers.shape[:2]
    pictures = np.empty((count, frames, size, size, 3), "uint8")
    step = max(1, CHUNK // pictures[0].size)
    for start in range(0, count, step):
        rows = slice(start, start + step)
        part = Layout(*(values[rows] for values in layout))
        pictures[rows] = _painted(part, size, lights[rows], noise, rng)
    return pictures


def _painted(layout: Layout, size: int, lights, noise: float, rng) -> np.ndarray:
    count, frames, objects, _ = layout.centers.shape
    pixels = np.arange(size)
    light = lights.astype("float32").reshape(count, 2, 1, 1, 1, 1)
    picture = np.broadcast_to(255 * light[:, 0], (count, frames, size, size, 3))
    for k in range(objects):
        centers = layout.centers[:, :, k].reshape(-1, 2)  # (B * T, 2)
        offsets = tuple(pixels - centers[:, axis, None] for axis in (0, 1))
        shapes, radii = (
            np.repeat(v[:, k], frames) for v in (layout.shapes, layout.radii)
        )
        inside = masks(shapes, offsets, radii).reshape(count, frames, size, size, 1)
        color = RGB[layout.colors[:, k]].reshape(count, 1, 1, 1, 3) * light[:, 1]
        picture = np.where(inside, color, picture)
    if noise:
        normal = rng.standard_normal(picture.shape, dtype="float32")
        picture = picture + np.float32(255 * noise) * normal
    return np.clip(np.rint(picture), 0, 255).astype("uint8")

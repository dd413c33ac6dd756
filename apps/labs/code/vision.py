"""Drawings and pictures as images like the digits of scikit-learn; the code of the lab.

Those digits were scanned, cut out, scaled to 32 rows and about 20 columns of black or
white pixels, and the black ones in each block of 4 × 4 were counted: 8 × 8 numbers from
0 to 16. Each digit has all eight rows, stands in the middle, and its ink covers about
30 % of the pixels, so that a 1 has thick strokes. The same is done here.
"""

import io
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from parts.errors import Refused

SIZE, BLOCK, LEVELS = 8, 4, 16
FINE = SIZE * BLOCK
COVERED = 0.3  # of the pixels
WIDTH = 20  # fine pixels, at most
PEN = 0.5, 6.0  # the least and the largest radius
POINTS = 64  # along the longer side of a drawing
MOST_POINTS = 4000
MOST_PIXELS = 40_000_000  # of an uploaded image
FAINT = 24  # gray levels of 255; less contrast is no ink

_ROWS = "\n".join(f"        {{row_{n}}}," for n in range(SIZE))
IMAGE = f"""
import numpy as np

import kerasseq

model = kerasseq.load_model({{file}})
image = np.array(
    [
{_ROWS}
    ],
    "uint8",
)
found = model.classify(image)
print(found.label, round(found.probability, 3))

token = {{token}}  # 0 is the class token, then the patches row by row
with kerasseq.tracing.trace(model) as inside:
    model(image[None, :, :, None])
for name, weights in inside.items():
    if name.endswith("alignment"):  # (1, heads, tokens, tokens)
        print(name, weights[0, :, token].round(2))
rollout = kerasseq.tracing.attention_rollout(inside)
print(rollout[0, token, 1:].reshape(4, 4).round(2))
print(model.attribution(image[None], [{{label}}])[0].round(2))
"""

TEXT = """
import kerasseq

model = kerasseq.load_model({file})
found = model.classify({text})
print(found.label, round(found.probability, 3))
moved = kerasseq.tracing.attribution(model, {text}, {label})
for token, score in zip(moved.tokens, moved.scores):
    print(token, round(float(score), 3))
"""


# Images as in the data set


def image_of_strokes(strokes: Sequence[Any]) -> np.ndarray:
    """Returns a drawing as an image like those of the data set.

    The result does not depend on place, size and width of the drawing.

    Args:
        strokes: Arrays of points `(points, 2)`, x to the right and y downwards.

    Returns:
        uint8 of shape `(8, 8)`: 17 gray levels, 255 is ink.

    Raises:
        Refused: If nothing is drawn.

    Examples:
        >>> image_of_strokes([[(3, 1), (3, 5)]])[4].tolist()  # a 1
        [0, 0, 96, 255, 255, 96, 0, 0]
    """
    strokes = [np.asarray(s, "float64").reshape(-1, 2) for s in strokes if len(s)]
    if not strokes:
        raise Refused("nothing_drawn")
    size = np.ptp(np.concatenate(strokes), axis=0)
    steps = np.maximum(size, size.max() / 4) / POINTS  # a flat drawing is stretched
    points = np.concatenate([_along(stroke, steps) for stroke in strokes])
    return image_of_ink(points[:: -(-len(points) // MOST_POINTS)])


def _along(stroke, steps):
    """Points along a stroke, at most `steps` apart in x and y together."""
    lengths = np.hypot(*(np.diff(stroke, axis=0) / np.where(steps > 0, steps, 1)).T)
    at = np.concatenate([[0.0], np.cumsum(lengths)])
    fine = np.linspace(0, at[-1], int(np.ceil(at[-1])) + 1)
    return np.stack([np.interp(fine, at, axis) for axis in stroke.T], axis=1)


def image_of_ink(points: np.ndarray) -> np.ndarray:
    """Returns points of ink as an image like those of the data set.

    Args:
        points: `(points, 2)`, x to the right and y downwards, without gaps.

    Returns:
        uint8 of shape `(8, 8)`.
    """
    radius = 2.0
    for _ in range(6):  # until radius and box fit each other
        distances = _distances(_in_box(points, radius))
        radius = float(np.clip(np.quantile(distances, COVERED), *PEN))
    distances = _distances(_in_box(points, radius))
    ink = np.clip(radius + 0.5 - distances, 0, 1)  # a soft edge, one pixel wide
    blocks = ink.reshape(SIZE, BLOCK, SIZE, BLOCK).mean(axis=(1, 3))
    return np.rint(np.rint(blocks * LEVELS) * (255 / LEVELS)).astype("uint8")


def _in_box(points, radius):
    """Scales points so that ink of this radius has all rows, in the middle."""
    low, size = points.min(axis=0), np.ptp(points, axis=0)
    width, height = size
    share = min(1.0, width / height * FINE / WIDTH) if height else float(width > 0)
    target = np.array([(WIDTH - 2 * radius) * share, FINE - 2 * radius])
    scale = np.divide(target, size, out=np.zeros(2), where=size > 0)
    return FINE / 2 + (points - low - size / 2) * scale


def _distances(points):
    """The distance of the center of each fine pixel to the nearest point."""
    at = np.arange(FINE) + 0.5
    y, x = np.meshgrid(at, at, indexing="ij")
    grid = np.stack([x, y], axis=-1).reshape(-1, 1, 2)
    squares = ((grid - points[None]) ** 2).sum(axis=-1).min(axis=1)
    return np.sqrt(squares).reshape(FINE, FINE)


def ink_of_gray(gray: np.ndarray) -> np.ndarray:
    """Returns where the ink is in a picture of one digit on plain paper.

    Ink is what differs from the border of the picture: dark on light, or light on dark.

    Args:
        gray: Gray levels of 255, `(height, width)`.

    Returns:
        `(points, 2)`, for `image_of_ink`.

    Raises:
        Refused: If all of the picture is alike.
    """
    from PIL import Image

    border = np.concatenate([gray[0], gray[-1], gray[:, 0], gray[:, -1]])
    contrast = np.abs(gray.astype("float64") - np.median(border))
    most = np.quantile(contrast, 0.999)
    ink = contrast > most / 2
    if most < FAINT or not ink.any():
        raise Refused("no_ink")
    rows, columns = (np.flatnonzero(ink.any(axis=axis)) for axis in (1, 0))
    ink = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    small = Image.fromarray((ink * 255).astype("uint8"))
    small.thumbnail((POINTS, POINTS), Image.Resampling.BOX)
    gray_small = np.asarray(small)
    y, x = np.nonzero(gray_small > gray_small.max() / 4)
    return np.stack([x, y], axis=1).astype("float64")


def image_of_file(name: str, content: bytes) -> np.ndarray:
    """Returns an uploaded picture as an image like those of the data set.

    Args:
        name: The name of the file, for messages.
        content: The file.

    Returns:
        uint8 of shape `(8, 8)`.

    Raises:
        Refused: If it is no picture, too large, or all alike.
    """
    import tempfile

    from PIL import Image

    import kerasseq

    try:
        with Image.open(io.BytesIO(content)) as found:
            width, height = found.size
        if width * height > MOST_PIXELS:
            raise Refused("too_many_pixels", name=name, most=MOST_PIXELS // 1_000_000)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "upload")
            file.write_bytes(content)
            gray = kerasseq.datasets.read_image(file, channels=1)[..., 0]
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        most = MOST_PIXELS // 1_000_000
        raise Refused("too_many_pixels", name=name, most=most) from error
    except (OSError, ValueError, SyntaxError) as error:  # of the decoders
        raise Refused("no_picture", name=name) from error
    return image_of_ink(ink_of_gray(gray))

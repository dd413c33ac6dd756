"""Color and shape of pictures of scenes, read by the nearest real picture.

The brightest pixels are moved into the middle, so that the place does not count. Then
the nearest of some real pictures of the training tells color and shape. That reads real
scenes without an error, and costs seconds; a ViT that reads as well learns for minutes.
It is told how many real pictures it reads right, as these bound what the others mean.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerasseq.cli import verdict
from kerasseq.cli.console import Console
from kerasseq.cli.draw_pictures import Pictures
from kerasseq.cli.multimodal_data import Captioned
from kerasseq.datasets.scene_set import Scenes

BRIGHT = 0.5  # of the brightest pixel of a picture
FREQUENT = "the most frequent color and shape"
SHUFFLED = "drawn, with captions of other pictures"

Look = tuple[str, str]  # color and shape


def are_judged(pictures: Captioned) -> bool:
    """Returns whether these are scenes of one shape."""
    return isinstance(pictures, Scenes) and pictures.boxes.shape[1] == 1


def of_scenes(scenes: Scenes) -> list[Look]:
    """Returns color and shape of scenes of one shape."""
    pairs = zip(scenes.colors, scenes.shapes, strict=True)
    return [(color, shape) for (color,), (shape,) in pairs]


def centered(images: np.ndarray) -> np.ndarray:
    """Moves the bright pixels of pictures into the middle, around the edges.

    Args:
        images: `(rows, H, W, C)`, pixels from 0 to 1.

    Returns:
        The same shape.

    Examples:
        >>> image = np.zeros((1, 3, 3, 1))
        >>> image[0, 0, 2] = 1
        >>> centered(image)[0, :, :, 0].tolist()
        [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    light = images.max(axis=-1)  # (rows, H, W)
    most = light.max(axis=(1, 2), keepdims=True)
    bright = (light >= BRIGHT * most).astype("float64")
    _, H, W = light.shape
    total = bright.sum(axis=(1, 2))
    row = np.rint(bright.sum(axis=2) @ np.arange(H) / total).astype(int)
    column = np.rint(bright.sum(axis=1) @ np.arange(W) / total).astype(int)
    rows = (np.arange(H) + row[:, None] - H // 2) % H  # (rows, H)
    columns = (np.arange(W) + column[:, None] - W // 2) % W
    n = np.arange(len(images))[:, None, None]
    return images[n, rows[:, :, None], columns[:, None, :]]


def nearest(known: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Returns the index of the nearest known picture of each, both centered.

    Args:
        known: `(n, H, W, C)`.
        images: `(rows, H, W, C)`.
    """
    x, y = (centered(each).reshape(len(each), -1) for each in (known, images))
    # |x - y|² without the term that is the same for all x
    return np.argmin(np.sum(x * x, axis=1) - 2 * y @ x.T, axis=1)


def right(read: Sequence[Look], asked: Sequence[Look]) -> dict[str, np.ndarray]:
    """Returns which colors and shapes are right, and which are both.

    Examples:
        >>> found = right([("red", "cross"), ("blue", "cross")], [("red", "cross")] * 2)
        >>> {name: each.tolist() for name, each in found.items()}
        {'color': [True, False], 'shape': [True, True], 'both': [True, False]}
    """
    same = np.array(read) == np.array(asked)
    return {"color": same[:, 0], "shape": same[:, 1], "both": same.all(axis=1)}


def scores(
    learned: Scenes, pixels: np.ndarray, tested: Scenes, pictures: Pictures
) -> dict[str, dict[str, np.ndarray]]:
    """Returns which pictures have color and shape of their captions.

    Args:
        learned: Scenes of the training.
        pixels: Their pictures.
        tested: Held-out scenes.
        pictures: Their pictures, rebuilt and drawn.
    """
    known, asked = of_scenes(learned), of_scenes(tested)

    def read(images):
        return [known[n] for n in nearest(pixels, images)]

    drawn = read(pictures.drawn)
    most = Counter(known).most_common(1)[0][0]
    return {
        "real": right(read(pictures.real), asked),
        "rebuilt from their ids": right(read(pictures.rebuilt), asked),
        "drawn": right(drawn, asked),
        SHUFFLED: right([*drawn[1:], drawn[0]], asked),
        FREQUENT: right([most] * len(asked), asked),
    }


def judge(found: dict[str, dict[str, np.ndarray]]) -> dict[str, Any]:
    """Returns whether drawn pictures are as asked more often than by chance.

    Args:
        found: What `scores` returns.
    """
    both = {name: each["both"].astype("float64") for name, each in found.items()}
    others = {name: float(both[name].mean()) for name in (SHUFFLED, FREQUENT)}
    best = both[verdict.best_of(others)]
    return verdict.verdict(
        "The model",
        float(both["drawn"].mean()),
        others,
        "color and shape of drawn pictures as in the caption",
        verdict.difference(both["drawn"] - best),
        ["more --steps", "more --codebook-steps"],
        rows="held-out captions",
    )


def show(console: Console, means: dict[str, dict[str, float]]) -> None:
    """Prints the shares of pictures whose color and shape are right."""
    cells = [
        (name, *(f"{share:.3f}" for share in each.values()))
        for name, each in means.items()
    ]
    title = "Right color and shape, read by the nearest real picture"
    console.table(title, ("pictures", ">color", ">shape", ">both"), cells)

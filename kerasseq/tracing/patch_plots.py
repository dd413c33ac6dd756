"""Figures of where a model of images looked: weights of patches over the picture."""

import numpy as np

from kerasseq.tracing import drawing

COLUMNS = 4  # pairs of picture and map beside each other
SIDE = 1.7  # inches of a picture


def plot_patches(images, maps, titles=None, title=None):
    """Draw images, and beside each what attention made of it.

    On the right each patch is as bright as its weight is large, compared with the
    largest of that image, and written on it is the weight in percent, where there are
    few enough patches to read that.

    Args:
        images: Array `(H, W)` or `(H, W, C)`; of several, `(B, H, W)` or
            `(B, H, W, C)`, with C of 1 or 3.
        maps: Weights of the patches, `(rows, columns)` or `(B, rows, columns)`, such as
            `ViT.attention_map` gives.
        titles: A title for each image.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is not one map for each image, or not one title.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> figure = plot_patches(np.eye(8), np.eye(4) / 4)
        >>> [text.get_text() for text in figure.axes[1].texts[:2]]
        ['25', '0']
    """
    maps = np.asarray(maps, "float32")
    images = np.asarray(images)
    if maps.ndim == 2:
        maps, images = maps[None], images[None]
    if maps.ndim != 3 or len(images) != len(maps) or images.ndim not in (3, 4):
        raise ValueError(
            "maps must be (rows, columns) for one image or (batch, rows, columns) for "
            f"as many as there are, got shape {maps.shape} for images of shape "
            f"{images.shape}"
        )
    titles = [""] * len(maps) if titles is None else list(titles)
    if len(titles) != len(maps):
        raise ValueError(f"titles has {len(titles)} entries for {len(maps)} images")
    columns = min(COLUMNS, len(maps))
    rows = -(-len(maps) // columns)
    figure = drawing.figure(2 * SIDE * columns, (SIDE + 0.35) * rows + 0.5)
    axes = figure.subplots(rows, 2 * columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    pairs = axes.reshape(-1, 2)
    for (left, right), image, weights, name in zip(
        pairs, images, maps, titles, strict=False
    ):
        image = _shown(image)
        left.imshow(image, cmap="gray")
        left.set_title(name, fontsize=10)
        _overlay(right, image, weights)
    figure.suptitle(title or "")
    return figure


def _shown(image):
    """An image as matplotlib takes it: grey, or three colors from 0 to 1."""
    if image.ndim == 2 or image.shape[-1] == 1:
        return image.reshape(image.shape[:2]).astype("float32")
    if image.dtype.kind in "ui":
        return image
    low, high = image.min(), image.max()
    return (image - low) / ((high - low) or 1)


def _overlay(axis, image, weights):
    """The image in grey under the weights of its patches."""
    height, width = image.shape[:2]
    grey = image if image.ndim == 2 else image.mean(axis=-1)
    axis.imshow(grey, cmap="gray")
    axis.imshow(
        weights,
        cmap="inferno",
        vmin=0,
        vmax=float(weights.max()) or 1.0,
        alpha=0.65,
        extent=(-0.5, width - 0.5, height - 0.5, -0.5),
        interpolation="nearest",
    )
    rows, columns = weights.shape
    if rows * columns > 64:
        return
    for (row, column), weight in np.ndenumerate(weights):
        axis.text(
            (column + 0.5) * width / columns - 0.5,
            (row + 0.5) * height / rows - 0.5,
            f"{100 * weight:.0f}",
            ha="center",
            va="center",
            fontsize=6,
            color="white" if weight < 0.6 * weights.max() else "black",
        )

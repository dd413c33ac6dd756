"""Plots of attention weights: heat maps of queries and keys, and maps over images."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core.checks import number
from kerasseq.tracing import drawing

if TYPE_CHECKING:  # heavy, and needed for figures only
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

CELL_SIZE = 0.22  # inches per weight of a heat map
MAX_MAP_SIZE = 12  # inches
IMAGE_SIZE = 1.7  # inches
IMAGES_PER_ROW = 4  # beside their maps: 13.6 inches
MAX_LABELED_PATCHES = 64  # with more patches percentages are not legible


def plot_attention(
    weights: ArrayLike,
    source: str | Sequence[object] | None = None,
    target: str | Sequence[object] | None = None,
    title: str | None = None,
    *,
    titles: Sequence[str] | None = None,
    example: int = 0,
    vmax: float | None = None,
) -> "Figure":
    """Plots attention weights as heat maps, with black for a weight of 0.

    Args:
        weights: Array `(T, S)`, the weights of T queries over S keys; `(N, T, S)` with
            heads, one map for each; or `(B, N, T, S)` with a batch.
        source: S tokens of the keys, labels of the columns: a string or a list.
        target: T tokens of the queries, labels of the rows: a string or a list.
        title: Title of the figure.
        titles: Titles of the maps; "head 0", "head 1" … if None.
        example: Index in the batch.
        vmax: Weight of the brightest color. Defaults to the largest weight of all
            maps. 1 makes figures comparable, but long sequences dark.

    Returns:
        A matplotlib `Figure`.

    Raises:
        TypeError: If the weights are a trace, not one of its values.
        ValueError: If the weights have another shape, the number of tokens is not that
            of rows or columns, that of titles not that of maps, or `vmax` is not above
            0.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> figure = plot_attention(np.eye(3), "abc", ["c", "b", "<end>"])
        >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
        ['c', 'b', '<end>']
    """
    if isinstance(weights, Mapping):
        named = [key for key in weights if key.endswith("alignment")]
        raise TypeError(
            f"weights must be an array, received {type(weights).__name__}. Pass one of "
            f"its values: {', '.join(f'trace[{key!r}]' for key in named or weights)}"
        )
    weights = np.asarray(weights, "float32")
    if weights.ndim == 4:
        weights = weights[example]
    maps = weights[None] if weights.ndim == 2 else weights
    if maps.ndim != 3 or not maps.size:
        raise ValueError(
            "weights must be (T, S), (heads, T, S) or (batch, heads, T, S), received "
            f"shape {np.shape(weights)}"
        )
    if titles is None:
        titles = [None] if len(maps) == 1 else [f"head {n}" for n in range(len(maps))]
    if len(titles) != len(maps):
        raise ValueError(
            f"titles must have one title for each of the {len(maps)} maps, received "
            f"{len(titles)}"
        )
    panels = [
        (one, source, target, name) for one, name in zip(maps, titles, strict=True)
    ]
    return _draw(panels, title, vmax)


def plot_alignments(
    translations: Iterable[Any], title: str | None = None, *, vmax: float | None = None
) -> "Figure":
    """Plots the alignments of several translations beside each other.

    Args:
        translations: A list of results of `Seq2Seq.translate`, or of objects with
            `alignment`, `source_tokens` and `target_tokens`.
        title: Title of the figure.
        vmax: Weight of the brightest color. Defaults to the largest weight of all maps.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If the list is empty, or a translation has no alignment.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> import types
        >>> one = types.SimpleNamespace(
        ...     alignment=np.eye(2), source_tokens="ab", target_tokens="AB"
        ... )
        >>> len(plot_alignments([one, one]).axes)
        3
    """
    translations = list(translations)
    if not translations or any(t.alignment is None for t in translations):
        raise ValueError(
            "translations must be a list of at least one, each with an alignment; a "
            "model without attention has none"
        )
    panels = [
        (t.alignment, t.source_tokens, t.target_tokens, None) for t in translations
    ]
    return _draw(panels, title, vmax)


def _draw(
    panels: Sequence[tuple[Any, Any, Any, str | None]],
    title: str | None,
    vmax: float | None,
) -> "Figure":
    """Draws one map, or several in rows of at most four."""
    maps = [np.asarray(weights, "float32") for weights, *_ in panels]
    vmax = _largest(maps) if vmax is None else number("vmax", vmax)
    if not vmax > 0:
        raise ValueError(f"vmax must be above 0, received {vmax}. Pass 1, or None")
    columns = min(len(panels), 4 if len(panels) > 4 else 2)
    rows = -(-len(panels) // columns)
    T, S = np.max([weights.shape for weights in maps], axis=0)
    width, height = (
        min(max(CELL_SIZE * n, 2.2), MAX_MAP_SIZE / columns) for n in (S, T)
    )
    sides = [
        (
            _labels("source", source, weights.shape[1], width),
            _labels("target", target, weights.shape[0], height),
        )
        for weights, (_, source, target, _) in zip(maps, panels, strict=True)
    ]
    below, beside = (
        max(_depth(labels) for labels in side) for side in zip(*sides, strict=True)
    )
    figure = drawing.figure(
        (width + beside) * columns + 1.2, (height + below) * rows + 0.5
    )
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    for axis, weights, labels, panel in zip(
        axes.flat, maps, sides, panels, strict=False
    ):
        image = axis.imshow(
            weights,
            vmin=0,
            vmax=vmax,
            cmap="magma",
            aspect="auto",
            interpolation="nearest",
        )
        _write(axis.xaxis, "source", labels[0], weights.shape[1])
        _write(axis.yaxis, "target", labels[1], weights.shape[0])
        axis.set_title(panel[-1] or "", fontsize=10)
    figure.colorbar(image, ax=list(axes.flat[: len(panels)]), label="weight", pad=0.01)
    figure.suptitle(title or "")
    return figure


def _largest(maps: list[np.ndarray]) -> float:
    """Returns the largest weight of all maps; 1 if all are zero."""
    return max(float(np.nanmax(weights, initial=0)) for weights in maps) or 1.0


def _labels(
    side: str, tokens: Sequence[object] | None, length: int, inches: float
) -> drawing.Labels | None:
    """Returns the labels of one side of a map; None for numbers."""
    if tokens is None:
        return None
    if len(tokens) != length:
        raise ValueError(
            f"{side} must have one token for each of {length} positions, received "
            f"{len(tokens)} tokens"
        )
    return drawing.fit_labels(tokens, inches, vertical=side == "target")


def _depth(labels: drawing.Labels | None) -> float:
    """Returns the inches that labels and the name of the axis take."""
    return 0.6 + (0.25 if labels is None else labels.depth)


def _write(axis: "Axis", side: str, labels: drawing.Labels | None, length: int) -> None:
    """Writes labels, or numbers, and the name of the axis."""
    axis.set_label_text(side)
    if labels is None:
        drawing.number_ticks(axis, range(length), at_most=8)
    else:
        labels.write(axis)


def plot_patches(
    images: ArrayLike,
    maps: ArrayLike,
    titles: list[str] | None = None,
    title: str | None = None,
) -> "Figure":
    """Plots images, each beside the attention weights of its patches.

    The brightness of a patch is its weight relative to the largest weight of the image.
    With at most 64 patches each has its weight in percent written on it.

    Args:
        images: Array `(H, W)` or `(H, W, C)`; for several images `(B, H, W)` or
            `(B, H, W, C)`. C is 1 or 3.
        maps: Weights of the patches, `(rows, columns)` or `(B, rows, columns)`, such as
            those of `ViT.attention_map`.
        titles: One title per image.
        title: Title of the figure.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If the number of maps or titles is not that of images.
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
            f"as many images, received shape {maps.shape} for images of shape "
            f"{images.shape}"
        )
    titles = [""] * len(maps) if titles is None else list(titles)
    if len(titles) != len(maps):
        raise ValueError(
            f"titles must have one entry for each of {len(maps)} images, received "
            f"{len(titles)}"
        )
    figure, pairs = drawing.pairs_of_images(len(maps), IMAGES_PER_ROW, IMAGE_SIZE)
    for (left, right), image, weights, name in zip(
        pairs, images, maps, titles, strict=False
    ):
        image = displayable(image)
        left.imshow(image, cmap="gray")
        left.set_title(name, fontsize=10)
        _overlay(right, image, weights)
    figure.suptitle(title or "")
    return figure


def displayable(image: np.ndarray) -> np.ndarray:
    """Returns an image as matplotlib expects it: gray, or three colors from 0 to 1."""
    if image.ndim == 2 or image.shape[-1] == 1:
        return image.reshape(image.shape[:2]).astype("float32")
    if image.dtype.kind in "ui":
        return image
    low, high = image.min(), image.max()
    return (image - low) / ((high - low) or 1)


def _overlay(axis: "Axes", image: np.ndarray, weights: np.ndarray) -> None:
    """Draws the image in gray below the weights of its patches."""
    height, width = image.shape[:2]
    gray = image if image.ndim == 2 else image.mean(axis=-1)
    axis.imshow(gray, cmap="gray")
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
    if rows * columns > MAX_LABELED_PATCHES:
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

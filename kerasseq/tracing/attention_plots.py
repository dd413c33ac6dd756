"""Figures of where attention looks: a map from each query to its memory."""

import numpy as np

from kerasseq.core.checks import number
from kerasseq.tracing import drawing
from kerasseq.tracing.labels import fit_labels

PLACE = 0.22  # inches
LARGEST = 12  # inches of a map


def plot_attention(
    weights, source=None, target=None, title=None, *, example=0, vmax=None
):
    """Draw attention weights as heat maps, black for a weight of 0.

    Args:
        weights: Array `(T, S)`, what each of T queries looked at; with heads
            `(N, T, S)`, a map for each; with a batch `(B, N, T, S)`.
        source: Tokens of the memory, in columns: a string or a list of S.
        target: Tokens of the queries, in rows: a string or a list of T.
        title: Title of the figure.
        example: Which of a batch.
        vmax: Weight of the brightest color; the largest weight of all maps if None. 1
            makes figures comparable, but maps of many places dark.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If the weights have another shape, or there is not one token for
            each place, or `vmax` is not above 0.
        ImportError: If matplotlib is not installed.

    Examples:
        >>> figure = plot_attention(np.eye(3), "abc", ["c", "b", "<end>"])
        >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
        ['c', 'b', '<end>']
    """
    weights = np.asarray(weights, "float32")
    if weights.ndim == 4:
        weights = weights[example]
    maps = weights[None] if weights.ndim == 2 else weights
    if maps.ndim != 3 or not maps.size:
        raise ValueError(
            "weights must be (T, S), (heads, T, S) or (batch, heads, T, S), got shape "
            f"{np.shape(weights)}"
        )
    titles = [None] if len(maps) == 1 else [f"head {n}" for n in range(len(maps))]
    panels = [
        (one, source, target, name) for one, name in zip(maps, titles, strict=True)
    ]
    return _draw(panels, title, vmax)


def plot_alignments(translations, title=None, *, vmax=None):
    """Draw the alignments of several translations side by side.

    Args:
        translations: What `Seq2Seq.translate` gave, or anything with `alignment`,
            `source_tokens` and `target_tokens`.
        title: Title of the figure.
        vmax: Weight of the brightest color; the largest weight of all maps if None.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If there is none, or one has no alignment.
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
            "translations must be a list of at least one, each with an alignment: a "
            "model without attention has none"
        )
    panels = [
        (t.alignment, t.source_tokens, t.target_tokens, None) for t in translations
    ]
    return _draw(panels, title, vmax)


def _draw(panels, title, vmax):
    """A figure of one map, or of several in rows of at most four."""
    maps = [np.asarray(weights, "float32") for weights, *_ in panels]
    vmax = _largest(maps) if vmax is None else number("vmax", vmax)
    if not vmax > 0:
        raise ValueError(f"vmax must be above 0, received {vmax}. Choose 1, or None")
    columns = min(len(panels), 4 if len(panels) > 4 else 2)
    rows = -(-len(panels) // columns)
    T, S = np.max([weights.shape for weights in maps], axis=0)
    width, height = (min(max(PLACE * n, 2.2), LARGEST / columns) for n in (S, T))
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


def _largest(maps):
    """The largest weight of all maps; 1 if there is none."""
    return max(float(np.nanmax(weights, initial=0)) for weights in maps) or 1.0


def _labels(side, tokens, length, inches):
    """The labels of one side of a map; None for numbers."""
    if tokens is None:
        return None
    if len(tokens) != length:
        raise ValueError(
            f"{side} has {len(tokens)} tokens, but the weights are for {length}: give "
            "one for each place"
        )
    return fit_labels(tokens, inches, vertical=side == "target")


def _depth(labels):
    """Inches that labels, the name of the axis and the space around them take."""
    return 0.6 + (0.25 if labels is None else labels.depth)


def _write(axis, side, labels, length):
    """Write labels, or numbers, and the name of the axis."""
    axis.set_label_text(side)
    if labels is None:
        drawing.number_ticks(axis, range(length), at_most=8)
    else:
        labels.write(axis)

"""Figures of where attention looks: a map from each query to its memory."""

import numpy as np

from kerasseq.tracing import drawing
from kerasseq.tracing.labels import label_places

PLACE = 0.22  # inches
LARGEST = 12  # inches of a map


def plot_attention(weights, source=None, target=None, title=None, *, example=0):
    """Draw attention weights as heat maps, dark where nothing is looked at.

    Args:
        weights: Array `(T, S)`, what each of T queries looked at; with heads
            `(N, T, S)`, a map for each; with a batch `(B, N, T, S)`.
        source: Tokens of the memory, in columns: a string or a list of S.
        target: Tokens of the queries, in rows: a string or a list of T.
        title: Title of the figure.
        example: Which of a batch.

    Returns:
        A matplotlib `Figure`.

    Raises:
        ValueError: If the weights have another shape, or there is not one token for
            each place.
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
    return _draw(panels, title)


def plot_alignments(translations, title=None):
    """Draw the alignments of several translations side by side.

    Args:
        translations: What `Seq2Seq.translate` gave, or anything with `alignment`,
            `source_tokens` and `target_tokens`.
        title: Title of the figure.

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
    return _draw(panels, title)


def _draw(panels, title):
    """A figure of one map, or of several in rows of at most four."""
    columns = min(len(panels), 4 if len(panels) > 4 else 2)
    rows = -(-len(panels) // columns)
    T, S = np.max([np.shape(weights) for weights, *_ in panels], axis=0)
    width, height = (min(max(PLACE * n, 2.2), LARGEST / columns) for n in (S, T))
    figure = drawing.figure(width * columns + 1.8, height * rows + 1.2)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    for axis, (weights, source, target, name) in zip(axes.flat, panels, strict=False):
        image = axis.imshow(
            weights,
            vmin=0,
            vmax=1,
            cmap="magma",
            aspect="auto",
            interpolation="nearest",
        )
        _label(axis.xaxis, "source", source, np.shape(weights)[1], width)
        _label(axis.yaxis, "target", target, np.shape(weights)[0], height)
        axis.set_title(name or "", fontsize=10)
    figure.colorbar(image, ax=list(axes.flat[: len(panels)]), label="weight", pad=0.01)
    figure.suptitle(title or "")
    return figure


def _label(axis, side, tokens, length, inches):
    """Tokens, or numbers, along one side of a map."""
    if tokens is None:
        drawing.number_ticks(axis, range(length), at_most=8)
        axis.set_label_text(f"place in the {side}")
        return
    if len(tokens) != length:
        raise ValueError(
            f"{side} has {len(tokens)} tokens, but the weights are for {length}: give "
            "one for each place"
        )
    for tick in label_places(axis, tokens, inches):
        upright = side == "target" or len(tick.get_text()) <= 2
        tick.set_rotation(0 if upright else 90)

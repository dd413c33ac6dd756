"""Alignments of single channels, where each channel has weights of its own."""

from collections.abc import Callable, Sequence

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core.types import Tensor
from kerasseq.tracing import listeners


def record_alignment(
    layer: keras.Layer,
    alignment: Callable[[list[int]], Tensor],
    values: Tensor,
    y: Tensor,
    channels: Sequence[int],
) -> Tensor:
    """Records the alignment of some channels, if a trace is active.

    Args:
        layer: The layer, which has as many channels as y.
        alignment: From channels to their weights of the values of all steps,
            `(B, channels, T, T)`.
        values: `(B, T, C)`.
        y: The outputs, `(B, T, C)`: alignment · values.
        channels: The channels; those that the layer does not have are left out.

    Returns:
        y, with these channels computed from the alignment if it was replaced.
    """
    if not listeners.active():
        return y
    width = y.shape[-1]
    channels = [c for c in channels if c < width]
    if not channels:
        return y
    with listeners.pause():
        before = alignment(channels)
    after = listeners.record(layer, "alignment", before, axes=listeners.HEAD_AXES)
    if after is before:
        return y
    chosen = ops.stack([values[..., c] for c in channels], axis=1)  # (B, channels, T)
    mixed = kernels.matmul(after, chosen[..., None])[..., 0]
    columns = [y[..., c] for c in range(width)]
    for n, c in enumerate(channels):
        columns[c] = mixed[:, n]
    return ops.stack(columns, axis=-1)

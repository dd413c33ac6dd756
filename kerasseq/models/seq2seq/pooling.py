"""Pooling of the encoder's outputs to one vector, the summary of the source."""

from typing import Any

import keras
from keras import ops

from kerasseq.core import checks, masks
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor
from kerasseq.tasks.sequence_layers import last_step

MODES = ("last", "both_ends", "mean")


@register
class EncoderPooling(ListedConfig, keras.layers.Layer):
    r"""Pools the outputs of an encoder, `(B, S, M)`, to the summary $\bar h$, `(B, M)`.

    The first states of the decoder are computed from $\bar h$. A decoder without
    attention gets no other information about the source.

    Args:
        mode: "last", the output at the last real step; "both_ends", for a bidirectional
            encoder: the first half of the features at the last real step, where the
            forward layer ends, and the second half at the first real step, where the
            backward layer ends; "mean", the mean over the real steps.
        **kwargs: For `keras.layers.Layer`.

    Examples:
        >>> h = np.arange(6.0).reshape(1, 3, 2)
        >>> mask = np.array([[True, True, False]])
        >>> for mode in ("last", "both_ends", "mean"):
        ...     print(np.asarray(EncoderPooling(mode)(h, mask=mask)).tolist())
        [[2.0, 3.0]]
        [[2.0, 1.0]]
        [[1.0, 2.0]]
    """

    def __init__(self, mode: str = "last", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode: str = checks.one_of("mode", mode, MODES)
        self.supports_masking = True

    def call(self, h: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.mode == "last":
            return last_step(h, mask)
        if self.mode == "both_ends":
            half = h.shape[-1] // 2
            forward, backward = h[..., :half], ops.flip(h[..., half:], axis=1)
            flipped_mask = None if mask is None else ops.flip(mask, axis=1)
            ends = [last_step(forward, mask), last_step(backward, flipped_mask)]
            return ops.concatenate(ends, axis=-1)
        if mask is None:
            return ops.mean(h, axis=1)
        count = ops.sum(ops.cast(mask, h.dtype), axis=1)[:, None]
        return ops.sum(masks.zero_masked(h, mask), axis=1) / count

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        return None

    def compute_output_shape(self, shape: Shape) -> Shape:
        return (shape[0], shape[-1])


def pooling_mode(layer: keras.Layer | None) -> str:
    """Returns the mode for the outputs of a layer; "mean" for None, an encoder model.

    Examples:
        >>> pooling_mode(keras.layers.GRU(3)), pooling_mode(None)
        ('last', 'mean')
    """
    if layer is None:
        return "mean"
    if isinstance(layer, keras.layers.Bidirectional):
        return "both_ends" if layer.merge_mode == "concat" else "last"
    return "both_ends" if getattr(layer, "bidirectional", False) else "last"

"""A memory in one vector: all that a decoder without attention knows of its source."""

import keras
from keras import ops

from kerasseq.core import checks, masks
from kerasseq.core.serialization import register
from kerasseq.tasks.architectures import last_step

KINDS = ("last", "both_ends", "mean")


@register
class Summary(keras.layers.Layer):
    r"""$\bar h$, where both directions of an encoder have read everything.

    Args:
        kind: "last", the last real place; "both_ends", of the first half of the
            features the last real place, of the second half the first one, as a
            bidirectional encoder needs; "mean", over all places.
        **kwargs: As for any layer.

    Examples:
        >>> h = np.arange(6.0).reshape(1, 3, 2)
        >>> real = np.array([[True, True, False]])
        >>> for kind in ("last", "both_ends", "mean"):
        ...     print(np.asarray(Summary(kind)(h, mask=real)).tolist())
        [[2.0, 3.0]]
        [[2.0, 1.0]]
        [[1.0, 2.0]]
    """

    def __init__(self, kind="last", **kwargs):
        super().__init__(**kwargs)
        self.kind = checks.one_of("kind", kind, KINDS)
        self.supports_masking = True

    def call(self, h, mask=None):
        if self.kind == "last":
            return last_step(h, mask)
        if self.kind == "both_ends":
            half = h.shape[-1] // 2
            forward, backward = h[..., :half], ops.flip(h[..., half:], axis=1)
            flipped = None if mask is None else ops.flip(mask, axis=1)
            ends = [(forward, mask), (backward, flipped)]
            ends = [last_step(*end) for end in ends]
            return ops.concatenate(ends, axis=-1)
        if mask is None:
            return ops.mean(h, axis=1)
        real = ops.cast(mask, h.dtype)[..., None]
        return ops.sum(masks.zero_masked(h, mask), axis=1) / ops.sum(real, axis=1)

    def compute_mask(self, inputs, mask=None):
        return None

    def compute_output_shape(self, shape):
        return (shape[0], shape[-1])

    def get_config(self):
        return {**super().get_config(), "kind": self.kind}


def summary_kind(layer) -> str:
    """What sums up a layer: None for an encoder that reads its source in its own way.

    Examples:
        >>> summary_kind(keras.layers.GRU(3)), summary_kind(None)
        ('last', 'mean')
    """
    if layer is None:
        return "mean"
    if isinstance(layer, keras.layers.Bidirectional):
        return "both_ends" if layer.merge_mode == "concat" else "last"
    return "both_ends" if getattr(layer, "bidirectional", False) else "last"

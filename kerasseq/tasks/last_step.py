"""The output at the last real step of a sequence."""

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import masks
from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor


@register
class LastStep(keras.layers.Layer):
    """The output at the last real step, `(batch, time, units)` to `(batch, units)`.

    Examples:
        >>> x = np.arange(6.0).reshape(1, 3, 2)
        >>> y = LastStep()(x, mask=np.array([[True, True, False]]))
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[2.0, 3.0]]
    """

    def call(self, sequence: Tensor, mask: Tensor | None = None) -> Tensor:
        return last_step(sequence, mask)

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> None:
        return None


def last_step(sequence: Tensor, mask: Tensor | None = None) -> Tensor:
    """Selects the last real step: `(batch, time, units)` to `(batch, units)`.

    Args:
        sequence: `(batch, time, units)`.
        mask: Boolean `(batch, time)`, True at real steps; or None.
    """
    if mask is None:
        return sequence[:, -1]
    mask = ops.cast(mask, "bool")
    time = ops.arange(ops.shape(mask)[1], dtype="int32")
    last = masks.largest(ops.where(mask, time, 0), axis=1)
    return kernels.take_steps(sequence, last[:, None])[:, 0]

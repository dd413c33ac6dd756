"""The real steps of sequences with padding, moved to the front and back again."""

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.tracing import listeners


class RealSteps:
    """Moves the real steps of each sequence to its front, in their order.

    A convolution over the steps at the front skips the masked ones, wherever they are:
    its taps are those of real steps, and the steps behind the front come later, so that
    a causal convolution does not read them.

    Args:
        mask: Boolean `(B, T)`, True at real steps.

    Examples:
        >>> real = RealSteps(np.array([[False, True, False, True]]))
        >>> x = np.array([[[5.0], [1.0], [7.0], [2.0]]])
        >>> front = real.pack(x)
        >>> keras.ops.convert_to_numpy(front)[0, :, 0].tolist()
        [1.0, 2.0, 0.0, 0.0]
        >>> keras.ops.convert_to_numpy(real.unpack(front))[0, :, 0].tolist()
        [0.0, 1.0, 0.0, 2.0]
    """

    def __init__(self, mask: Tensor) -> None:
        self.mask: Tensor = ops.cast(mask, "bool")
        number = ops.cast(self.mask, "int32")
        steps = ops.arange(ops.shape(self.mask)[1], dtype="int32")
        time = ops.shape(self.mask)[1]
        # ONNX has no stable sort, which `argsort` is.
        real_first = ops.sort(ops.where(self.mask, steps, steps + time), axis=1)
        self._order = real_first % time
        self._rank = ops.maximum(ops.cumsum(number, axis=1) - 1, 0)
        self._count = ops.sum(number, axis=1)

    def pack(self, x: Tensor) -> Tensor:
        """Moves the real steps of x, `(B, T, ...)`, to the front; zeros follow."""
        return kernels.take_steps(masks.zero_masked(x, self.mask), self._order)

    def unpack(self, y: Tensor) -> Tensor:
        """Moves steps from the front back to their places; masked steps are zeros."""
        return masks.zero_masked(kernels.take_steps(y, self._rank), self.mask)

    def last(self, x: Tensor, count: int) -> Tensor:
        """Selects the last real steps of each sequence.

        Args:
            x: `(B, count + T, ...)`: earlier steps, then those that `pack` returned.
            count: Number of steps to select.

        Returns:
            `(B, count, ...)`.
        """
        steps = ops.arange(count, dtype="int32")
        return kernels.take_steps(x, ops.cast(self._count, "int32")[:, None] + steps)


def record(
    layer: keras.Layer, name: str, value: Tensor, real: RealSteps | None
) -> Tensor:
    """Records a value at the steps of the input, as `tracing.record`.

    Args:
        layer: The layer that computed the value.
        name: Name of the value.
        value: `(B, T, ...)`, with the real steps first unless `real` is None.
        real: The real steps; None without a mask.

    Returns:
        The value to continue with, again with the real steps first.
    """
    if real is None or not listeners.active():
        return listeners.record(layer, name, value)
    return real.pack(listeners.record(layer, name, real.unpack(value)))

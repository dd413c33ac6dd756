"""Computes the values of a step with TensorFlow's operations, as few as possible."""

from collections.abc import Callable, Mapping

import tensorflow as tf

from kerasseq.core.types import Tensor
from kerasseq.kernels.derived.graph import ELEMENTWISE, NUMBER, Value
from kerasseq.kernels.tensorflow.loop import InOrder

_NAMED: dict[str, Callable[..., Tensor]] = {
    "absolute": tf.abs,
    "rsqrt": tf.math.rsqrt,
    "log": tf.math.log,
    "log1p": tf.math.log1p,
    "expm1": tf.math.expm1,
    "erf": tf.math.erf,
    "tanh_gradient": lambda y, d: tf.raw_ops.TanhGrad(y=y, dy=d),
    "sigmoid_gradient": lambda y, d: tf.raw_ops.SigmoidGrad(y=y, dy=d),
    "sum": lambda x: tf.reduce_sum(x, -1, keepdims=True),
    "max": lambda x: tf.reduce_max(x, -1, keepdims=True),
    "concatenate": lambda *parts: tf.concat(parts, -1),
}
# Those whose arguments must have the shape of the result.
_SAME_SHAPE = {"tanh_gradient", "sigmoid_gradient"}


class Values:
    """Computes values, for `evaluate`: rows may be shorter than the width of a value.

    A row of one number stands for all units, as far as the operations repeat it.

    Args:
        batch: Number of sequences.
        tiles: Widths of the slices of values, see `plan.tiles`.
        transposed: The transposed matrices, by parameter.
        do: Calls the operations in order.
    """

    def __init__(
        self,
        batch: int | Tensor,
        tiles: Mapping[Value, list[int]],
        transposed: Mapping[Value, Tensor],
        do: InOrder,
    ) -> None:
        self.batch = batch
        self.tiles = tiles
        self.transposed = transposed
        self.do = do
        self._split: dict[Value, dict[int, Tensor]] = {}

    def __call__(self, value: Value, args: list[Tensor], like: Tensor) -> Tensor:
        """Computes one value."""
        op, do = value.op, self.do
        if op == NUMBER:
            return tf.constant(value.detail, like.dtype)
        if op == "broadcast":
            return args[0]
        if op not in ELEMENTWISE or op in _SAME_SHAPE:
            widths = [a.width for a in value.args]
            if op in _SAME_SHAPE:
                widths = [value.width] * 2
            args[: len(args)] = [
                a
                if v.op == "parameter" and op.startswith("matmul")
                else self.whole(a, n)
                for a, n, v in zip(args, widths, value.args, strict=True)
            ]
        if op == "slice":
            return self._part(value, *args)
        if op == "matmul":
            return do.matmul(*args)
        if op == "matmul_transposed":
            return do.matmul(args[0], self.transposed[value.args[1]])
        if op == "power":
            return do.pow(args[0], value.detail)
        function = _NAMED.get(op)
        return do(function, *args) if function else getattr(do, op)(*args)

    def whole(self, tensor: Tensor, width: int) -> Tensor:
        """Returns a tensor with a row of `width` numbers for each sequence."""
        if len(tensor.shape) > 1 and tensor.shape[-1] == width:
            return tensor
        return self.do.broadcast_to(tensor, (self.batch, width))

    def _part(self, value, tensor):
        source, start = value.args[0], value.detail
        if source not in self.tiles:
            return self.do(lambda x: x[..., start : start + value.width], tensor)
        if source not in self._split:
            widths = self.tiles[source]
            parts = iter(self.do.split(tensor, widths, -1))
            starts = [sum(widths[:k]) for k in range(len(widths))]
            self._split[source] = dict(zip(starts, parts, strict=True))
        return self._split[source][start]

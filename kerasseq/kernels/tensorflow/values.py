"""Computes the values of a step with TensorFlow's operations, as few as possible."""

import itertools
from collections.abc import Callable, Mapping

import tensorflow as tf

from kerasseq.core.types import Tensor
from kerasseq.kernels.derived.graph import ELEMENTWISE, NUMBER, Value
from kerasseq.kernels.tensorflow.loop import InOrder
from kerasseq.kernels.tensorflow.plan import Tiles

_NAMED: dict[str, Callable[..., Tensor]] = {
    "absolute": tf.abs,
    "where": tf.where,
    "stop_gradient": tf.stop_gradient,
    "tanh_gradient": lambda y, d: tf.raw_ops.TanhGrad(y=y, dy=d),
    "sigmoid_gradient": lambda y, d: tf.raw_ops.SigmoidGrad(y=y, dy=d),
    "sum": lambda x: tf.reduce_sum(x, -1, keepdims=True),
    "max": lambda x: tf.reduce_max(x, -1, keepdims=True),
    "concatenate": lambda *parts: tf.concat(parts, -1),
}
# What XLA computes sooner on a CPU: it would compute the arguments of a sum again.
_ON_XLA: dict[str, Callable[..., Tensor]] = {
    "sum": lambda x: tf.matmul(x, tf.ones((x.shape[-1], 1), x.dtype)),
    "sigmoid": lambda x: 0.5 * tf.tanh(0.5 * x) + 0.5,
}
_SAME_SHAPE = {"tanh_gradient", "sigmoid_gradient"}  # of the arguments


class Values:
    """Computes values, for `evaluate`: rows may be shorter than the width of a value.

    A row of one number stands for all units, as far as the operations repeat it.

    Args:
        batch: Number of sequences.
        transposed: The transposed matrices, by parameter.
        tiles: Widths of the slices of values, see `plan.py`.
        do: Calls the operations in order.
        on_xla: Whether XLA compiles the operations for a CPU.
    """

    def __init__(
        self,
        batch: int | Tensor,
        transposed: Mapping[Value, Tensor],
        tiles: Tiles,
        do: InOrder,
        on_xla: bool,
    ) -> None:
        self.batch = batch
        self.transposed = transposed
        self.tiles = tiles
        self.do = do
        self.on_xla = on_xla
        self._split: dict[Value, dict[int, Tensor]] = {}

    def __call__(self, value: Value, args: list[Tensor], like: Tensor) -> Tensor:
        """Computes one value."""
        op, do = value.op, self.do
        if op == NUMBER:
            return tf.constant(value.detail, like.dtype)
        if op == "broadcast":
            return args[0]
        if op in ("matmul", "matmul_transposed"):
            x, w = value.args
            matrix = args[1] if op == "matmul" else self.transposed[w]
            return do.matmul(self.whole(args[0], x.width), matrix)
        if op == "power":
            return do.pow(*args, value.detail)
        if op not in ELEMENTWISE or op in _SAME_SHAPE:
            args = self._all_whole(value, args)
        if op == "slice":
            return self._part(value, *args)
        special = (_ON_XLA if self.on_xla else {}).get(op) or _NAMED.get(op)
        return do(special or getattr(tf.math, op), *args)

    def whole(self, tensor: Tensor, width: int) -> Tensor:
        """Returns a tensor with a row of `width` numbers for each sequence."""
        if len(tensor.shape) > 1 and tensor.shape[-1] == width:
            return tensor
        return self.do.broadcast_to(tensor, (self.batch, width))

    def _all_whole(self, value, args):
        same = value.op in _SAME_SHAPE
        widths = [value.width if same else v.width for v in value.args]
        return [self.whole(a, n) for a, n in zip(args, widths, strict=True)]

    def _part(self, value, tensor):
        """Returns a slice: one operation computes all of those that divide a value."""
        source, start = value.args[0], value.detail
        if source not in self.tiles:
            return self.do(lambda x: x[:, start : start + value.width], tensor)
        if source not in self._split:
            widths = self.tiles[source]
            starts = itertools.accumulate(widths, initial=0)
            parts = zip(starts, self.do.split(tensor, widths, -1), strict=False)
            self._split[source] = dict(parts)
        return self._split[source][start]

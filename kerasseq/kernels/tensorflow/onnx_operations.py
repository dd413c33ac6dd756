r"""Operations of TensorFlow that tf2onnx 1.17 does not know. The import registers them.

Without them it logs an error and writes a file that no runtime reads.

| operation | of | in ONNX |
|---|---|---|
| Erfc | the exact GELU | $1 - \operatorname{erf}(x)$ |
| Log1p | log-sigmoid and softplus | $\log(1 + x)$ |
| XlaDynamicUpdateSlice | writing into a cache | the new entries where they are |
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from onnx import TensorProto
from tf2onnx import utils
from tf2onnx.handler import tf_op
from tf2onnx.optimizer.reshape_optimizer import ReshapeOptimizer


@contextlib.contextmanager
def converted() -> Iterator[None]:
    """Lets tf2onnx leave reshapes as they are inside the block.

    It merges reshapes between which a size is read, as after the products of GLA, and
    its function that converts functions takes no other list of optimizers.
    """
    with mock.patch.object(ReshapeOptimizer, "optimize", lambda self, graph, n: graph):
        yield


def _one(graph: Any, like: Any) -> str:
    """Returns a constant 1 of the dtype of a tensor."""
    dtype = utils.map_onnx_to_numpy_type(graph.get_dtype(like))
    return graph.make_const(utils.make_name("one"), np.array(1, dtype)).output[0]


def _replace(graph, node, kind, names):
    """Replaces a node by another one with the same outputs."""
    shapes = [graph.get_shape(node.output[0])]
    dtypes = [graph.get_dtype(node.output[0])]
    graph.remove_node(node.name)
    graph.make_node(
        kind, names, name=node.name, outputs=node.output, shapes=shapes, dtypes=dtypes
    )


@tf_op("Erfc")
class Erfc:
    """The complementary error function."""

    @classmethod
    def version_9(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        one = _one(ctx, node.input[0])
        erf = ctx.make_node("Erf", [node.input[0]]).output[0]
        _replace(ctx, node, "Sub", [one, erf])


@tf_op("Log1p")
class Log1p:
    """The logarithm of a number and 1."""

    @classmethod
    def version_7(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        one = _one(ctx, node.input[0])
        total = ctx.make_node("Add", [node.input[0], one]).output[0]
        _replace(ctx, node, "Log", [total])


@tf_op("XlaDynamicUpdateSlice")
class UpdateSlice:
    """Writes an array into another one from an index on, as into a cache."""

    @classmethod
    def version_13(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        old, new, index = node.input

        def add(kind, *names, **options):
            return ctx.make_node(kind, list(names), attr=options).output[0]

        def constant(value):
            return ctx.make_const(utils.make_name("constant"), value).output[0]

        size, zero = add("Shape", new), constant(np.array(0, "int64"))
        room = add("Sub", add("Shape", old), size)
        index = add("Max", add("Cast", index, to=TensorProto.INT64), zero)
        index = add("Min", index, room)  # as in TensorFlow, all of it is written
        margins = add("Concat", index, add("Sub", room, index), axis=0)
        ones = add("Expand", constant(np.array(1, "float32")), size)
        is_new = add("Cast", add("Pad", ones, margins), to=TensorProto.BOOL)
        _replace(ctx, node, "Where", [is_new, add("Pad", new, margins), old])

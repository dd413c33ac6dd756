r"""Operations of TensorFlow that tf2onnx 1.17 does not know: importing registers them.

Without them it logs an error and writes a file that no runtime reads.

| operation | of | in ONNX |
|---|---|---|
| Erfc | the exact GELU | $1 - \operatorname{erf}(x)$ |
| Log1p | log-sigmoid and softplus | $\log(1 + x)$ |
"""

from typing import Any

import numpy as np
from tf2onnx import utils
from tf2onnx.handler import tf_op


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

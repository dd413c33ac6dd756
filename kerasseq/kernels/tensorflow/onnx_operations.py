"""Operations of TensorFlow that tf2onnx 1.17 does not know, in those of ONNX.

A handler replaces the node of one operation in a graph of tf2onnx.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

INT64, BOOL = 7, 9  # `onnx.TensorProto.DataType`


def erfc(graph: Any, node: Any, name: str, _: Any) -> None:
    r"""$\mathrm{erfc}(x) = 1 - \mathrm{erf}(x)$, of the exact GELU."""
    (x,) = node.input
    add, finish = _replace(graph, node)
    one = graph.make_const(f"{name}_one", np.array(1, "float32")).output[0]
    finish("Sub", [one, add("Erf", [x])])


def log1p(graph: Any, node: Any, name: str, _: Any) -> None:
    r"""$\ln(1 + x) = x \ln(u) / (u - 1)$ with $u = 1 + x$ rounded, or x if $u = 1$.

    The quotient cancels the rounding error of u (Kahan; in Goldberg 1991, theorem 4).
    """
    (x,) = node.input
    add, finish = _replace(graph, node)
    one = graph.make_const(f"{name}_one", np.array(1, "float32")).output[0]
    u = add("Add", [x, one])
    is_one = add("Equal", [u, one])
    below = add("Where", [is_one, one, add("Sub", [u, one])])
    quotient = add("Div", [add("Mul", [x, add("Log", [u])]), below])
    finish("Where", [is_one, x, quotient])


def update_slice(graph: Any, node: Any, name: str, _: Any) -> None:
    """Writes an array into another one from an index on, as into a cache.

    The new entries are padded to the size of the array, and chosen where they are.
    """
    x, new, index = node.input
    add, finish = _replace(graph, node)
    zero = graph.make_const(f"{name}_zero", np.array(0, "int64")).output[0]
    one = graph.make_const(f"{name}_one", np.array(1, "float32")).output[0]
    size = add("Shape", [new])
    room = add("Sub", [add("Shape", [x]), size])
    index = add("Max", [add("Cast", [index], to=INT64), zero])
    index = add("Min", [index, room])  # as in TensorFlow, all of it is written
    margins = add("Concat", [index, add("Sub", [room, index])], axis=0)
    is_new = add("Pad", [add("Expand", [one, size]), margins])
    padded = add("Pad", [new, margins])
    finish("Where", [add("Cast", [is_new], to=BOOL), padded, x])


def _replace(graph: Any, node: Any) -> tuple[Callable[..., str], Callable[..., None]]:
    """Removes a node; returns functions that add nodes, the second one the last."""
    output = node.output[0]
    shape, dtype = graph.get_shape(output), graph.get_dtype(output)
    graph.remove_node(node.name)

    def add(kind, inputs, **attributes):
        return graph.make_node(kind, inputs, attr=attributes).output[0]

    def finish(kind, inputs):
        graph.make_node(kind, inputs, outputs=[output], shapes=[shape], dtypes=[dtype])

    return add, finish


HANDLERS: dict[str, tuple[Callable[..., None], list]] = {
    "Erfc": (erfc, []),
    "Log1p": (log1p, []),
    "XlaDynamicUpdateSlice": (update_slice, []),
}

"""Passes over a recorded graph of PyTorch's operations.

A small operation takes 1 to 3 µs of Python and of checks, and a step of a Transformer
has hundreds. Operations that change nothing are removed, constants are computed once,
and the others are called with less overhead.
"""

import types
from typing import Any

import torch

aten = torch.ops.aten
COPIES = (aten.clone.default, aten.lift_fresh_copy.default)
SAME_IF_SHAPED_ALIKE = (
    aten.view.default,
    aten._unsafe_view.default,
    aten.expand.default,
)
FILLED = (aten.zeros_like.default, aten.ones_like.default, aten.full_like.default)


def eliminate_common_subexpressions(
    graph: torch.fx.GraphModule,
) -> torch.fx.GraphModule:
    """Removes equal operations on equal arguments, and unused ones.

    Masks and positions are the same in all layers. A functionalized graph has no side
    effects, so equal operations return the same, and a copy equals its source.

    Args:
        graph: A `torch.fx.GraphModule` of such operations.

    Returns:
        The same graph, changed.
    """
    known = {}
    for node in graph.graph.nodes:
        if node.op not in ("call_function", "get_attr") or _draws(node):
            continue
        _view_at_once(node)
        first = node.args[0] if _is_its_input(node) else None
        if first is None:
            key = (node.target, repr(node.args), repr(node.kwargs))
            first = known.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code()
    return graph


def fold_constants(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Computes constants once, in a graph without gradients.

    These are views of weights, which follow later changes of the weights, and what
    depends on no tensor, such as positions.

    Args:
        graph: As for `eliminate_common_subexpressions`, like what comes back.
    """
    made = set()  # of nothing
    for node in list(graph.graph.nodes):
        sources = [] if node.target in FILLED else node.all_input_nodes
        if node.op != "call_function" or _draws(node):
            continue
        if any(source.op != "get_attr" for source in sources):
            continue
        if not all(source.target in made for source in sources) and not _is_view(node):
            continue
        value = _computed(graph, node)
        if not isinstance(value, torch.Tensor):
            continue
        kept = _keep(graph, value, before=node)
        if all(source.target in made for source in sources):
            made.add(kept.target)
        node.replace_all_uses_with(kept)
        graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code()
    return _with_own_outputs(graph)


def write_in_place(
    graph: torch.fx.GraphModule,
) -> tuple[torch.fx.GraphModule, list[int]]:
    """Lets a recorded graph update in place the arguments that it only writes to.

    Args:
        graph: As for `eliminate_common_subexpressions`.

    Returns:
        The same graph, changed, and the numbers of the arguments that it writes into.
    """
    written = []
    for n, node in enumerate(graph.graph.find_nodes(op="placeholder")):
        users = list(node.users)
        if len(users) != 1 or users[0].target is not aten.index_put.default:
            continue
        if users[0].args[0] is node and node not in users[0].args[1:]:
            users[0].target = aten.index_put_.default
            written.append(n)
    return graph, written


def bind_builtins(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Replaces operations of `torch.ops.aten` by methods and functions of `torch`.

    They take half of the time, and weights become attributes. This is the last pass:
    the others recognize operations by their names in `aten`.

    Args:
        graph: As for `eliminate_common_subexpressions`, like what comes back.
    """
    for node in list(graph.graph.nodes):
        if node.op == "get_attr":
            graph.__dict__[node.target] = getattr(graph, node.target)
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if node.target is aten._to_copy.default and node.kwargs.keys() == {"dtype"}:
            node.op, node.target = "call_method", "to"
            continue
        name = node.target._schema.name.removeprefix("aten::")
        first = [argument.name for argument in node.target._schema.arguments[:1]]
        method = getattr(torch.Tensor, name, None)
        if first == ["self"] and isinstance(method, types.MethodDescriptorType):
            node.op, node.target = "call_method", name
            continue
        for place in (torch, torch._C._nn):
            function = getattr(place, name, None)
            if isinstance(function, types.BuiltinFunctionType):
                node.target = function
                break
    graph.graph.lint()
    graph.recompile()
    return graph


def _draws(node: torch.fx.Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _view_at_once(node: torch.fx.Node) -> None:
    """A view of a view, if it is, as one of what lies in a row."""
    if node.target is not aten.view.default:
        return
    before = node.args[0]
    if before.target is aten.view.default and _value(before.args[0]).is_contiguous():
        node.args = (before.args[0], list(_value(node).shape))


def _is_its_input(node: torch.fx.Node) -> bool:
    """Whether an operation returns its input unchanged."""
    if node.target in COPIES:
        return not node.kwargs
    if node.target not in SAME_IF_SHAPED_ALIKE:
        return False
    return _value(node).shape == _value(node.args[0]).shape


def _value(node: torch.fx.Node) -> torch.Tensor:
    """A tensor without numbers like the one that a node gives."""
    return node.meta["val"]


def _is_view(node: torch.fx.Node) -> bool:
    """Whether an operation moves nothing."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    aliases = [result.alias_info for result in schema.returns]
    return all(alias is not None and not alias.is_write for alias in aliases)


def _computed(graph: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
    def known(source: torch.fx.Node) -> torch.Tensor:
        if source.op == "get_attr":
            return getattr(graph, source.target)
        like = _value(source)  # its numbers do not count
        return torch.empty_strided(
            like.shape, like.stride(), dtype=like.dtype, device=like.device
        )

    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), known)
    with torch.no_grad():
        return node.target(*args, **kwargs)


def _keep(
    graph: torch.fx.GraphModule, value: torch.Tensor, *, before: torch.fx.Node
) -> torch.fx.Node:
    """The node of a tensor that the graph holds from now on."""
    name = f"_kept{len(graph._buffers)}"
    graph.register_buffer(name, value, persistent=False)
    with graph.graph.inserting_before(before):
        node = graph.graph.get_attr(name)
    node.meta["val"] = value
    return node


def _with_own_outputs(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """What comes out may be written into by the next call: it is no constant."""
    output = graph.graph.output_node()
    with graph.graph.inserting_before(output):
        output.args = torch.fx.node.map_arg(
            output.args,
            lambda node: (
                graph.graph.call_function(aten.clone.default, (node,))
                if node.op == "get_attr"
                else node
            ),
        )
    return graph

"""From one step of a cell to what its loop computes, forward and backward."""

import dataclasses
from collections.abc import Callable, Sequence, Set
from typing import Any

import keras

from kerasseq.kernels.derived.gradient import Backward, backward
from kerasseq.kernels.derived.graph import (
    BOOLEAN,
    HEAVY,
    INPUT,
    LEAVES,
    MASK,
    STATE,
    Graph,
    Value,
    walk,
)
from kerasseq.kernels.derived.trace import Parameters, trace


@dataclasses.dataclass
class Derived:
    """What the loop of a cell computes at each step.

    Attributes:
        graph: The graph of all values.
        new_states: The states after the step.
        output: Which of the states is the output.
        extra: Whether that state is one that the loop adds, since the cell has an
            output that is none of its states. It comes last, and starts with zeros.
        backward: The gradients, of which a `GRADIENT` leaf k is the gradient of new
            state k.
        kept: The values that the backward pass reads besides leaves and states; all
            others of the forward pass are computed again from these.
        parameters: Function from the values of the cell's variables to the parameters,
            which `keras.ops` computes and the backend differentiates.
        compiled: What a backend made of it, by its options.
    """

    graph: Graph
    new_states: list[Value]
    output: int
    extra: bool
    backward: Backward
    kept: list[Value]
    parameters: Parameters
    compiled: dict[Any, Any] = dataclasses.field(default_factory=dict)


def derive(
    cell: keras.Layer,
    step: Callable[..., tuple[Any, Any]],
    *,
    width: int,
    states: Sequence[int],
    noise: Sequence[int] | int | None = None,
    masked: bool = False,
    training: bool = False,
    dtype: str = "float32",
) -> Derived:
    """Derives the loop of a cell from its step.

    Args:
        cell: A built cell.
        step: Function `(cell, x, states) -> (output, new states)`.
        width: Size of the input x of a step, `(batch, width)`.
        states: Size of each state.
        noise: Size of the mask of recurrent dropout, a list of sizes if each gate has
            its own, None without dropout.
        masked: Whether a mask leaves states unchanged at some steps.
        training: Whether dropout is on.
        dtype: That of all values.

    Raises:
        NotDerivable: If the step has something that a graph does not have. The message
            says what.
    """
    traced = trace(
        cell,
        step,
        width=width,
        states=states,
        noise=noise,
        training=training,
        dtype=dtype,
    )
    graph, new = traced.graph, list(traced.new_states)
    places = [k for k, value in enumerate(new) if value is traced.output]
    if not places:
        new.append(traced.output)
    if masked:
        real = graph.make(MASK, width=1)
        new = [
            graph.make("where", real, value, _state(graph, k, value))
            for k, value in enumerate(new)
        ]
    back = backward(graph, new, len(new))
    output = places[0] if places else len(new) - 1
    kept = to_keep(new, back)
    return Derived(graph, new, output, not places, back, kept, traced.parameters)


def _state(graph: Graph, k: int, value: Value) -> Value:
    return graph.make(STATE, width=value.width, detail=k)


def to_keep(new_states: Sequence[Value], back: Backward) -> list[Value]:
    """Chooses the values that the forward pass keeps for the backward pass.

    Results of activations, sums and products are kept; a value that follows quickly
    from a single one of them is computed again. New states are known anyway.
    """
    needed = _read_by(back)
    chosen: dict[Value, None] = {}
    for value in needed:
        roots = _roots(value, set(new_states))
        if len(roots) == 1 and roots <= needed.keys():
            chosen[roots.pop()] = None
        elif roots:
            chosen[value] = None
    return [v for v in chosen if not _follows(v, chosen.keys() | set(new_states))]


def _follows(value: Value, kept: Set[Value]) -> bool:
    """Whether a value follows quickly from others that are kept."""
    if value.op in HEAVY or value.op == INPUT:
        return False
    return all(a in kept or _follows(a, kept) for a in value.args)


def _read_by(back: Backward) -> dict[Value, None]:
    """The values of the forward pass that the backward pass reads."""
    wanted = [d for d in (back.input, *back.states) if d is not None]
    wanted += [value for p in back.products for value in (p.left, p.right)]
    wanted += [total.value for total in back.totals]
    read = [v for v in wanted if not v.backward]
    read += [a for v in walk(wanted) if v.backward for a in v.args if not a.backward]
    while any(v.op in BOOLEAN or v.op == "broadcast" for v in read):
        read = [  # comparisons from what they compare
            a
            for v in read
            for a in (v.args if v.op in BOOLEAN or v.op == "broadcast" else [v])
        ]
    return dict.fromkeys(v for v in read if v.op not in LEAVES)


def _roots(value: Value, states: set[Value]) -> set[Value]:
    """The values that take long to compute, from which a value follows quickly."""
    if value in states or value.op in LEAVES and value.op != INPUT:
        return set()
    if value.op in HEAVY or value.op == INPUT:
        return {value}
    return set().union(*(_roots(a, states) for a in value.args))

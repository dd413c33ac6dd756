"""From one step of a cell to what its loop computes, forward and backward."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras

from kerasseq.core.types import Tensor
from kerasseq.kernels.derived.ahead import take_ahead
from kerasseq.kernels.derived.evaluate import evaluate, leaves
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
from kerasseq.kernels.derived.trace import Parameters, Rows, trace


@dataclasses.dataclass
class Derived:
    """What the loop of a cell computes at each step.

    Attributes:
        graph: The graph of all values.
        ahead: What is computed of the inputs of all steps before the loop, and is its
            input; None if the loop takes the inputs as they are.
        new_states: The states after the step.
        output: Which of the states is the output.
        extra: Whether that state is one that the loop adds, since the cell has an
            output that is not one of its states. It comes last, and starts with zeros.
        backward: The gradients, of which a `GRADIENT` leaf k is the gradient of new
            state k.
        kept: The values that the backward pass reads besides leaves and states; all
            others of the forward pass are computed again from these.
        rows: The tensors of the step, and their values.
        compiled: What a backend made of it, by its options.
    """

    graph: Graph
    ahead: Value | None
    new_states: list[Value]
    output: int
    extra: bool
    backward: Backward
    kept: list[Value]
    rows: Rows
    compiled: dict[Any, Any] = dataclasses.field(default_factory=dict)

    @property
    def parameters(self) -> Parameters:
        """Function from the values of the cell's variables to the parameters.

        `keras.ops` computes them, and the backend differentiates them.
        """
        return self.rows.parameters

    def take_ahead(
        self, x: Tensor, parameters: Sequence[Tensor], noise: Sequence[Tensor] = ()
    ) -> Tensor:
        """Computes what the loop takes at all steps.

        Args:
            x: What `step` takes, `(T, B, N)`.
            parameters: As `parameters` returns them.
            noise: The masks of recurrent dropout, each `(B, n)`.
        """
        if self.ahead is None:
            return x
        known = leaves([self.ahead], x, [], parameters, noise)
        return evaluate([self.ahead], known, x)[0]


def derive(
    cell: keras.Layer,
    step: Callable[..., tuple[Any, Any]],
    *,
    masked: bool = False,
    whole: bool = False,
    **options: Any,
) -> Derived:
    """Derives the loop of a cell from its step.

    Args:
        cell: A built cell.
        step: Function `(cell, x, states) -> (output, new states)`.
        masked: Whether a mask leaves states unchanged at some steps.
        whole: Whether a step keeps what depends on its input alone, as it is written.
        **options: The sizes and the dtype, see `trace`.

    Raises:
        NotDerivable: If the step has something that a graph does not have. The message
            says what.
    """
    traced = trace(cell, step, **options)
    graph = traced.graph
    places = [k for k, v in enumerate(traced.new_states) if v is traced.output]
    new = [*traced.new_states, *([] if places else [traced.output])]
    ahead, new = (None, new) if whole else take_ahead(graph, new)
    if masked:
        real = graph.make(MASK, width=1)
        new = [
            graph.make("where", real, value, _state(graph, k, value))
            for k, value in enumerate(new)
        ]
    back = backward(graph, new, len(new))
    output = places[0] if places else len(new) - 1
    kept = to_keep(new, back)
    return Derived(graph, ahead, new, output, not places, back, kept, traced.rows)


def _state(graph: Graph, k: int, value: Value) -> Value:
    return graph.make(STATE, width=value.width, detail=k)


def to_keep(new_states: Sequence[Value], back: Backward) -> list[Value]:
    """Chooses the values that the forward pass keeps for the backward pass.

    Results of activations, sums and products are kept; a value that follows quickly
    from these is computed again. New states are known anyway.
    """
    needed = _read_by(back)
    known: dict[Value, bool] = dict.fromkeys(new_states, True)
    chosen = []
    for value in walk(list(needed)):
        known.setdefault(value, _is_quick(value, known))
        if value in needed and not known[value]:
            chosen.append(value)
            known[value] = True
    return chosen


def _is_quick(value: Value, known: dict[Value, bool]) -> bool:
    """Returns whether a value is a leaf, or is quick to compute from what is known."""
    if value.op in LEAVES:
        return value.op != INPUT
    return value.op not in HEAVY and all(known[a] for a in value.args)


def _read_by(back: Backward) -> dict[Value, None]:
    """Returns the values of the forward pass that the backward pass reads."""
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

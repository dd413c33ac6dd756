"""Takes out of a step what depends on its input alone: computed for all steps at once.

A cell of Keras multiplies its input by the kernel at each step. One product over all
steps is faster, as with `project` of our cells. What takes little time, such as to add
a bias, stays in the step, which adds up its gradient without rounding it at each step.
"""

from collections.abc import Sequence

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


def take_ahead(
    graph: Graph, values: Sequence[Value]
) -> tuple[Value | None, list[Value]]:
    """Splits a step into what is computed before the loop, and the rest.

    Args:
        graph: The graph that the values belong to.
        values: The results of a step.

    Returns:
        The value to compute from the inputs of all steps, and the results as values of
        a step whose input it is. It is None if the step does no more than to cut its
        input into parts.
    """
    order = list(walk(values))
    early = _early(order)
    ahead = _read_late(values, {v for v in early if v.op in HEAVY or v.op == INPUT})
    if all(v.op == INPUT for v in ahead):
        return None, list(values)
    x = graph.make(INPUT, width=sum(v.width for v in ahead))
    found, start = {}, 0
    for value in ahead:
        found[value] = graph.slice(x, start, value.width)
        start += value.width
    for v in order:
        if v not in found:
            args = [found[a] for a in v.args]
            found[v] = v
            if args:
                found[v] = graph.make(v.op, *args, width=v.width, detail=v.detail)
    return graph.concatenate(ahead), [found[v] for v in values]


def _read_late(values, ahead) -> list[Value]:
    """Those of the values computed ahead that the rest of the step reads."""
    found: dict[Value, None] = {}
    seen: set[Value] = set()
    stack = list(reversed(values))
    while stack:
        value = stack.pop()
        if value in ahead:
            found[value] = None
        elif value not in seen:
            seen.add(value)
            stack += reversed(value.args)
    return list(found)


def _early(order) -> set[Value]:
    """The values that depend on the input, and else on what all steps share."""
    fixed, early = set(), set()
    for v in order:
        if v.op in LEAVES:
            places = {INPUT: early, STATE: set(), MASK: set()}
            places.get(v.op, fixed).add(v)
        elif v.op not in BOOLEAN and all(a in fixed or a in early for a in v.args):
            (early if any(a in early for a in v.args) else fixed).add(v)
    return early

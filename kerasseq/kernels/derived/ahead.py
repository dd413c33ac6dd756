"""Takes out of a step what depends on its input alone: computed for all steps at once.

A cell of Keras multiplies its input by the kernel at each step. One product over all
steps is faster, as with `project` of our cells. What takes little time, such as to add
a bias, stays in the step, which adds up its gradient without rounding it at each step.
"""

from collections.abc import Collection, Sequence

from kerasseq.kernels.derived.graph import (
    BOOLEAN,
    HEAVY,
    INPUT,
    LEAVES,
    MASK,
    STATE,
    Graph,
    Value,
    between,
    walk,
)

# Operations that XLA computes again for each use, although they take long.
ACTIVATIONS = {"tanh", "sigmoid", "exp", "expm1", "log", "log1p", "sin", "cos", "erf"}


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
    early = {v for v in _early(order) if v.op in HEAVY or v.op == INPUT}
    ahead = [v for v in between(values, early) if v in early]
    if all(v.op == INPUT for v in ahead):
        return None, list(values)
    x = graph.make(INPUT, width=sum(v.width for v in ahead))
    replaced, start = {}, 0
    for value in ahead:
        replaced[value] = graph.slice(x, start, value.width)
        start += value.width
    for v in order:
        if v not in replaced:
            args = [replaced[a] for a in v.args]
            replaced[v] = v
            if args:
                replaced[v] = graph.make(v.op, *args, width=v.width, detail=v.detail)
    return graph.concatenate(ahead), [replaced[v] for v in values]


def _early(order) -> set[Value]:
    """Returns the values that depend on the input, and else on what all steps share."""
    fixed, early = set(), set()
    for v in order:
        if v.op in LEAVES:
            places = {INPUT: early, STATE: set(), MASK: set()}
            places.get(v.op, fixed).add(v)
        elif v.op not in BOOLEAN and all(a in fixed or a in early for a in v.args):
            (early if any(a in early for a in v.args) else fixed).add(v)
    return early


def carried(values: Sequence[Value], fixed: Collection[Value] = ()) -> list[Value]:
    """Returns the values that a loop of XLA computes at the end of the step before.

    These are the first activations of a step, and products that come before them. XLA
    computes a carried value once, but a value inside a step again for each of its uses.

    Args:
        values: The results of a step.
        fixed: Values that are the same at all steps.
    """
    order = [v for v in between(values, fixed) if v not in fixed]
    first: set[Value] = set()
    late: set[Value] = set()  # follow an activation, or depend on the mask
    products: set[Value] = set()  # depend on a product
    for v in order:
        if v.op == MASK or any(a in late or a in first for a in v.args):
            late.add(v)
        elif v.op in ACTIVATIONS:
            first.add(v)
        if v.op == "matmul" or any(a in products for a in v.args):
            products.add(v)
    if not first:
        return []
    read = {*values, *(a for v in late for a in v.args)}
    ahead = (first | products) - late
    return [v for v in order if v in read and v in ahead]

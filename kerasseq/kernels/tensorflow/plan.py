"""What the loops of a derived recurrence compute at each step, keep and write.

The backward pass is cut in two: what the gradients of the states need stays in the
loop; all else is computed once for all steps after the loop.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.derived.graph import (
    GRADIENT,
    INPUT,
    LEAVES,
    MASK,
    NUMBER,
    STATE,
    Value,
    walk,
)

# Leaves that have another value at each step.
CHANGING = {INPUT, MASK, STATE, GRADIENT}
# Operations that compilers compute again for each use, although they take long.
ACTIVATIONS = {"tanh", "sigmoid", "exp", "expm1", "log", "log1p", "erf", "sin", "cos"}

Part: TypeAlias = tuple[Value, int]  # of a value, from a unit on
Tiles: TypeAlias = dict[Value, list[int]]  # the widths into which a value is split


@dataclasses.dataclass
class Plan:
    """The parts of a derived recurrence.

    Attributes:
        derived: The recurrence.
        leaves: All its leaves but numbers.
        fixed: Values that are the same at all steps.
        ahead: Values up to the first activations of a step.
        kept: Values that the loop forward writes for the backward pass.
        before: The gradients of the states before a step, as far as there are any.
        read: Values that the loop backward reads at each step.
        written: Values that the loop backward writes at each step.
        parts: Values that are a part of one of `written`, and are found from it.
        after: Values of the forward pass that are read after the loops.
        tiles: How values are split, forward and backward.
    """

    derived: Derived
    leaves: list[Value]
    fixed: list[Value]
    ahead: list[Value]
    kept: list[Value]
    before: list[Value]
    read: list[Value]
    written: list[Value]
    parts: dict[Value, Part]
    after: list[Value]
    tiles: tuple[Tiles, Tiles]


def make(derived: Derived) -> Plan:
    """Plans the loops of a derived recurrence."""
    new, back = derived.new_states, derived.backward
    before = [d for d in back.states if d is not None]
    after = [] if back.input is None else [back.input]
    after += [v for p in back.products for v in (p.left, p.right)]
    after += [total.value for total in back.totals]

    every = list(walk([*new, *before, *after]))
    leaves = [v for v in every if v.op in LEAVES and v.op != NUMBER]
    changing = _depending(every, lambda v: v.op in CHANGING)
    fixed = [v for v in every if v not in changing and v not in leaves]

    known = {*derived.kept, *new, *fixed, *leaves}
    in_loop = {v for v in walk(before) if v.backward}
    read, inside = _between(before, known)
    last, _ = _between(after, known | in_loop)
    written, parts = _without_parts([v for v in last if v.backward])

    read = [v for v in read if v in changing and v.op != GRADIENT]
    last = [v for v in last if v in changing and not v.backward]
    kept = [v for v in dict.fromkeys([*read, *last]) if v.op not in (INPUT, MASK)]
    return Plan(
        derived,
        leaves,
        fixed,
        _ahead(new, kept, changing),
        kept,
        before,
        read,
        written,
        parts,
        last,
        (_tiles(walk([*new, *kept])), _tiles(inside)),
    )


def _depending(order: Iterable[Value], condition: Callable) -> set[Value]:
    """The values that meet a condition or depend on one that does."""
    found: set[Value] = set()
    for value in order:  # each after its arguments
        if condition(value) or any(a in found for a in value.args):
            found.add(value)
    return found


def _between(
    targets: Sequence[Value], known: Collection[Value]
) -> tuple[list[Value], list[Value]]:
    """The known values from which targets are computed, and those in between."""
    found: dict[Value, None] = {}
    inside: dict[Value, None] = {}
    stack = list(reversed(targets))
    while stack:
        value = stack.pop()
        if value in known:
            found[value] = None
        elif value not in inside:
            inside[value] = None
            stack += reversed(value.args)
    return list(found), list(inside)


def _without_parts(values):
    """Leaves out values that are a part of another one."""
    parts: dict[Value, Part] = {}
    for whole in values:
        start = 0
        for part in whole.args if whole.op == "concatenate" else ():
            if part in values:
                parts[part] = whole, start
            start += part.width
    return [v for v in values if v not in parts], parts


def _ahead(new_states, kept, changing) -> list[Value]:
    """Cuts a step behind its first activations; none if nothing follows them."""
    first: set[Value] = set()
    late: set[Value] = set()
    order = list(walk([*new_states, *kept]))
    for v in order:
        if any(a in first or a in late for a in v.args):
            late.add(v)
        elif v.op in ACTIVATIONS and v in changing:
            first.add(v)
    if not late.intersection(new_states):
        return []
    used = [a for v in order if v in late for a in v.args]
    used = [v for v in dict.fromkeys([*used, *new_states, *kept]) if v in changing]
    return [v for v in used if v not in late and not _of_leaf(v)]


def _of_leaf(v) -> bool:
    return v.op in LEAVES or v.op == "slice" and v.args[0].op in LEAVES


def _tiles(values: Iterable[Value]) -> Tiles:
    """The widths into which slices divide a value, for values that they divide."""
    slices: dict[Value, set[tuple[int, int]]] = {}
    for v in values:
        if v.op == "slice":
            slices.setdefault(v.args[0], set()).add((v.detail, v.width))
    found = {}
    for source, pairs in slices.items():
        edges = sorted(pairs)
        ends = [start + width for start, width in edges]
        if [start for start, _ in edges] == [0, *ends[:-1]] and ends[
            -1
        ] == source.width:
            found[source] = [width for _, width in edges]
    return found

"""What the loops of a derived recurrence compute at each step, keep and write.

All but the products that are gradients of matrices is computed inside the loops, where
the numbers of a step are in the processor's cache.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import TypeAlias

from kerasseq.kernels.derived.ahead import carried
from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.derived.graph import (
    GRADIENT,
    INPUT,
    LEAVES,
    MASK,
    NOISE,
    NUMBER,
    STATE,
    Value,
    between,
    walk,
)

# Leaves that have another value at each step.
CHANGING = {INPUT, MASK, STATE, GRADIENT}

Tiles: TypeAlias = dict[Value, list[int]]  # the widths into which a value is split


@dataclasses.dataclass
class Plan:
    """The parts of a derived recurrence.

    Attributes:
        derived: The recurrence.
        leaves: All its leaves but numbers.
        fixed: Values that are the same at all steps.
        ahead: Values up to the first activations of a step.
        kept: Values that the loop forward writes.
        read: Values that the loop backward reads at each step.
        before: The gradients of the states before a step, as far as there are any.
        written: Values that the loop backward writes at each step.
        totals: Values that it adds up, by the number of a parameter.
        tiles: How values are split, forward and backward.
    """

    derived: Derived
    leaves: list[Value]
    fixed: list[Value]
    ahead: list[Value]
    kept: list[Value]
    read: list[Value]
    before: list[Value]
    written: list[Value]
    totals: dict[int, Value]
    tiles: tuple[Tiles, Tiles]

    @property
    def backward(self) -> list[Value]:
        """All values that a step of the loop backward computes."""
        return [*self.before, *self.totals.values(), *self.written]


def make(derived: Derived) -> Plan:
    """Plans the loops of a derived recurrence."""
    new, back = derived.new_states, derived.backward
    before = [d for d in back.states if d is not None]
    totals: dict[int, Value] = {}
    for total in back.totals:
        k = total.parameter
        totals[k] = totals[k] + total.value if k in totals else total.value
    after = [] if back.input is None else [back.input]
    after += [v for p in back.products for v in (p.right, p.left)]

    every = list(walk([*new, *before, *totals.values(), *after]))
    leaves = [v for v in every if v.op in LEAVES and v.op != NUMBER]
    changing = _depending(every, lambda v: v.op in CHANGING)
    fixed = [v for v in every if v not in changing and v not in leaves]

    known = {*derived.kept, *new, *leaves}
    written = [
        v for v in dict.fromkeys(after) if v not in known or v.op in (GRADIENT, NOISE)
    ]
    known.update(fixed)
    order = list(between([*before, *totals.values(), *written], known))
    read = [v for v in order if v in known & changing and v.op != GRADIENT]
    kept = dict.fromkeys([*read, *(v for v in after if v not in written)])
    kept = [v for v in kept if v.op == STATE or v.op not in LEAVES]
    return Plan(
        derived,
        leaves,
        fixed,
        carried([*new, *kept], fixed),
        kept,
        read,
        before,
        written,
        totals,
        (_tiles(walk([*new, *kept])), _tiles(v for v in order if v not in known)),
    )


def _depending(order: Iterable[Value], condition: Callable) -> set[Value]:
    """The values that meet a condition or depend on one that does."""
    found: set[Value] = set()
    for value in order:  # each after its arguments
        if condition(value) or any(a in found for a in value.args):
            found.add(value)
    return found


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

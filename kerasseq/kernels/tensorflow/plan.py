"""What the loops of a derived recurrence compute at each step, keep and write.

All but the products that are gradients of matrices is computed inside the loops, where
the numbers of a step are in the processor's cache.
"""

import itertools
from collections.abc import Iterable
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


class Plan:
    """The parts of a derived recurrence.

    Attributes:
        derived: The recurrence.
        leaves: All its leaves but numbers.
        fixed: Values that are the same at all steps.
        ahead: Values up to the first activations of a step.
        kept: Values that the loop forward writes.
        read: Values that the loop backward reads at each step.
        written: Values that the loop backward writes at each step.
        totals: Values that it adds up, by the number of a parameter.
        backward: All values that a step of it computes: the gradients of the states
            before the step, as far as there are any, the totals and what is written.
        tiles: How values are split, forward and backward.
    """

    def __init__(self, derived: Derived) -> None:
        self.derived: Derived = derived
        new, back = derived.new_states, derived.backward
        self.totals: dict[int, Value] = {}
        for total in back.totals:
            k, value = total.parameter, total.value
            self.totals[k] = self.totals[k] + value if k in self.totals else value
        after = [] if back.input is None else [back.input]
        after += [v for p in back.products for v in (p.right, p.left)]
        inside = [*(d for d in back.states if d is not None), *self.totals.values()]

        every = list(walk([*new, *inside, *after]))
        self.leaves: list[Value] = [
            v for v in every if v.op in LEAVES and v.op != NUMBER
        ]
        changing: set[Value] = set()
        for v in every:  # each after its arguments
            if v.op in CHANGING or not changing.isdisjoint(v.args):
                changing.add(v)
        self.fixed: list[Value] = [
            v for v in every if v not in changing and v not in self.leaves
        ]
        known = {*derived.kept, *new, *self.leaves}
        self.written: list[Value] = [
            v
            for v in dict.fromkeys(after)
            if v not in known or v.op in (GRADIENT, NOISE)
        ]
        known.update(self.fixed)
        self.backward: list[Value] = [*inside, *self.written]
        order = list(between(self.backward, known))
        given = {v for v in known & changing if v.op != GRADIENT}
        self.read: list[Value] = [v for v in order if v in given]
        kept = dict.fromkeys([*self.read, *(v for v in after if v not in self.written)])
        self.kept: list[Value] = [
            v for v in kept if v.op == STATE or v.op not in LEAVES
        ]
        self.ahead: list[Value] = carried([*new, *self.kept], {*self.fixed})
        forward = _tiles(walk([*new, *self.kept]))
        self.tiles: tuple[Tiles, Tiles] = (
            forward,
            _tiles(v for v in order if v not in known),
        )


def _tiles(values: Iterable[Value]) -> Tiles:
    """Returns the widths into which slices divide a value, by the value."""
    slices: dict[Value, set[tuple[int, int]]] = {}
    for v in values:
        if v.op == "slice":
            slices.setdefault(v.args[0], set()).add((v.detail, v.width))
    tiles = {}
    for source, parts in slices.items():
        starts, widths = zip(*sorted(parts), strict=True)
        if [*starts, source.width] == [*itertools.accumulate(widths, initial=0)]:
            tiles[source] = [*widths]
    return tiles

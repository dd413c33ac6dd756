"""Plans a derived loop: what runs at each step, forward and backward, and after it.

A step alternates between products and a function that computes all that needs no
further product. A function is one loop over the units after another: a sum over the
units takes a loop of its own, before the loop that reads it. A value that is read later
is stored or, where that is quick, computed again.

`emit.py` writes the functions, and `derived.py` runs the plan.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.derived.graph import (
    GRADIENT,
    HEAVY,
    INPUT,
    MASK,
    NOISE,
    PARAMETER,
    STATE,
    Value,
    walk,
)

PRODUCTS = ("matmul", "matmul_transposed")
REDUCTIONS = ("sum", "max")

# Kinds of arrays: what they have a row for.
STEPS = "each step and sequence"
PAIR = "each sequence, at the last two steps"
BATCH = "each sequence"
UNITS = "all steps and sequences together"

# Products, then loops of the same function, that come before.
Time: TypeAlias = tuple[int, int]
Result = TypeVar("Result")


class Array(NamedTuple):
    """Numbers in memory, `width` in a row.

    Those with fixed names: `x`, `mask`, `noise0` …, `parameter0` … and `d_path` are
    given, `state0` … are the states, `kept0` … what the backward pass reads besides,
    `gradient0` … the gradients of the states, `d_x` those of the inputs, `total0` …
    sums over all steps and sequences.
    """

    name: str
    width: int
    kind: str


class Place(NamedTuple):
    """Where a value lies: from column `at` on, in the row of step t + `ahead`."""

    array: Array
    at: int = 0
    ahead: int = 0


class Piece(NamedTuple):
    """Neighboring units of a value."""

    value: Value
    start: int
    width: int


class Job(NamedTuple):
    """What a loop does with a piece.

    Attributes:
        piece: What it computes.
        place: Where it is written; None if it is summed up.
        add: Whether it is added to what is there.
        total: The value, "sum" or "max", that it is a part of.
    """

    piece: Piece
    place: Place | None = None
    add: bool = False
    total: Value | None = None


class Multiply(NamedTuple):
    """A product with a parameter."""

    left: Place
    parameter: int
    transposed: bool
    out: Place


class Function(NamedTuple):
    """What is computed between two products: loops over the units, in order."""

    schedule: "Schedule"
    loops: list[tuple[Time, list[Job]]]


Step: TypeAlias = Multiply | Function


def _found(
    value: Value, known: dict[Value, Result], compute: Callable[[Value], Result]
) -> Result:
    """Returns what is known of a value; it is computed after that of its arguments."""
    if value not in known:
        for each in walk([value]):
            if each not in known:
                known[each] = compute(each)
    return known[value]


class Cuts:
    """Cuts values into pieces that are computed alike, without "slice" and joins."""

    def __init__(self) -> None:
        self._edges: dict[Value, set[int]] = {}

    def __call__(self, value: Value, start: int = 0, width: int = 0) -> list[Piece]:
        """Returns the pieces of the units from `start` on; of all units by default."""
        width = width or value.width
        if value.op == "slice":
            return self(value.args[0], value.detail + start, width)
        if value.op == "concatenate":
            pieces, position = [], 0
            for part in value.args:
                low = max(start, position)
                high = min(start + width, position + part.width)
                if low < high:
                    pieces += self(part, low - position, high - low)
                position += part.width
            return pieces
        inside = (e for e in self._edges_of(value) if start < e < start + width)
        edges = [start, *sorted(inside), start + width]
        return [Piece(value, a, b - a) for a, b in itertools.pairwise(edges)]

    def arguments(self, piece: Piece) -> list[Piece]:
        """Returns the pieces that a piece is computed from.

        They are the same units of each argument, the one that it has for all units, or
        all that it sums up.
        """
        value, start, width = piece
        if value.op in REDUCTIONS:
            return self(value.args[0])
        pieces = []
        for argument in value.args:
            whole = argument.width == value.width
            pieces += self(argument, start, width) if whole else self(argument, 0, 1)
        return pieces

    def _edges_of(self, value: Value) -> set[int]:
        """Returns the units at which another formula begins."""
        return _found(value, self._edges, self._own_edges)

    def _own_edges(self, value: Value) -> set[int]:
        if value.op in (*PRODUCTS, *REDUCTIONS, "slice", "concatenate"):
            return set()
        parts = [self(a) for a in value.args if a.width == value.width]
        return {e for p in parts for e in itertools.accumulate(x.width for x in p)}


class Schedule:
    """Finds out which products and functions one direction of a step has.

    Args:
        known: Where values lie that are not computed in this direction: leaves, in the
            backward pass also new states and what was kept.
        backward: Whether it is the backward pass.
    """

    def __init__(self, known: Mapping[Value, Place], backward: bool) -> None:
        self.known, self.backward, self.cuts = known, backward, Cuts()
        self.used: set[str] = set()  # names of arrays that are read
        self._jobs: dict[tuple[Time, int], list[Job]] = {}  # by the width as well
        self._products: dict[Value, Multiply] = {}
        self._outs: dict[Value, Place] = {}  # where a product is to be written
        self._times: dict[Value, Time] = {}
        # Where pieces lie, and from when on they can be read there.
        self._places: dict[Value, list[tuple[Time, Piece, Place]]] = {}
        self._queue: list[tuple[Piece, Time]] = []
        self._totals: set[Value] = set()
        self._made = 0
        for value, place in known.items():
            for piece, at in self._side_by_side(value, place):
                self._note((0, 0), piece, at)

    def _time(self, value: Value) -> Time:
        """Returns when a value can be computed."""
        return _found(value, self._times, self._own_time)

    def _own_time(self, value: Value) -> Time:
        if value in self.known:
            return 0, 0
        level, stage = max((self._times[a] for a in value.args), default=(0, 0))
        if self._is_product(value):
            return level + 1, 0
        return level, stage + (value.op in REDUCTIONS)

    def _is_product(self, value: Value) -> bool:
        return value.op in PRODUCTS and value.backward == self.backward

    def temporary(self, width: int, kind: str = BATCH) -> Place:
        """Returns a new array of the backward pass, or of a step."""
        self._made += 1
        direction = "backward" if self.backward else "forward"
        return Place(Array(f"{direction}_{self._made}", width, kind))

    def store(self, value: Value, place: Place, *, add: bool = False) -> None:
        """Plans to write a value; with `add` it is added to what is there."""
        if self._is_product(value) and not add and value not in self._outs:
            self._outs[value] = place
            self._queue.append((Piece(value, 0, value.width), self._time(value)))
            return
        for piece, at in self._side_by_side(value, place):
            self._write(Job(piece, at, add))

    def _side_by_side(self, value: Value, at: Place) -> Iterator[tuple[Piece, Place]]:
        for piece in self.cuts(value):
            yield piece, at
            at = at._replace(at=at.at + piece.width)

    def _note(self, ready: Time, piece: Piece, place: Place) -> None:
        self._places.setdefault(piece.value, []).append((ready, piece, place))

    def _write(self, job: Job) -> None:
        level, stage = time = self._time(job.piece.value)
        self._add(time, job)
        if not job.add:
            self._note((level, stage + 1), job.piece, job.place)

    def _add(self, time: Time, job: Job) -> None:
        self._jobs.setdefault((time, job.piece.width), []).append(job)
        self._queue.append((job.piece, time))

    def complete(self) -> list[Step]:
        """Returns what runs at a step, in order.

        This adds products, and stores of what later loops and products read.
        """
        seen: set[tuple[Piece, Time]] = set()
        while self._queue:
            item = self._queue.pop()
            if item not in seen:
                seen.add(item)
                self._need(*item)
        steps: list[Step] = []
        products = [(self._time(v)[0], p) for v, p in self._products.items()]
        loops = [(key[0], self._jobs[key]) for key in sorted(self._jobs)]
        levels = {level for level, _ in products} | {time[0] for time, _ in loops}
        for level in sorted(levels):
            steps += [product for n, product in products if n == level]
            now = [(time, jobs) for time, jobs in loops if time[0] == level]
            steps += [Function(self, now)] if now else []
        return steps

    def _need(self, piece: Piece, time: Time) -> None:
        """Plans what has to be there before a loop can compute a piece, or read it."""
        value, own = piece.value, self._time(piece.value)
        if place := self.find(piece, time):
            self.used.add(place.array.name)
        elif self._is_product(value):
            out = self._outs.get(value) or self.temporary(value.width)
            self._note(own, Piece(value, 0, value.width), out)
            factor, parameter = value.args
            transposed = value.op == "matmul_transposed"
            product = Multiply(self.place(factor), parameter.detail, transposed, out)
            self._products[value] = product
        elif value.op in HEAVY and own < time:
            self._write(Job(piece, self.temporary(piece.width)))
        elif value.op in REDUCTIONS:
            if value not in self._totals:
                self._totals.add(value)
                level, stage = own
                for part in self.cuts.arguments(piece):
                    self._add((level, stage - 1), Job(part, total=value))
        else:
            self._queue += [(part, time) for part in self.cuts.arguments(piece)]

    def find(self, piece: Piece, time: Time) -> Place | None:
        """Finds where a loop reads a piece; None if it computes it."""
        options = self._options(piece)
        return next((place for ready, place in options if ready <= time), None)

    def _options(self, piece: Piece) -> Iterator[tuple[Time, Place]]:
        for ready, known, place in self._places.get(piece.value, ()):
            first = piece.start - known.start
            if first >= 0 and first + piece.width <= known.width:
                yield ready, place._replace(at=place.at + first)

    def place(self, value: Value, *, all_steps: bool = False) -> Place:
        """Returns where a value is contiguous, for products; stores it if needed.

        Args:
            value: A value of this pass, or one that is known.
            all_steps: Whether it must be there for all steps.
        """
        kinds = {STEPS} if all_steps else {STEPS, BATCH}
        if not self.backward:  # gradients of states lack those of the outputs
            kinds.add(PAIR)
        first, *others = self.cuts(value)
        for _, place in self._options(first):
            if place.array.kind in kinds and self._follow(place, first.width, others):
                self.used.add(place.array.name)
                return place
        place = self.temporary(value.width, STEPS if all_steps else BATCH)
        self.store(value, place)
        return place

    def _follow(self, place: Place, width: int, others: Sequence[Piece]) -> bool:
        """Returns whether pieces lie behind the first one."""
        for piece in others:
            next_place = place._replace(at=place.at + width)
            if all(option != next_place for _, option in self._options(piece)):
                return False
            place, width = next_place, piece.width
        return True


@dataclasses.dataclass
class Plan:
    """A loop and its backward pass.

    Attributes:
        output: The state that is the output.
        path: Whether its values at all steps are wanted.
        forward: What runs at a step, in order.
        backward: What runs at a step of the backward pass, empty without one.
        saved: Names of the given and kept arrays that the backward pass reads.
        factors: The gradients of matrices, products over all steps: the number of the
            parameter `(n, m)`, and where the rows `(n,)` and `(m,)` of all steps lie.
        totals: Sums over all steps, with the number of the parameter.
    """

    output: int
    path: bool
    forward: list[Step] = dataclasses.field(default_factory=list)
    backward: list[Step] = dataclasses.field(default_factory=list)
    saved: set[str] = dataclasses.field(default_factory=set)
    factors: list[tuple[int, Place, Place]] = dataclasses.field(default_factory=list)
    totals: list[tuple[int, Array]] = dataclasses.field(default_factory=list)


def make_plan(
    derived: Derived, *, path: bool, wanted: Sequence[bool] | None = None
) -> Plan:
    """Plans a loop.

    Args:
        derived: The step and its gradients.
        path: Whether the outputs of all steps are returned.
        wanted: Whether the gradients of the inputs and of each parameter are wanted;
            None if there is no backward pass.
    """
    plan, new = Plan(derived.output, path), derived.new_states
    kept = {
        v: Place(Array(f"kept{n}", v.width, STEPS)) for n, v in enumerate(derived.kept)
    }
    if wanted is not None:
        _plan_backward(plan, derived, kept, wanted)
    states = []
    for k, value in enumerate(new):
        whole = f"state{k}" in plan.saved or (path and k == derived.output)
        states.append(Array(f"state{k}", value.width, STEPS if whole else PAIR))
    schedule = Schedule(_leaves(new, states), False)
    for value, array in zip(new, states, strict=True):
        schedule.store(value, Place(array, ahead=1))
    for value, place in kept.items():
        if place.array.name in plan.saved:
            schedule.store(value, place)
    plan.forward = schedule.complete()
    return plan


def written(steps: Sequence[Step]) -> list[Array]:
    """Returns the arrays that products and functions write."""
    places: list[Place | None] = []
    for step in steps:
        if isinstance(step, Multiply):
            places.append(step.out)
        else:
            places += [job.place for _, jobs in step.loops for job in jobs]
    return list(dict.fromkeys(place.array for place in places if place))


def _leaves(values: Sequence[Value], states: Sequence[Array]) -> dict[Value, Place]:
    """Returns where the leaves lie that values depend on."""
    kinds = {INPUT: STEPS, MASK: STEPS, NOISE: BATCH, PARAMETER: UNITS}
    places = {}
    for value in walk(values):
        k, width = value.detail, value.width
        if value.op == STATE:
            places[value] = Place(states[k])
        elif value.op == GRADIENT:
            places[value] = Place(Array(f"gradient{k}", width, PAIR), ahead=1)
        elif value.op in kinds:
            name = {INPUT: "x", MASK: "mask"}.get(value.op, f"{value.op}{k}")
            places[value] = Place(Array(name, width, kinds[value.op]))
    return places


def _plan_backward(
    plan: Plan,
    derived: Derived,
    kept: Mapping[Value, Place],
    wanted: Sequence[bool],
) -> None:
    back, (wants_x, *wants), new = derived.backward, wanted, derived.new_states
    products = [p for p in back.products if wants[p.parameter]]
    totals = [t for t in back.totals if wants[t.parameter]]
    values = [v for v in back.states if v is not None]
    values += [v for p in products for v in (p.left, p.right)]
    values += [total.value for total in totals]
    d_x = back.input if wants_x else None
    values += [] if d_x is None else [d_x]
    states = [Array(f"state{k}", value.width, STEPS) for k, value in enumerate(new)]
    known = {v: Place(a, ahead=1) for v, a in zip(new, states, strict=True)}
    known |= _leaves([*values, *new], states) | kept
    schedule = Schedule(known, True)
    if d_x is not None:
        schedule.store(d_x, Place(Array("d_x", d_x.width, STEPS)))
    for p in products:
        left, right = (schedule.place(v, all_steps=True) for v in (p.left, p.right))
        plan.factors.append((p.parameter, left, right))
    for n, total in enumerate(totals):
        array = Array(f"total{n}", total.value.width, UNITS)
        plan.totals.append((total.parameter, array))
        schedule.store(total.value, Place(array), add=True)
    for k, d in enumerate(back.states):
        width, zero = new[k].width, derived.graph.number(0)
        if d is None:
            d = derived.graph.make("broadcast", zero, width=width)
        schedule.store(d, Place(Array(f"gradient{k}", width, PAIR)))
    plan.backward = schedule.complete()
    plan.saved = schedule.used & {place.array.name for place in known.values()}

"""Plans a derived loop: what runs at each step, forward and backward, and after it.

`schedule.py` orders products and functions, `emit.py` writes the functions, and
`derived.py` runs the plan.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.derived.graph import (
    GRADIENT,
    INPUT,
    MASK,
    NOISE,
    PARAMETER,
    STATE,
    Value,
    walk,
)
from kerasseq.kernels.torch.schedule import (
    BATCH,
    PAIR,
    PRODUCTS,
    STEPS,
    UNITS,
    Array,
    Cuts,
    Function,
    Multiply,
    Place,
    Schedule,
)


class Factors(NamedTuple):
    """A product over all steps, a part of the gradient of a matrix.

    Attributes:
        parameter: The number of the matrix `(n, m)`.
        left: Where the rows `(n,)` of all steps lie.
        right: Where the rows `(m,)` lie.
        shape: `(n, m)`.
    """

    parameter: int
    left: Place
    right: Place
    shape: tuple[int, int]


@dataclasses.dataclass
class Plan:
    """A loop and its backward pass.

    Attributes:
        forward: What runs at a step, in order.
        backward: What runs at a step of the backward pass, empty without one.
        saved: Names of the given and kept arrays that the backward pass reads.
        factors: Products after the backward pass.
        totals: Sums over all steps, with the number of the parameter.
        d_x: The gradients of the inputs, or None.
        output: The state that is the output.
        path: Whether its values at all steps are wanted.
    """

    output: int
    path: bool
    forward: list[Multiply | Function] = dataclasses.field(default_factory=list)
    backward: list[Multiply | Function] = dataclasses.field(default_factory=list)
    saved: set[str] = dataclasses.field(default_factory=set)
    factors: list[Factors] = dataclasses.field(default_factory=list)
    totals: list[tuple[int, Array]] = dataclasses.field(default_factory=list)
    d_x: Array | None = None


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
    pieces, plan = Cuts(), Plan(derived.output, path)
    kept = {
        v: Place(Array(f"kept{n}", v.width, STEPS)) for n, v in enumerate(derived.kept)
    }
    if wanted is not None:
        _plan_backward(plan, derived, kept, pieces, wanted)
    states = []
    for k, value in enumerate(derived.new_states):
        whole = f"state{k}" in plan.saved or (path and k == derived.output)
        states.append(Array(f"state{k}", value.width, STEPS if whole else PAIR))
    schedule = Schedule(_leaves(derived.new_states, states), False, pieces)
    for value, array in zip(derived.new_states, states, strict=True):
        schedule.store(value, Place(array, ahead=1))
    for value, place in kept.items():
        if place.array.name in plan.saved:
            schedule.store(value, place)
    plan.forward = schedule.complete()
    return plan


def written(steps: Sequence[Multiply | Function]) -> list[Array]:
    """Returns the arrays that products and functions write."""
    found: dict[Array, None] = {}
    for step in steps:
        places = (
            [step.out]
            if isinstance(step, Multiply)
            else [store.place for store in step.stores]
        )
        found.update(dict.fromkeys(place.array for place in places))
    return list(found)


def _leaves(values: Sequence[Value], states: Sequence[Array]) -> dict[Value, Place]:
    """Where the leaves lie that values depend on."""
    found = {}
    for value in walk(values):
        k, width = value.detail, value.width
        if value.op == STATE:
            found[value] = Place(states[k])
        elif value.op == GRADIENT:
            found[value] = Place(Array(f"gradient{k}", width, PAIR), ahead=1)
        elif value.op in (INPUT, MASK):
            name = {INPUT: "x", MASK: "mask"}[value.op]
            found[value] = Place(Array(name, width, STEPS))
        elif value.op in (NOISE, PARAMETER):
            kind = BATCH if value.op == NOISE else UNITS
            found[value] = Place(Array(f"{value.op}{k}", width, kind))
    return found


def _plan_backward(
    plan: Plan,
    derived: Derived,
    kept: Mapping[Value, Place],
    pieces: Cuts,
    wanted: Sequence[bool],
) -> None:
    back, (wants_x, *wants) = derived.backward, wanted
    products = [p for p in back.products if wants[p.parameter]]
    totals = [t for t in back.totals if wants[t.parameter]]
    values = [v for v in back.states if v is not None]
    values += [v for p in products for v in (p.left, p.right)]
    values += [total.value for total in totals]
    if wants_x and back.input is not None:
        plan.d_x = Array("d_x", back.input.width, STEPS)
        values.append(back.input)
    states = [
        Array(f"state{k}", value.width, STEPS)
        for k, value in enumerate(derived.new_states)
    ]
    leaves = _leaves([*values, *derived.new_states], states)
    new = {
        value: Place(array, ahead=1)
        for value, array in zip(derived.new_states, states, strict=True)
    }
    known = new | leaves | kept
    schedule = Schedule(known, True, pieces)
    if plan.d_x:
        schedule.store(back.input, Place(plan.d_x))
    for p in products:
        left, right = (_all_steps(schedule, v) for v in (p.left, p.right))
        shape = p.left.width, p.right.width
        plan.factors.append(Factors(p.parameter, left, right, shape))
    for n, total in enumerate(totals):
        array = Array(f"total{n}", total.value.width, UNITS)
        plan.totals.append((total.parameter, array))
        schedule.store(total.value, Place(array), add=True, readable=False)
    _plan_states(schedule, derived, values)
    plan.backward = schedule.complete()
    plan.saved = schedule.used & {place.array.name for place in known.values()}


def _all_steps(schedule: Schedule, value: Value) -> Place:
    """Where a value lies for all steps; it is stored if it does not yet."""
    place = schedule.locate(value, all_steps=True)
    if place is None:
        place = schedule.temporary(value.width, STEPS)
        schedule.store(value, place)
    return place


def _plan_states(schedule: Schedule, derived: Derived, values: Sequence[Value]) -> None:
    """Plans the gradients of the states; products are added to the other terms."""
    uses = Counter(values) + Counter(a for v in walk(values) for a in v.args)
    graph = derived.graph

    def terms(d: Value, width: int) -> list[Value]:
        alone = d.op == "add" and uses[d] == 1
        if alone and all(a.width == width for a in d.args):
            return [t for a in d.args for t in terms(a, width)]
        return [d]

    for k, d in enumerate(derived.backward.states):
        width = derived.new_states[k].width
        place = Place(Array(f"gradient{k}", width, PAIR))
        if d is None:
            d = graph.make("broadcast", graph.number(0), width=width)
        found = terms(d, width)
        products = [t for t in found if t.op in PRODUCTS and uses[t] == 1]
        rest = [t for t in found if t not in products]
        if rest:
            total = functools.reduce(functools.partial(graph.make, "add"), rest)
            schedule.store(total, place, readable=False)
        for n, product in enumerate(products):
            added = bool(rest) or n > 0
            schedule.last.append(schedule.multiply(product, place, added))

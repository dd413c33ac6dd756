r"""The backward pass of one step: the chain rule, operation by operation.

`backward` goes through the values of a step from the last to the first and adds up
$\partial L / \partial v$ of each value v, from the gradients of the new states. The
gradient of a parameter is a sum over all sequences and steps, so that it is left for
after the loop: a `Product`, whose two factors are multiplied once for all steps, or a
`Total`, which is added up.
"""

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Sequence

from kerasseq.kernels.derived.graph import (
    BOOLEAN,
    GRADIENT,
    INPUT,
    LEAVES,
    NUMBER,
    PARAMETER,
    STATE,
    Graph,
    NotDerivable,
    Value,
    make,
    walk,
    where,
)


@dataclasses.dataclass(frozen=True)
class Product:
    r"""A part of the gradient of a matrix: $\sum_t a_t^T d_t$.

    Attributes:
        parameter: The number of the parameter, `(n, m)`.
        left: $a_t$, `(B, n)`.
        right: $d_t$, `(B, m)`.
    """

    parameter: int
    left: Value
    right: Value


@dataclasses.dataclass(frozen=True)
class Total:
    r"""A part of the gradient of a row of numbers: $\sum_t \sum_b d_{t,b}$.

    Attributes:
        parameter: The number of the parameter, `(n,)`.
        value: $d_t$, `(B, n)`.
    """

    parameter: int
    value: Value


@dataclasses.dataclass
class Backward:
    """The gradients of a step; None where the new states do not depend on it.

    Attributes:
        input: That of the input, `(B, N)`.
        states: Those of the states before the step.
        products: What the gradients of matrices are computed from, after the loop.
        totals: What those of rows are computed from.
        of: The gradient of each value, by the value.
    """

    input: Value | None
    states: list[Value | None]
    products: list[Product]
    totals: list[Total]
    of: dict[Value, Value]


def backward(graph: Graph, new_states: Sequence[Value], states: int) -> Backward:
    """Derives the backward pass of a step.

    Args:
        graph: The graph that the values belong to.
        new_states: The states after the step.
        states: How many states there are.

    Raises:
        NotDerivable: If a value is used in a way that has no derivative here.
    """
    gradients: dict[Value, list[Value]] = {}
    parts: dict[Value, list[tuple[int, Value]]] = {}  # gradients of slices
    for k, value in enumerate(new_states):
        d = graph.make(GRADIENT, width=value.width, detail=k)
        gradients.setdefault(value, []).append(d)
    order = list(walk(new_states))
    result = Backward(None, [None] * states, [], [], {})
    for value in reversed(order):
        d = _total(graph, value, gradients.pop(value, []), parts.pop(value, []))
        if d is None or value.op == NUMBER or value.op in BOOLEAN:
            continue
        result.of[value] = d
        if value.op in LEAVES:
            _leave(graph, result, value, d)
        elif value.op == "matmul":
            a, w = value.args
            result.products.append(Product(w.detail, a, d))
            back = make("matmul_transposed", d, w, width=a.width)
            gradients.setdefault(a, []).append(back)
        elif value.op == "slice":
            parts.setdefault(value.args[0], []).append((value.detail, d))
        else:
            for a, more in _arguments(value, d):
                gradients.setdefault(a, []).append(_fit(a, more))
    return result


def _total(graph, value, gradients, parts) -> Value | None:
    """Returns the sum of what flows to a value, and to its slices."""
    rounds = []  # each of slices that do not overlap
    for start, d in sorted(parts, key=lambda part: part[0]):
        for others in rounds:
            if others[-1][0] + others[-1][1].width <= start:
                others.append((start, d))
                break
        else:
            rounds.append([(start, d)])
    for others in rounds:
        row, position = [], 0
        for start, d in others:
            row += _gap(graph, start - position)
            row.append(d)
            position = start + d.width
        row += _gap(graph, value.width - position)
        gradients = [*gradients, graph.concatenate(row)]
    if not gradients:
        return None
    total = functools.reduce(operator.add, gradients)
    return _fit(value, total)


def _gap(graph, width) -> list[Value]:
    zero = graph.number(0)
    return [graph.make("broadcast", zero, width=width)] if width else []


def _leave(graph, result, value, d) -> None:
    """Notes the gradient of a leaf."""
    if value.op == INPUT:
        result.input = d
    elif value.op == STATE:
        result.states[value.detail] = d
    elif value.op == PARAMETER:
        result.totals.append(Total(value.detail, d))


def _fit(value: Value, d: Value) -> Value:
    """Sums the gradient of a value that was used for all units over them."""
    if value.width == d.width:
        return d
    op = "sum" if value.width == 1 else "broadcast"
    return make(op, d, width=value.width)


def _arguments(value: Value, d: Value) -> list[tuple[Value, Value]]:
    """Returns each argument that has a gradient, with this gradient."""
    if value.op not in _RULES:
        raise NotDerivable(f"{value.op} has no derivative here")
    pairs = zip(value.args, _RULES[value.op](value, d), strict=True)
    return [(a, g) for a, g in pairs if g is not None and a.op != NUMBER]


# The derivatives of operations, by their names: each takes a value y and the gradient d
# of y, and returns the gradient of each argument, or None where there is none.


def _multiply(y, d):
    a, b = y.args
    return (2 * d * a, None) if a is b else (d * b, d * a)


def _divide(y, d):
    da = d / y.args[1]
    return da, -(da * y)


def _erf(y, d):
    (x,) = y.args
    return (d * (2 / math.sqrt(math.pi)) * make("exp", -(x * x)),)


def _power(y, d):
    (x,) = y.args
    return (d * y.detail * make("power", x, detail=y.detail - 1),)


def _extreme(y, d):
    a, b = y.args
    first = a > b if y.op == "maximum" else a < b
    tie, half = make("equal", a, b), 0.5 * d  # half to each, as on all backends
    return (
        where(tie, half, where(first, d, 0)),
        where(tie, half, where(first, 0, d)),
    )


def _choice(y, d):
    condition = _sign_of_output(y) or y.args[0]
    return None, where(condition, d, 0), where(condition, 0, d)


def _sign_of_output(y: Value) -> Value | None:
    """Reads the condition of y = max(x, 0) from y, so that x is not kept; else None.

    y is written as a choice between x and 0 by the sign of x.
    """
    condition, *chosen = y.args
    if condition.op not in ("greater", "less_equal"):
        return None
    x, zero = condition.args
    expected = [x, zero] if condition.op == "greater" else [zero, x]
    if (zero.op, zero.detail) != (NUMBER, 0) or chosen != expected:
        return None
    return make(condition.op, y, zero)


def _sum(y, d):
    return (make("broadcast", d, width=y.args[0].width),)


def _max(y, d):  # in equal parts to all that are largest
    largest = make("equal", y.args[0], y)
    shared = d / make("sum", where(largest, 1, 0), width=1)
    return (where(largest, shared, 0),)


def _broadcast(y, d):
    return (make("sum", d, width=1),)


def _concatenate(y, d):
    slices, start = [], 0
    for part in y.args:
        slices.append(d.graph.slice(d, start, part.width))
        start += part.width
    return tuple(slices)


_RULES: dict[str, Callable[[Value, Value], tuple[Value | None, ...]]] = {
    "add": lambda y, d: (d, d),
    "subtract": lambda y, d: (d, -d),
    "negative": lambda y, d: (-d,),
    "absolute": lambda y, d: (d * make("sign", *y.args),),
    "tanh": lambda y, d: (make("tanh_gradient", y, d),),  # (1 - y²) d
    "sigmoid": lambda y, d: (make("sigmoid_gradient", y, d),),  # y (1 - y) d
    "exp": lambda y, d: (d * y,),
    "expm1": lambda y, d: (d * (y + 1),),
    "log": lambda y, d: (d / y.args[0],),
    "log1p": lambda y, d: (d / (y.args[0] + 1),),
    "sqrt": lambda y, d: (d * 0.5 / y,),
    "rsqrt": lambda y, d: (d * -0.5 * (y * y * y),),
    "sin": lambda y, d: (d * make("cos", *y.args),),
    "cos": lambda y, d: (-d * make("sin", *y.args),),
    **dict.fromkeys(("sign", "stop_gradient"), lambda y, d: (None,)),
    "multiply": _multiply,
    "divide": _divide,
    "erf": _erf,
    "power": _power,
    "maximum": _extreme,
    "minimum": _extreme,
    "where": _choice,
    "sum": _sum,
    "max": _max,
    "broadcast": _broadcast,
    "concatenate": _concatenate,
}

"""The values of one step of a cell, as a graph that all backends run.

A step maps rows to rows: each value holds one row of numbers for each sequence. The
operations are few, so that each has a derivative in `gradient.py`, a form in
`keras.ops` in `evaluate.py`, and one in the compiled loops of PyTorch.
"""

import dataclasses
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

# Leaves. `detail` is the number of the state, parameter or mask.
INPUT, STATE, NOISE, MASK = "input", "state", "noise", "mask"
PARAMETER, NUMBER, GRADIENT = "parameter", "number", "gradient"
LEAVES = (INPUT, STATE, NOISE, MASK, PARAMETER, NUMBER, GRADIENT)

# Operations by element, named as in `keras.ops`. A value of width 1 is used for all
# units. The last two are gradients from the output y and its gradient d.
ELEMENTWISE = (
    *("add", "subtract", "multiply", "divide", "negative", "absolute", "sign"),
    *("exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "erf", "power"),
    *("tanh", "sigmoid", "maximum", "minimum", "where", "stop_gradient"),
    *("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"),
    *("logical_and", "logical_or", "logical_not"),
    *("tanh_gradient", "sigmoid_gradient"),
)
# Those that take long to compute again: their results are kept for the backward pass.
HEAVY = {
    *("exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "erf", "power"),
    *("tanh", "sigmoid", "divide", "sum", "max", "matmul"),
}
BOOLEAN = {
    *("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"),
    *("logical_and", "logical_or", "logical_not", MASK),
}


class NotDerivable(Exception):
    """A step has something that a derived loop cannot run; the plain loop runs it."""


Operator: TypeAlias = Callable[["Value", "Operand"], "Value"]


def _operator(op: str, swapped: bool = False) -> Operator:
    """Applies Python's operator to a value and a number, on the left if swapped."""

    def apply(self: "Value", other: "Operand") -> "Value":
        if not isinstance(other, Value):
            other = self.graph.number(other)
        return self.graph.make(op, *((other, self) if swapped else (self, other)))

    return apply


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    """A value of one step.

    Attributes:
        op: A leaf, an operation of `ELEMENTWISE`, or one that knows the units:
            "slice" (from `detail`), "concatenate", "sum" and "max" over the units,
            "broadcast" of one number to all units, "matmul" with a parameter
            `(n, m)`, and "matmul_transposed" with the same parameter.
        args: The values it is computed from.
        width: Numbers in a row; those of a matrix, its columns.
        detail: What else it depends on: the index of a leaf, the number, the exponent
            of "power", the first unit of "slice".
        level: How many products in a row it takes to compute it, among those that
            depend on gradients, or among the others.
        backward: Whether it depends on the gradients of the new states.
        graph: The graph that made it.
    """

    op: str
    args: tuple["Value", ...]
    width: int
    graph: "Graph"
    detail: Any = None
    level: int = 0
    backward: bool = False

    __add__: ClassVar[Operator] = _operator("add")
    __radd__: ClassVar[Operator] = _operator("add", swapped=True)
    __sub__: ClassVar[Operator] = _operator("subtract")
    __rsub__: ClassVar[Operator] = _operator("subtract", swapped=True)
    __mul__: ClassVar[Operator] = _operator("multiply")
    __rmul__: ClassVar[Operator] = _operator("multiply", swapped=True)
    __truediv__: ClassVar[Operator] = _operator("divide")
    __rtruediv__: ClassVar[Operator] = _operator("divide", swapped=True)
    __gt__: ClassVar[Operator] = _operator("greater")
    __lt__: ClassVar[Operator] = _operator("less")

    def __neg__(self) -> "Value":
        return self.graph.make("negative", self)

    def __repr__(self) -> str:
        inside = [
            *map(repr, self.args),
            *([] if self.detail is None else [self.detail]),
        ]
        return f"{self.op}({', '.join(map(str, inside))})"


Operand = Value | float


def make(op: str, *args: Value, **options: Any) -> Value:
    """Returns the value of an operation, in the graph of its arguments."""
    return args[0].graph.make(op, *args, **options)


def where(condition: Value, a: Operand, b: Operand) -> Value:
    """Returns a where the condition holds, else b."""
    number = condition.graph.number
    a, b = (x if isinstance(x, Value) else number(x) for x in (a, b))
    return make("where", condition, a, b)


class Graph:
    """Makes values, each only once, and simplifies them."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Value] = {}

    def make(
        self, op: str, *args: Value, width: int | None = None, detail: Any = None
    ) -> Value:
        """Returns the value of an operation; `width` is that of the widest argument."""
        width = max(a.width for a in args) if width is None else width
        simple = _simpler(self, op, args, width, detail)
        if simple is not None:
            return simple
        key = (op, width, detail, *map(id, args))
        if key not in self._known:
            backward = op == GRADIENT or any(a.backward for a in args)
            level = max((a.level for a in args if a.backward == backward), default=0)
            level += op in ("matmul", "matmul_transposed")
            self._known[key] = Value(op, args, width, self, detail, level, backward)
        return self._known[key]

    def number(self, x: float) -> Value:
        """Returns a number, the same for all sequences and units."""
        return self.make(NUMBER, width=1, detail=float(x))

    def slice(self, value: Value, start: int, width: int) -> Value:
        """Returns the units from `start` on."""
        return self.make("slice", value, width=width, detail=start)

    def concatenate(self, parts: Sequence[Value]) -> Value:
        """Returns values side by side."""
        return self.make("concatenate", *parts, width=sum(p.width for p in parts))


def _is(value: Value, x: float) -> bool:
    return value.op == NUMBER and value.detail == x


_FOLDED = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negative": operator.neg,
}


def _simpler(graph, op, args, width, detail) -> Value | None:
    """Returns an equal value without this operation, or a quicker one, if any."""
    if op in ELEMENTWISE and any(a.op == "broadcast" for a in args):
        return _simpler_row(graph, op, args, width, detail)
    if args and op in _FOLDED and all(a.op == NUMBER for a in args):
        return graph.number(_FOLDED[op](*(a.detail for a in args)))
    if op in ("add", "subtract"):
        return _simpler_sum(op, *args, width)
    if op in ("multiply", "divide"):
        return _simpler_product(op, *args, width)
    if op == "concatenate":
        return _simpler_join(graph, args)
    if op == "slice":
        return _simpler_slice(graph, args[0], detail, width)
    return _simpler_single(op, args, width)


def _simpler_single(op, args, width) -> Value | None:
    """Leaves out an operation that undoes the one before, or does nothing."""
    if op == "negative" and args[0].op == "negative":
        return args[0].args[0]
    if op == "broadcast" and args[0].width == width:
        return args[0]
    return _simpler_total(args[0]) if op == "sum" else None


def _simpler_sum(op, a, b, width) -> Value | None:
    """Returns one of the two, beside 0; or the sum without a change of sign."""
    if _is(b, 0) and a.width == width:
        return a
    if op == "add" and _is(a, 0) and b.width == width:
        return b
    if b.op == "negative":
        return a - b.args[0] if op == "add" else a + b.args[0]
    if op == "add" and a.op == "negative":
        return b - a.args[0]
    if op == "add" and b.op == "multiply":
        x, scale = b.args
        if scale.op == NUMBER and scale.detail < 0:
            return a - x * -scale
    return None


def _simpler_product(op, a, b, width) -> Value | None:
    """Returns one of the two, beside 1, or its negative, beside -1."""
    if _is(b, 1) and a.width == width:
        return a
    if op == "divide":
        return None
    if _is(a, 1) and b.width == width:
        return b
    if _is(b, -1) and a.width == width:
        return -a
    return _gathered(a, b)


def _gathered(a, b) -> Value | None:
    """Moves numbers to the end of a product, where they meet others."""
    if a.op == NUMBER:
        return b * a
    if b.op == NUMBER and a.op == "negative":
        return a.args[0] * -b
    if a.op == "multiply" and a.args[1].op == NUMBER:
        x, scale = a.args
        if b.op == NUMBER:
            return x * (scale * b)
        if b.width <= x.width:
            return x * b * scale
    return None


def _simpler_row(graph, op, args, width, detail) -> Value:
    """Computes with one number for all units as long as possible."""
    short = [a.args[0] if a.op == "broadcast" else a for a in args]
    value = graph.make(op, *short, detail=detail)
    return graph.make("broadcast", value, width=width)


def _simpler_total(value) -> Value | None:
    """Sums before what is alike for all units."""
    if value.op == "broadcast":
        return value.args[0] * value.width
    if value.op == "negative":
        return -make("sum", *value.args, width=1)
    if value.op == "multiply" and min(a.width for a in value.args) < value.width:
        short, row = sorted(value.args, key=lambda a: a.width)
        return make("sum", row, width=1) * short
    return None


def _simpler_slice(graph, value, start, width) -> Value | None:
    """Drops a slice of all; slices the parts of a slice, of a row and of a join."""
    if width == value.width:
        return value
    if value.op == "slice":
        return graph.slice(value.args[0], value.detail + start, width)
    if value.op == "broadcast":
        return graph.make("broadcast", value.args[0], width=width)
    if value.op == "concatenate":
        parts, position = [], 0
        for part in value.args:
            low, high = max(start, position), min(start + width, position + part.width)
            if low < high:
                parts.append(graph.slice(part, low - position, high - low))
            position += part.width
        return graph.concatenate(parts)
    return None


def _simpler_join(graph, parts) -> Value | None:
    """Returns one part; or neighbors of one value, as the value or its slice."""
    flat = [
        v for part in parts for v in (part.args if part.op == "concatenate" else [part])
    ]
    joined: list[Value] = []
    for part in flat:
        before = joined[-1] if joined else None
        if before is not None and part.op == before.op == "slice":
            source, end = before.args[0], before.detail + before.width
            if part.args[0] is source and part.detail == end:
                both = before.width + part.width
                joined[-1] = graph.slice(source, before.detail, both)
                continue
        joined.append(part)
    if len(joined) == 1:
        return joined[0]
    return None if joined == list(parts) else graph.concatenate(joined)


def walk(
    values: Sequence[Value],
    parts: Callable[[Value], Sequence[Value]] = operator.attrgetter("args"),
) -> Iterator[Value]:
    """Yields the values and all that they depend on, arguments first, each once.

    Args:
        values: Where to begin.
        parts: Returns what a value depends on: its arguments.
    """
    seen: set[Value] = set()
    stack = [(v, False) for v in reversed(values)]
    while stack:
        value, ready = stack.pop()
        if ready:
            yield value
        elif value not in seen:
            seen.add(value)
            stack.append((value, True))
            stack += [(a, False) for a in reversed(parts(value))]


def between(values: Sequence[Value], known: Collection[Value]) -> Iterator[Value]:
    """Walks as `walk`, up to values that are known, which are yielded as well."""
    return walk(values, lambda value: () if value in known else value.args)

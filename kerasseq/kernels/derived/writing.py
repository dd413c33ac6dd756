"""Writes values of a step, and their gradients, as terms of those that have names."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from kerasseq.kernels.derived import terms
from kerasseq.kernels.derived.graph import (
    INPUT,
    LEAVES,
    NOISE,
    NUMBER,
    PARAMETER,
    Value,
    walk,
)
from kerasseq.kernels.derived.names import Names
from kerasseq.kernels.derived.terms import Letter, Term

Monomial: TypeAlias = tuple[float, list[Term]]  # a number, and factors

_LIGHT = ("slice", "concatenate", "broadcast", "stop_gradient", "negative", NUMBER)
_SIZES = {"matmul": 3, "matmul_transposed": 3, "sigmoid_gradient": 3}
_BETWEEN = {
    "greater": (">", ">"),
    "greater_equal": ("≥", r"\ge"),
    "less": ("<", "<"),
    "less_equal": ("≤", r"\le"),
    "equal": ("=", "="),
    "not_equal": ("≠", r"\ne"),
    "logical_and": ("∧", r"\land"),
    "logical_or": ("∨", r"\lor"),
}
_OPPOSITE = {
    **{"greater": "less_equal", "less_equal": "greater", "less": "greater_equal"},
    **{"greater_equal": "less", "equal": "not_equal", "not_equal": "equal"},
}
_SUMS = ("add", "subtract")
_ONE = terms.number(1)
_CALLED = {"sigmoid": "σ", "maximum": "max", "minimum": "min"}


class Writer:
    """Writes values.

    Args:
        names: The letters of values.

    Attributes:
        shown: The names of all values that have one: they are not written out.
    """

    def __init__(self, names: Names) -> None:
        self.names: Names = names
        self.shown: dict[Value, Term] = {v: x.term for v, x in names.letters.items()}

    def term(self, value: Value) -> Term:
        """Returns the name of a value, or what it is computed from."""
        return self.shown.get(value) or self.definition(value)

    def definition(self, value: Value) -> Term:
        """Returns what a value is computed from."""
        if value in self.names.activations:
            name, argument = self.names.activations[value]
            return terms.function(name, self.term(argument))
        if value.op in _LEAF:
            return _LEAF[value.op](self, value)
        if value.op in _MONOMIALS:
            return _written(*self._monomial(value, defined=True))
        if value.op == "concatenate":
            return terms.beside([self._beside(a) for a in value.args])
        args = [self.term(a) for a in self.parts(value)]
        if value.op in _WRITTEN:
            return _WRITTEN[value.op](value, *args)
        return terms.function(_CALLED.get(value.op, value.op), *args)

    # Sums and products, in which common factors stand once.

    def _grouped(self, value: Value, sign: int = 1) -> list[Monomial]:
        """What is added up in a value; parts with the same gradient are one."""
        groups: dict[str, list[Monomial]] = {}
        summands = self._summands(value, sign, defined=True)
        for k, (own, summand) in enumerate(summands):
            number, factors = self._monomial(summand)
            first = factors[0].text if factors and summand.backward else str(k)
            groups.setdefault(first, []).append((own * number, factors))
        return [_common(group) for group in groups.values()]

    def _summands(
        self, value: Value, sign: int = 1, defined: bool = False
    ) -> Iterator[tuple[int, Value]]:
        """Yields what is added up, with its sign; names are not written out."""
        if value.op not in _SUMS or (self._is_written(value) and not defined):
            yield sign, value
            return
        first, second = value.args
        yield from self._summands(first, sign)
        yield from self._summands(second, -sign if value.op == "subtract" else sign)

    def _is_written(self, value: Value) -> bool:
        return value in self.shown or value in self.names.activations

    def _monomial(self, value: Value, defined: bool = False) -> Monomial:
        """Returns a number, and what it is multiplied with by element."""
        if self._is_written(value) and not defined:
            return 1.0, [self.term(value)]
        write = Writer._reduced if _is_mean(value) else _MONOMIALS.get(value.op)
        if write is not None:
            return write(self, value)
        if value.op == NUMBER:
            return value.detail, []
        if value.op == "broadcast":
            return self._monomial(*value.args)
        return 1.0, [self.definition(value)]

    def _sum(self, value: Value, sign: int = 1) -> Monomial:
        groups = self._grouped(value, sign)
        return groups[0] if len(groups) == 1 else (1.0, [_added(groups)])

    def _negative(self, value: Value) -> Monomial:
        (x,) = value.args
        if x.op in _SUMS and not self._is_written(x):
            return self._sum(x, -1)
        number, factors = self._monomial(x)
        return -number, factors

    def _multiply(self, value: Value) -> Monomial:
        (x, first), (y, second) = map(self._monomial, value.args)
        return x * y, [*first, *second]

    def _reduced(self, value: Value) -> Monomial:
        """The sum or the mean over the units."""
        number, factors = self._monomial(*self.parts(value))
        name = "mean" if _is_mean(value) else "sum"
        return number, [terms.function(name, _written(1.0, factors))]

    def _where(self, value: Value) -> Monomial:
        """A factor of 0 or 1, if one choice is 0."""
        condition, a, b = value.args
        if _is_zero(b):
            number, factors = self._monomial(a)
            return number, [*factors, terms.indicator(self.term(condition))]
        if _is_zero(a):
            number, factors = self._monomial(b)
            return number, [*factors, terms.indicator(self._not(condition))]
        return 1.0, [terms.function("where", *map(self.term, value.args))]

    def _slope(self, value: Value) -> Monomial:
        """The gradient of tanh or σ."""
        y, (number, factors) = self.term(value.args[0]), self._monomial(value.args[1])
        if value.op == "tanh_gradient":
            return number, [*factors, terms.subtract(_ONE, terms.power(y, 2))]
        return number, [*factors, y, terms.subtract(_ONE, y)]

    def _beside(self, value: Value) -> Term:
        """One of the parts of a row; numbers have an index, for how many units."""
        if value.op == "broadcast" and _is_number(value):
            return terms.repeated(value.args[0].detail, value.width)
        return self.term(value)

    def _not(self, condition: Value) -> Term:
        if condition.op in _OPPOSITE and condition not in self.shown:
            return _compared(_OPPOSITE[condition.op], *map(self.term, condition.args))
        return terms.function("not", self.term(condition))

    # What terms have in them.

    def parts(self, value: Value) -> Sequence[Value]:
        """Returns the values that the definition of a value has."""
        if value in self.names.activations:
            return [self.names.activations[value][1]]
        return value.args[0].args if _is_mean(value) else value.args

    def walk(self, values: Sequence[Value]) -> Iterator[Value]:
        """Yields values and all that their definitions have, each once, parts first."""
        yield from walk(values, self.parts)

    def size(self, value: Value) -> int:
        """Returns how many operations the term of a value has."""
        if value in self.shown or value.op in LEAVES:
            return 0
        own = _SIZES.get(value.op, value.op not in _LIGHT)
        return own + sum(map(self.size, self.parts(value)))


def _compared(op: str, a: Term, b: Term) -> Term:
    text, latex = _BETWEEN[op]
    return terms.join(f" {text} ", f" {latex} ", terms.SUM, a, b)


def _common(group: list[Monomial]) -> Monomial:
    """One product, or the sum of several with common factors in front."""
    rests = [list(factors) for _, factors in group]
    common = [f for f in rests[0] if all(f in rest for rest in rests[1:])]
    if len(group) == 1:
        return group[0]
    for rest in rests:
        for factor in common:
            if factor in rest:
                rest.remove(factor)
    numbers = [number for number, _ in group]
    if not any(rests):
        return sum(numbers), common
    sign = -1.0 if max(numbers) < 0 else 1.0
    inside = [(sign * x, rest) for x, rest in zip(numbers, rests, strict=True)]
    return sign, [*common, _added(inside)]


def _added(summands: list[Monomial]) -> Term:
    """The sum, with a product in front that is not subtracted."""
    first = next((s for s in summands if s[0] > 0), summands[0])
    total = _written(*first)
    for number, factors in (s for s in summands if s is not first):
        term = _written(abs(number), factors)
        total = (terms.add if number > 0 else terms.subtract)(total, term)
    return total


def _written(number: float, factors: list[Term]) -> Term:
    """A product by element, with its number in front."""
    if not factors:
        return terms.number(number)
    product = terms.multiply(*factors)
    if number < 0:
        return terms.negative(_written(-number, factors))
    return product if number == 1 else terms.scale(number, product)


def _is_number(value: Value) -> bool:
    value = value.args[0] if value.op == "broadcast" else value
    return value.op == NUMBER


def _is_zero(value: Value) -> bool:
    return _is_number(value) and 0 in (value.detail, *(a.detail for a in value.args))


def _is_mean(value: Value) -> bool:
    """Whether a value is a sum over n units, times 1/n."""
    if value.op != "multiply" or value.args[0].op != "sum":
        return False
    total, factor = value.args
    return factor.op == NUMBER and factor.detail == 1 / total.args[0].width


_MONOMIALS: dict[str, Callable[[Writer, Value], Monomial]] = {
    "add": Writer._sum,
    "subtract": Writer._sum,
    "negative": Writer._negative,
    "multiply": Writer._multiply,
    "sum": Writer._reduced,
    "where": Writer._where,
    "tanh_gradient": Writer._slope,
    "sigmoid_gradient": Writer._slope,
}
_LEAF: dict[str, Callable[[Writer, Value], Term]] = {
    PARAMETER: lambda writer, v: writer.names.weight(v.detail),
    INPUT: lambda _, v: Letter("x", ("t",)).term,
    NOISE: lambda _, v: Letter("m", (str(v.detail + 1),)).term,
    NUMBER: lambda _, v: terms.number(v.detail),
}
_WRITTEN: dict[str, Callable[..., Term]] = {
    **dict.fromkeys(_BETWEEN, lambda v, a, b: _compared(v.op, a, b)),
    "divide": lambda _, a, b: terms.divide(a, b),
    "power": lambda v, a: terms.power(a, v.detail),
    "sqrt": lambda _, a: terms.root(a),
    "rsqrt": lambda _, a: terms.divide(_ONE, terms.root(a)),
    "log1p": lambda _, a: terms.function("log", terms.add(_ONE, a)),
    "expm1": lambda _, a: terms.subtract(terms.function("exp", a), _ONE),
    "absolute": lambda _, a: terms.absolute(a),
    "logical_not": lambda _, a: terms.function("not", a),
    "broadcast": lambda v, a: a if _is_number(v) else terms.function("broadcast", a),
    "slice": lambda v, a: terms.part(a, f"{v.detail}:{v.detail + v.width}"),
    "matmul": lambda _, a, w: terms.product(a, w),
    "matmul_transposed": lambda _, d, w: terms.product(d, terms.transposed(w)),
}

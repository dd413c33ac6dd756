"""Writes values of a step, and their gradients, as terms of those that have names."""

import functools
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kerasseq.kernels.derived import terms
from kerasseq.kernels.derived.graph import LEAVES, NUMBER, PARAMETER, Value
from kerasseq.kernels.derived.names import Names
from kerasseq.kernels.derived.terms import ATOM, Term, between, write

Product = tuple[float, list[Term]]  # a number, and factors by element

_BETWEEN = {
    **{"greater": ">", "greater_equal": "≥", "less": "<", "less_equal": "≤"},
    **{"equal": "=", "not_equal": "≠", "logical_and": "∧", "logical_or": "∨"},
}
_OPPOSITE = dict(zip(">≥<≤=≠", "≤<≥>≠=", strict=True))
_SUMS = ("add", "subtract", "negative")
_SIZES = {"matmul": 3, "matmul_transposed": 3, "sigmoid_gradient": 3}  # operations
_SIZES |= {"slice": 0, "concatenate": 0, "broadcast": 0, "negative": 0}
_CALLED = {"maximum": "max", "minimum": "min", "logical_not": "not"}


class Writer:
    """Writes values.

    Args:
        names: The letters of values.

    Attributes:
        shown: The names of all values that have one: they are not written out.
    """

    def __init__(self, names: Names) -> None:
        self.names: Names = names
        self.functions: dict[Value, tuple[str, Value]] = names.functions
        letters = names.letters.items()
        self.shown: dict[Value, Term] = {v: terms.letter(x) for v, x in letters}
        self._complements: dict[Term, Term] = {}  # x, by 1 − x

    def parts(self, value: Value) -> Sequence[Value]:
        """Returns the values that the definition of a value has."""
        if value in self.functions:
            return [self.functions[value][1]]
        return value.args[0].args if _is_mean(value) else value.args

    def size(self, value: Value) -> int:
        """Returns how many operations the term of a value has; a product is 3."""
        if value in self.shown or value.op in LEAVES:
            return 0
        return _SIZES.get(value.op, 1) + sum(map(self.size, self.parts(value)))

    def term(self, value: Value) -> Term:
        """Returns the name of a value, or what it is computed from."""
        return self.shown.get(value) or self.definition(value)

    def definition(self, value: Value) -> Term:
        """Returns what a value is computed from."""
        return terms.multiply(*self._defined(value))

    def _product(self, value: Value) -> Product:
        """Returns the name of a value, or what it is computed from, as a product."""
        shown = self.shown.get(value)
        return self._defined(value) if shown is None else (1, [shown])

    def _defined(self, value: Value) -> Product:
        name, _ = self.functions.get(value, ("mean" * _is_mean(value), None))
        if not name and value.op in _PRODUCTS:
            return _PRODUCTS[value.op](self, value)
        if value.op == PARAMETER:
            return 1, [self.names.weight(self.names.parameters[value.detail])]
        args = [self.term(part) for part in self.parts(value)]
        if not name and value.op in _TERMS:
            return 1, [_TERMS[value.op](value, *args)]
        name = name or _CALLED.get(value.op, value.op)
        return 1, [terms.function(name, *args)]

    # Sums and products, in which common factors stand once.

    def _sum(self, value: Value) -> Product:
        """Returns what is added up in a value; parts with the same gradient are one."""
        groups: dict[str, list[Product]] = {}
        for k, (own, summand) in enumerate(self._summands(value, 1)):
            number, factors = self._product(summand)
            if summand.op == "expm1" and self._is_written_out(summand):
                factors = [terms.function("exp", self.term(*summand.args))]
                groups.setdefault("", []).append((-own, []))
            first = factors[0].text if factors and summand.backward else str(k)
            key = first if factors else ""  # numbers are one
            groups.setdefault(key, []).append((own * number, factors))
        return self._added([self._common(group) for group in groups.values()])

    def _is_written_out(self, value: Value) -> bool:
        return value not in self.shown and value not in self.functions

    def _summands(self, value: Value, sign: int) -> Iterator[tuple[int, Value]]:
        """Yields what is added up, with its sign; names are not written out."""
        signs = {"subtract": (sign, -sign), "negative": (-sign,)}
        for own, part in zip(signs.get(value.op, (sign,) * 2), value.args, strict=True):
            if part.op in _SUMS and self._is_written_out(part):
                yield from self._summands(part, own)
            else:
                yield own, part

    def _common(self, group: list[Product]) -> Product:
        """Returns one product, or the sum of several with common factors in front."""
        if len(group) == 1:
            return group[0]
        common = functools.reduce(operator.and_, (Counter(f) for _, f in group))
        rests = [(x, [*(Counter(f) - common).elements()]) for x, f in group]
        if any(not factors for _, factors in rests):  # 1 − (1 − x) is x
            rests = [part for rest in rests for part in self._opened(*rest)]
        number, factors = self._added(rests)
        return number, [*common.elements(), *factors]

    def _opened(self, number: float, factors: list[Term]) -> list[Product]:
        """Opens 1 − x into 1 and −x; another product stays as it is."""
        if len(factors) == 1 and factors[0] in self._complements:
            return [(number, []), (-number, [self._complements[factors[0]]])]
        return [(number, factors)]

    def _added(self, summands: list[Product]) -> Product:
        """Returns the sum, with a product in front that is not subtracted."""
        numbers = [x for x, factors in summands if not factors]
        parts = [s for s in summands if s[1]]
        if sum(numbers) or not parts:
            at = next((n for n, s in enumerate(summands) if not s[1]), 0)
            parts.insert(at, (sum(numbers), []))
        if len(parts) == 1:
            return parts[0]
        first = next((s for s in parts if s[0] > 0), parts[0])
        total = terms.multiply(*first)
        for number, factors in (s for s in parts if s is not first):
            term = terms.multiply(abs(number), factors)
            total = between("−" if number < 0 else "+", total, term)
        return 1, [total]

    def _multiply(self, value: Value) -> Product:
        (x, first), (y, second) = map(self._product, value.args)
        return x * y, [*first, *second]

    def _divide(self, value: Value) -> Product:
        number, factors = self._product(value.args[0])
        above, below = terms.multiply(1, factors), self.term(value.args[1])
        return number, [terms.divide(above, below)]

    def _slope(self, value: Value) -> Product:
        """Returns the gradient of tanh or σ."""
        y = self.term(value.args[0])
        number, factors = self._product(value.args[1])
        if value.op == "tanh_gradient":
            return number, [*factors, self._complement(terms.power(y, 2))]
        return number, [*factors, y, self._complement(y)]

    def _complement(self, x: Term) -> Term:
        """Writes 1 − x."""
        term = between("−", terms.number(1), x)
        self._complements[term] = x
        return term

    def _where(self, value: Value) -> Product:
        """Returns a factor of 0 or 1, if one choice is 0."""
        condition, a, b = value.args
        without_a, without_b = (x.op == NUMBER and x.detail == 0 for x in (a, b))
        if not (without_a or without_b):
            return 1, [terms.function("where", *map(self.term, value.args))]
        number, factors = self._product(a if without_b else b)
        opposite = _OPPOSITE.get(_BETWEEN.get(condition.op))
        if without_b:
            holds = self.term(condition)
        elif opposite is None or condition in self.shown:
            holds = terms.function("not", self.term(condition))
        else:
            holds = between(opposite, *map(self.term, condition.args))
        indicator = write("1[{}]", holds, latex=r"\mathbb{{1}}\left[{}\right]")
        return number, [*factors, indicator]


def _is_mean(value: Value) -> bool:
    """Returns whether a value is a sum over n units, times 1/n."""
    if value.op != "multiply" or value.args[0].op != "sum":
        return False
    total, factor = value.args
    return factor.op == NUMBER and factor.detail == 1 / total.args[0].width


def _broadcast(value: Value, x: Term) -> Term:
    """Returns one number for all units, as 0_3; or a function."""
    if value.args[0].op != NUMBER:
        return terms.function("broadcast", x)
    return Term(f"{x.text}_{value.width}", f"{x.latex}_{{{value.width}}}")


_PRODUCTS: dict[str, Callable[[Writer, Value], Product]] = {
    **dict.fromkeys(_SUMS, Writer._sum),
    **dict.fromkeys(("tanh_gradient", "sigmoid_gradient"), Writer._slope),
    "multiply": Writer._multiply,
    "divide": Writer._divide,
    "where": Writer._where,
    NUMBER: lambda _, value: (value.detail, []),
}
_TERMS: dict[str, Callable[..., Term]] = {
    **dict.fromkeys(_BETWEEN, lambda v, a, b: between(_BETWEEN[v.op], a, b)),
    "power": lambda v, a: terms.power(a, v.detail),
    "sqrt": lambda _, a: write("√({})", a, latex=r"\sqrt{{{}}}"),
    "rsqrt": lambda v, a: terms.divide(terms.number(1), _TERMS["sqrt"](v, a)),
    "log1p": lambda _, a: terms.function("log", between("+", terms.number(1), a)),
    "expm1": lambda _, a: between("−", terms.function("exp", a), terms.number(1)),
    "absolute": lambda _, a: write("|{}|", a, latex=r"\left|{}\right|"),
    "broadcast": _broadcast,
    "concatenate": lambda _, *parts: terms.beside(*parts),
    "slice": lambda v, a: terms.part(a, f"{v.detail}:{v.detail + v.width}"),
    "matmul": lambda _, a, w: terms.matmul(a, w),
    "matmul_transposed": lambda _, d, w: terms.matmul(d, write("{}ᵀ", w, inner=ATOM)),
}

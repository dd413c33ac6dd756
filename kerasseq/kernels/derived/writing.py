"""Writes values of a step, and their gradients, as terms of those that have names."""

from collections.abc import Callable, Iterator, Sequence

from kerasseq.kernels.derived import terms
from kerasseq.kernels.derived.graph import (
    GRADIENT,
    INPUT,
    LEAVES,
    MASK,
    NOISE,
    NUMBER,
    PARAMETER,
    Value,
)
from kerasseq.kernels.derived.names import Names
from kerasseq.kernels.derived.terms import Letter, Term

_LIGHT = ("slice", "concatenate", "broadcast", "stop_gradient", "negative", NUMBER)
_PRODUCTS = ("matmul", "matmul_transposed")
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
_SUMS = ("add", "subtract", "negative")
_FACTORS = ("multiply", "where", "tanh_gradient", "sigmoid_gradient")
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
        if value.op == PARAMETER:
            return self.names.weight(value.detail)
        if value.op in _LEAF:
            return _LEAF[value.op](value)
        if value.op in _SUMS:
            return self._sum(value)
        if value.op in _FACTORS:
            return terms.multiply(*self._factors(value, defined=True))
        args = [self.term(a) for a in self.parts(value)]
        if value.op in _BETWEEN:
            return _compared(_BETWEEN[value.op], *args)
        if value.op in _WRITTEN:
            return _WRITTEN[value.op](value, *args)
        return terms.function(_CALLED.get(value.op, value.op), *args)

    # Sums and products, in which common factors stand once.

    def _sum(self, value: Value) -> Term:
        groups: dict[str, list[tuple[int, list[Term]]]] = {}
        for k, (sign, summand) in enumerate(self._summands(value, defined=True)):
            factors = self._factors(summand)
            key = factors[0].text if summand.backward else str(k)
            groups.setdefault(key, []).append((sign, factors))
        return _added([_common(group) for group in groups.values()])

    def _summands(
        self, value: Value, sign: int = 1, defined: bool = False
    ) -> Iterator[tuple[int, Value]]:
        """Yields what is added up, with its sign; names are not written out."""
        written = value in self.shown or value in self.names.activations
        if value.op not in _SUMS or (written and not defined):
            yield sign, value
            return
        first, *second = value.args
        yield from self._summands(first, -sign if value.op == "negative" else sign)
        for v in second:
            yield from self._summands(v, -sign if value.op == "subtract" else sign)

    def _factors(self, value: Value, defined: bool = False) -> list[Term]:
        """Returns what is multiplied by element."""
        if value in self.shown and not defined:
            return [self.shown[value]]
        if value.op not in _FACTORS or value in self.names.activations:
            return [self.definition(value)]
        if value.op == "multiply":
            a, b = value.args
            for number, other in ((a, b), (b, a)):
                if number.op == NUMBER:
                    return [self._scaled(value, number.detail, other)]
            return [*self._factors(a), *self._factors(b)]
        if value.op == "where":
            return self._chosen(value)
        y, d = value.args
        slope = self.term(y)
        if value.op == "tanh_gradient":
            return [*self._factors(d), terms.subtract(_ONE, terms.power(slope, 2))]
        return [*self._factors(d), slope, terms.subtract(_ONE, slope)]

    def _scaled(self, value, number, other) -> Term:
        if _is_mean(value):
            return terms.function("mean", self.term(*other.args))
        return terms.scale(number, self.term(other))

    def _chosen(self, value: Value) -> list[Term]:
        """`where`, as a factor that is 0 or 1 if one choice is 0."""
        condition, first, second = value.args
        if _is_zero(second):
            chosen = [terms.indicator(self.term(condition))]
            is_one = first.op == NUMBER and first.detail == 1
            return chosen if is_one else [*self._factors(first), *chosen]
        if _is_zero(first):
            return [*self._factors(second), terms.indicator(self._not(condition))]
        return [terms.function("where", *map(self.term, value.args))]

    def _not(self, condition: Value) -> Term:
        if condition.op in _OPPOSITE and condition not in self.shown:
            opposite = _BETWEEN[_OPPOSITE[condition.op]]
            return _compared(opposite, *map(self.term, condition.args))
        return terms.function("not", self.term(condition))

    # What terms have in them.

    def parts(self, value: Value) -> Sequence[Value]:
        """Returns the values that the definition of a value has."""
        if value in self.names.activations:
            return [self.names.activations[value][1]]
        return value.args[0].args if _is_mean(value) else value.args

    def walk(self, values: Sequence[Value]) -> Iterator[Value]:
        """Yields values and all that their definitions have, each once, parts first."""
        seen: set[Value] = set()
        stack = [(v, False) for v in reversed(values)]
        while stack:
            value, ready = stack.pop()
            if ready:
                yield value
            elif value not in seen:
                seen.add(value)
                stack.append((value, True))
                stack += [(a, False) for a in reversed(self.parts(value))]

    def size(self, value: Value) -> int:
        """Returns how many operations the term of a value has."""
        if value in self.shown or value.op in LEAVES:
            return 0
        own = 3 if value.op in _PRODUCTS else value.op not in _LIGHT
        return own + sum(map(self.size, self.parts(value)))


def _compared(sign: tuple[str, str], a: Term, b: Term) -> Term:
    text, latex = sign
    return terms.join(f" {text} ", f" {latex} ", terms.SUM, a, b)


def _common(group: list[tuple[int, list[Term]]]) -> tuple[int, Term]:
    """One summand, or several with their common factors in front."""
    if len(group) == 1:
        ((sign, factors),) = group
        return sign, terms.multiply(*factors)
    rests = [list(factors) for _, factors in group]
    common = [f for f in rests[0] if all(f in rest for rest in rests[1:])]
    for rest in rests:
        for factor in common:
            if factor in rest:
                rest.remove(factor)
    signs = [sign for sign, _ in group]
    inside = [terms.multiply(*rest) if rest else _ONE for rest in rests]
    return 1, terms.multiply(*common, _added(list(zip(signs, inside, strict=True))))


def _added(summands: list[tuple[int, Term]]) -> Term:
    """The sum, with a summand in front that is not subtracted."""
    summands = sorted(summands, key=lambda s: s[0] < 0 and summands[0][0] < 0)
    (sign, total), *others = summands
    total = terms.negative(total) if sign < 0 else total
    for sign, term in others:
        total = (terms.add if sign > 0 else terms.subtract)(total, term)
    return total


def _is_zero(value: Value) -> bool:
    while value.op == "broadcast":
        (value,) = value.args
    return value.op == NUMBER and value.detail == 0


def _is_mean(value: Value) -> bool:
    """Whether a value is a sum over n units, times 1/n."""
    if value.op != "multiply" or value.args[0].op != "sum":
        return False
    total, factor = value.args
    return factor.op == NUMBER and factor.detail == 1 / total.args[0].width


_LEAF: dict[str, Callable[[Value], Term]] = {
    INPUT: lambda v: Letter("x", ("t",)).term,
    NOISE: lambda v: Letter("m", (str(v.detail + 1),)).term,
    MASK: lambda v: Letter("real", ("t",)).term,
    NUMBER: lambda v: terms.number(v.detail),
    GRADIENT: lambda v: terms.function("gradient", terms.number(v.detail)),
}


_WRITTEN: dict[str, Callable[..., Term]] = {
    "divide": lambda _, a, b: terms.divide(a, b),
    "power": lambda v, a: terms.power(a, v.detail),
    "sqrt": lambda _, a: terms.root(a),
    "rsqrt": lambda _, a: terms.divide(_ONE, terms.root(a)),
    "log1p": lambda _, a: terms.function("log", terms.add(_ONE, a)),
    "expm1": lambda _, a: terms.subtract(terms.function("exp", a), _ONE),
    "absolute": lambda _, a: terms.absolute(a),
    "logical_not": lambda _, a: terms.function("not", a),
    "broadcast": lambda _, a: a,
    "concatenate": lambda _, *parts: terms.beside(list(parts)),
    "slice": lambda v, a: terms.part(a, f"{v.detail}:{v.detail + v.width}"),
    "matmul": lambda _, a, w: terms.product(a, w),
    "matmul_transposed": lambda _, d, w: terms.product(d, terms.transposed(w)),
}

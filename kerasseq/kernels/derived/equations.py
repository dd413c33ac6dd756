"""The equations of a step and of its backward pass."""

import functools
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kerasseq.kernels.derived import graph, terms
from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.derived.graph import INPUT, LEAVES, Value, walk
from kerasseq.kernels.derived.names import Names
from kerasseq.kernels.derived.terms import Term, between, gradient, letter, write
from kerasseq.kernels.derived.writing import Writer

SHORT = 22  # characters of a term, up to which its gradient is named after it
LONG = 3  # operations of a term used twice, from which it gets a name
TOO_LONG = 8  # operations, from which the gradient of a letter gets a line of its own


class Equation(NamedTuple):
    """One line.

    Attributes:
        left: What is computed, in Unicode.
        right: What it is computed from.
        latex: The whole line in LaTeX, with `&=` between the sides.
    """

    left: str
    right: str
    latex: str

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


def _equation(left: Term, right: Term) -> Equation:
    return Equation(left.text, right.text, f"{left.latex} &= {right.latex}")


class Equations(Writer):
    """Writes the equations of a step.

    Args:
        names: The letters of values.
        derived: What the step computes, and its gradients.
        x: Its input.
    """

    def __init__(self, names: Names, derived: Derived, x: Term) -> None:
        super().__init__(names)
        leaves = dict.fromkeys(derived.rows.values.values())
        masks = [v for v in leaves if v.op == graph.NOISE]
        for k, mask in enumerate(masks, 1):
            self.shown[mask] = letter("m" if len(masks) == 1 else f"m{k}")
        self.shown |= {v: x for v in leaves if v.op == INPUT}
        self.derived: Derived = derived
        back = derived.backward
        results = [back.input, *back.states, *(total.value for total in back.totals)]
        results += [value for p in back.products for value in (p.left, p.right)]
        self._results = [d for d in results if d is not None]
        self._numbers: Counter[str] = Counter()
        self._name_incoming()
        self._name_repeated()

    # More names.

    def _name_incoming(self) -> None:
        """Names the gradients of the new states; some come from the next step."""
        make, of = self.derived.graph.make, self.derived.backward.of
        for k, value in enumerate(self.derived.new_states):
            leaf = make(graph.GRADIENT, width=value.width, detail=k)
            after = self.names.after[k]
            whole = self.names.letters.get(value) != after or of.get(value) is leaf
            self.shown[leaf] = gradient(letter(after), later=not whole)

    def _name_repeated(self) -> None:
        """Gradients of letters, and long terms that occur more than once."""
        names, of = self.names, self.derived.backward.of
        arguments = {argument for _, argument in names.functions.values()}
        read = [value for value in names.letters if value in arguments]
        preferred = [*reversed(of), *names.letters, *read]
        owners = {of[v]: v for v in preferred if v in of and v.op != graph.PARAMETER}
        roots = [*self.derived.new_states, *self._results]
        order, uses = list(walk(roots, self.parts)), Counter(roots)
        for value in order:
            if not (value.op == "slice" and value in self.shown):  # one line for all
                uses.update(self.parts(value))
        for value in order:
            if value not in self.shown and value.op not in LEAVES:
                owner, size = owners.get(value), self.size(value)
                again = uses[value] > 1 or size >= TOO_LONG or owner in arguments
                long = (uses[value] - 1) * (size - 1) >= LONG - 1
                if long or (again and owner in names.letters):
                    self.shown[value] = self._name_of(value, owner)

    def _name_of(self, value: Value, owner: Value | None) -> Term:
        """Returns the gradient of a term, or a letter with a number."""
        if owner is not None and len(self.term(owner).text) <= SHORT:
            return gradient(self.term(owner))
        base = "delta" if value.backward else "q"
        self._numbers[base] += 1
        return letter(self.names.free(f"{base}_{self._numbers[base]}"))

    # Lines.

    def forward(self) -> tuple[Equation, ...]:
        """Returns the step, in the order of the code."""
        lines, done = [], set()
        for value in self._forward_order():
            if value not in done:
                parts = self._together(value)
                done.update(parts)
                left = [self.shown[part] for part in parts]
                if len(parts) > 1:
                    lines.append(_equation(terms.beside(*left), self.term(*value.args)))
                else:
                    lines.append(_equation(*left, self.definition(value)))
        for value, after in zip(self.derived.new_states, self.names.after, strict=True):
            if self.names.letters.get(value) != after:  # as an unchanged state
                lines.append(_equation(letter(after), self.term(value)))
        return tuple(lines)

    def _forward_order(self) -> list[Value]:
        """Returns the values with names, each after those that it is computed from."""
        reached = set(walk(self.derived.new_states, self.parts))
        order = [v for v in self.names.order if v in reached]
        return self._named([*order, *self.derived.new_states])

    def _named(self, roots: list[Value]) -> list[Value]:
        parts_first = walk(roots, self.parts)
        return [v for v in parts_first if v in self.shown and v.op not in LEAVES]

    def _together(self, value: Value) -> list[Value]:
        """Returns all parts of what a slice is of, if they have names."""
        if value.op != "slice":
            return [value]
        named = [v for v in self.shown if v.op == "slice" and v.args == value.args]
        parts = sorted(named, key=lambda v: v.detail)
        edges = [0, *(v.detail + v.width for v in parts)]
        whole = edges == [*(v.detail for v in parts), value.args[0].width]
        return parts if whole else [value]

    def backward(self) -> tuple[Equation, ...]:
        """Returns the gradients, from the last line of the step to the first."""
        known, of, lines = self._forward_order(), self.derived.backward.of, []
        order = [of[u] for v in reversed(known) for u in (v, *self.parts(v)) if u in of]
        for d in self._named([*order, *self._results]):
            if d not in known:
                lines.append(_equation(self.shown[d], self.definition(d)))
        for leaf in [v for v in self.shown if v.op in (INPUT, graph.STATE)]:
            left, d = gradient(self.shown[leaf]), of.get(leaf)
            right = terms.number(0) if d is None else self.term(d)
            if left != right:  # or it has a line already
                lines.append(_equation(left, right))
        return (*lines, *self._weights())

    def _weights(self) -> Iterator[Equation]:
        """Yields the gradients of weights: sums over the steps."""
        back, sums = self.derived.backward, {}
        for p in back.products:
            rows = write("{}ᵀ", self.term(p.left), inner=terms.ATOM)
            product = terms.matmul(rows, self.term(p.right))
            sums.setdefault(p.parameter, []).append(product)
        for total in back.totals:
            sums.setdefault(total.parameter, []).append(self.term(total.value))
        for parameter, parts in sums.items():
            total = functools.reduce(functools.partial(between, "+"), parts)
            left = gradient(self.names.weight(self.names.parameters[parameter]))
            yield _equation(left, write("Σ_t {}", total, inner=terms.PRODUCT))

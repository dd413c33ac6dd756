"""The equations of a step and of its backward pass."""

import functools
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kerasseq.kernels.derived import terms
from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.derived.graph import (
    GRADIENT,
    INPUT,
    LEAVES,
    PARAMETER,
    STATE,
    Value,
)
from kerasseq.kernels.derived.terms import Letter, Term, between, word, write
from kerasseq.kernels.derived.writing import Writer

SHORT = 22  # characters of a term, up to which its gradient is named after it
LONG = 3  # operations of a term, from which it gets a name if it is used twice;
# those of 2 from three times on
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


class Equations:
    """Writes the equations of a step.

    Args:
        writer: Writes values; its names are added to.
        derived: What the step computes, and its gradients.
    """

    def __init__(self, writer: Writer, derived: Derived) -> None:
        self.writer: Writer = writer
        self.derived: Derived = derived
        back = derived.backward
        results = [back.input, *back.states, *(total.value for total in back.totals)]
        results += [value for p in back.products for value in (p.left, p.right)]
        self._results = [d for d in results if d is not None]
        self._name_incoming()
        self._name_repeated()

    # More names.

    def _name_incoming(self) -> None:
        """The gradients of the new states, of which some come from the next step."""
        letters, of = self.writer.names.letters, self.derived.backward.of
        for k, value in enumerate(self.derived.new_states):
            after = self.writer.names.after[k]
            leaf = self._leaf(GRADIENT, k)
            later = letters.get(value) == after and of.get(value) is not leaf
            self.writer.shown[leaf] = terms.gradient(after.term, later=later)

    def _leaf(self, op: str, k: int) -> Value:
        width = self.derived.new_states[k].width
        return self.derived.graph.make(op, width=width, detail=k)

    def _name_repeated(self) -> None:
        """Gradients of letters, and long terms that occur more than once."""
        writer, names, of = self.writer, self.writer.names, self.derived.backward.of
        preferred = [*reversed(of), *names.letters, *names.pre_activations]
        owners = {of[v]: v for v in preferred if v in of and v.op != PARAMETER}
        roots = [*self.derived.new_states, *self._results]
        order = [v for v in writer.walk(roots) if v.op not in LEAVES]
        uses = Counter(roots)
        for value in order:
            if not (value.op == "slice" and value in writer.shown):  # one line for all
                uses.update(writer.parts(value))
        for value in order:
            if value not in writer.shown:
                owner, size, again = (
                    owners.get(value),
                    writer.size(value),
                    uses[value] - 1,
                )
                if (
                    owner in names.pre_activations
                    or (owner in names.letters and (again or size >= TOO_LONG))
                    or again * (size - 1) >= LONG - 1
                ):
                    writer.shown[value] = self._name(value, owner)

    def _name(self, value: Value, owner: Value | None) -> Term:
        """The gradient of a term, or a letter with a number."""
        of = None if owner is None else self.writer.term(owner)
        if of is not None and len(of.text) <= SHORT:
            return terms.gradient(of)
        base = Term("δ", r"\delta") if value.backward else word("q")
        shown = {term.text for term in self.writer.shown.values()}
        numbered = (Letter(base, (word(str(k)),)).term for k in itertools.count(1))
        return next(term for term in numbered if term.text not in shown)

    # Lines.

    def forward(self) -> list[Equation]:
        """Returns the step, in the order of the code."""
        names, lines, done = self.writer.names, [], set()
        for value in self._forward_order():
            if value not in done:
                together = self._together(value)
                done.update(together)
                shown = [self.writer.shown[v] for v in together]
                if len(together) > 1:
                    source = self.writer.term(value.args[0])
                    lines.append(_equation(terms.beside(*shown), source))
                else:
                    lines.append(_equation(*shown, self.writer.definition(value)))
        for value, after in zip(self.derived.new_states, names.after, strict=True):
            if names.letters.get(value) != after:  # as an unchanged state
                lines.append(_equation(after.term, self.writer.term(value)))
        return lines

    def _forward_order(self) -> list[Value]:
        """The values with names, each after those that it is computed from."""
        writer, new_states = self.writer, self.derived.new_states
        reached = set(writer.walk(new_states))
        roots = [v for v in writer.names.order if v in reached] + new_states
        named = (v for v in writer.walk(roots) if v in writer.shown)
        return [v for v in named if v.op not in LEAVES]

    def _together(self, value: Value) -> list[Value]:
        """A named part of a value, and the others, if all of them have names."""
        if value.op != "slice":
            return [value]
        (source,) = value.args
        parts = [
            v for v in self.writer.shown if v.op == "slice" and v.args == (source,)
        ]
        parts.sort(key=lambda v: v.detail)
        ends = [0, *(v.detail + v.width for v in parts)]
        return parts if ends == [*(v.detail for v in parts), source.width] else [value]

    def backward(self) -> list[Equation]:
        """Returns the gradients, from the last line of the step to the first."""
        shown, back, known = (
            self.writer.shown,
            self.derived.backward,
            self._forward_order(),
        )
        order = [back.of[v] for v in reversed(known) if v in back.of]
        lines = [
            _equation(shown[d], self.writer.definition(d))
            for d in self.writer.walk([*order, *self._results])
            if d in shown and d.op not in LEAVES and d not in known
        ]
        return [*lines, *self._leaves(), *self._weights()]

    def _leaves(self) -> Iterator[Equation]:
        """Yields the gradients of the states before the step, and of the input."""
        back, found = self.derived.backward, {}
        for k, d in enumerate(back.states):
            found[self._leaf(STATE, k)] = d
        found |= {v: back.input for v in self.writer.shown if v.op == INPUT}
        for leaf, d in found.items():
            if leaf in self.writer.shown:
                left = terms.gradient(self.writer.shown[leaf])
                right = terms.number(0) if d is None else self.writer.term(d)
                if left != right:  # or it has a line already
                    yield _equation(left, right)

    def _weights(self) -> Iterator[Equation]:
        """Yields the gradients of weights: sums over the steps."""
        term, found = self.writer.term, {}
        for p in self.derived.backward.products:
            rows = write("{}ᵀ", term(p.left), inner=terms.ATOM)
            found.setdefault(p.parameter, []).append(terms.matmul(rows, term(p.right)))
        for total in self.derived.backward.totals:
            found.setdefault(total.parameter, []).append(term(total.value))
        for parameter, parts in found.items():
            left = terms.gradient(self.writer.names.weight(parameter))
            total = functools.reduce(functools.partial(between, "+"), parts)
            yield _equation(left, write("Σ_t {}", total, inner=terms.PRODUCT))

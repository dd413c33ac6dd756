"""The equations of a step and of its backward pass."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kerasseq.kernels.derived import terms
from kerasseq.kernels.derived.gradient import Backward
from kerasseq.kernels.derived.graph import GRADIENT, LEAVES, STATE, Value
from kerasseq.kernels.derived.terms import Letter, Term
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


def equation(left: Term, right: Term) -> Equation:
    """Returns an equation of two terms."""
    return Equation(left.text, right.text, f"{left.latex} &= {right.latex}")


class Equations:
    """Writes the equations of a step.

    Args:
        writer: Writes values; its names are added to.
        new_states: The states after the step.
        back: The gradients.
        projected: Whether the input of the step is computed from that of the cell.
    """

    def __init__(
        self,
        writer: Writer,
        new_states: Sequence[Value],
        back: Backward,
        projected: bool,
    ) -> None:
        self.writer: Writer = writer
        self.new_states: list[Value] = list(new_states)
        self.back: Backward = back
        self._wanted = [d for d in (back.input, *back.states) if d is not None]
        self._wanted += [v for p in back.products for v in (p.left, p.right)]
        self._wanted += [total.value for total in back.totals]
        self._name_incoming()
        self._name_repeated(projected)

    # More names.

    def _name_incoming(self) -> None:
        """The gradients of the new states, of which some come from the next step."""
        names = self.writer.names
        for k, (value, after) in enumerate(
            zip(self.new_states, names.after, strict=True)
        ):
            leaf = value.graph.make(GRADIENT, width=value.width, detail=k)
            own = names.letters.get(value) == after
            later = own and self.back.of.get(value) is not leaf
            self.writer.shown[leaf] = terms.gradient(after.term, later=later)

    def _name_repeated(self, projected: bool) -> None:
        """Gradients of letters, and long terms that occur more than once."""
        writer = self.writer
        owners = self._owners()
        roots = [*self.new_states, *self._wanted]
        uses = Counter(roots)
        if projected and self.back.input is not None:
            uses[self.back.input] += 1  # in gradients of what the input comes from
        order = list(writer.walk(roots))
        uses.update(
            part
            for v in order
            for part in writer.parts(v)
            if not (v.op == "slice" and v in writer.shown)  # one line for all
        )
        for value in order:
            if value in writer.shown or value.op in LEAVES:
                continue
            owner, size = owners.get(value), writer.size(value)
            repeated = uses[value] > 1
            if (
                owner in writer.names.pre_activations
                or (owner in writer.names.letters and (repeated or size >= TOO_LONG))
                or (uses[value] - 1) * (size - 1) >= LONG - 1
            ):
                self._name_gradient(value, owner)

    def _owners(self) -> dict[Value, Value]:
        """The value that a gradient belongs to: one with a name, if it can be."""
        names, found = self.writer.names, {}
        for value, d in self.back.of.items():
            found.setdefault(d, []).append(value)
        preferred = dict.fromkeys([*names.pre_activations, *names.letters])
        ranks = {v: k for k, v in enumerate(preferred)}
        return {
            d: min(values, key=lambda v: ranks.get(v, len(ranks)))
            for d, values in found.items()
        }

    def _name_gradient(self, value: Value, owner: Value | None) -> None:
        of = None if owner is None else self.writer.term(owner)
        if of is None or len(of.text) > SHORT:
            self.writer.shown[value] = self._spare_name(value.backward)
        else:
            self.writer.shown[value] = terms.gradient(of)

    def _spare_name(self, gradient: bool) -> Term:
        """A letter with a number, of which no other has the letter."""
        own = {x.base for x in self.writer.names.letters.values()}
        base = next(c for c in ("δ" if gradient else "qvesd") if c not in own)
        used = {term.text for term in self.writer.shown.values()}
        numbered = (Letter(base, (str(k),)).term for k in itertools.count(1))
        return next(term for term in numbered if term.text not in used)

    # Lines.

    def forward(self) -> list[Equation]:
        """Returns the step, in the order of the code."""
        names = self.writer.names
        lines = list(self._forward_lines())
        for value, after in zip(self.new_states, names.after, strict=True):
            if names.letters.get(value) != after:  # as an unchanged state
                lines.append(equation(after.term, self.writer.term(value)))
        return lines

    def _forward_lines(self) -> Iterator[Equation]:
        done: set[Value] = set()
        for value in self._forward_order():
            if value in done:
                continue
            together = self._together(value)
            done.update(together)
            shown = [self.writer.shown[v] for v in together]
            if len(together) > 1:
                source = self.writer.term(value.args[0])
                yield equation(terms.beside(shown), source)
            else:
                yield equation(*shown, self.writer.definition(value))

    def _forward_order(self) -> list[Value]:
        """The values with names, each after those that it is computed from."""
        writer = self.writer
        reached = set(writer.walk(self.new_states))
        roots = [v for v in writer.names.order if v in reached] + self.new_states
        named = (v for v in writer.walk(roots) if v in writer.shown)
        return [v for v in named if v.op not in LEAVES]

    def _together(self, value: Value) -> list[Value]:
        """A named part of a value, and the others, if all of them have names."""
        if value.op != "slice":
            return [value]
        (source,) = value.args
        parts = [
            v for v in self.writer.shown if v.op == "slice" and v.args[0] is source
        ]
        parts.sort(key=lambda v: v.detail)
        ends = [0, *(v.detail + v.width for v in parts)]
        whole = ends == [*(v.detail for v in parts), source.width]
        return parts if whole else [value]

    def backward(self) -> list[Equation]:
        """Returns the gradients, from the last line of the step to the first."""
        order, known = [], self._forward_order()
        for value in reversed(known):
            argument = self.writer.names.pre_activation_of.get(value)
            order += [self.back.of.get(v) for v in (value, argument)]
        order = [d for d in [*order, *self._wanted] if d is not None]
        lines = [
            equation(self.writer.shown[d], self.writer.definition(d))
            for d in self.writer.walk(order)
            if d in self.writer.shown and d.op not in LEAVES and d not in known
        ]
        return lines + [*self._states(), *self._weights()]

    def _states(self) -> Iterator[Equation]:
        zero = terms.number(0)
        for k, d in enumerate(self.back.states):
            value = self.new_states[k]
            leaf = value.graph.make(STATE, width=value.width, detail=k)
            if leaf in self.writer.shown:
                left = terms.gradient(self.writer.shown[leaf])
                right = zero if d is None else self.writer.term(d)
                if left != right:  # or it has a line already
                    yield equation(left, right)

    def _weights(self) -> Iterator[Equation]:
        yield from weight_lines(self.writer, self.back)


def weight_lines(writer: Writer, back: Backward) -> Iterator[Equation]:
    """Yields the gradients of weights: sums over the steps."""
    found: dict[int, list[Term]] = {}
    for p in back.products:
        left = terms.transposed(writer.term(p.left))
        term = terms.product(left, writer.term(p.right))
        found.setdefault(p.parameter, []).append(term)
    for total in back.totals:
        found.setdefault(total.parameter, []).append(writer.term(total.value))
    for parameter, parts in found.items():
        left = terms.gradient(writer.names.weight(parameter))
        yield equation(left, terms.over_steps(parts))

"""The part of a step that is computed for all steps at once, as equations."""

from collections.abc import Callable
from typing import Any

import keras

from kerasseq.kernels.derived import terms
from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.derived.equations import Equation, equation, weight_lines
from kerasseq.kernels.derived.gradient import backward
from kerasseq.kernels.derived.graph import GRADIENT, INPUT, NotDerivable, Value
from kerasseq.kernels.derived.names import Names
from kerasseq.kernels.derived.terms import Letter, Term
from kerasseq.kernels.derived.trace import Traced, trace
from kerasseq.kernels.derived.writing import Writer

_X = Letter("x", ("t",)).term


class Projection:
    """What a step takes of the inputs: $x_t W + b$, if the cell has `project`.

    Args:
        cell: The cell.
        project: Function `(cell, x)`; None if the step takes x.
        features: Size of x.
        dtype: That of all values.
    """

    def __init__(
        self,
        cell: keras.Layer,
        project: Callable[..., Any] | None,
        features: int,
        dtype: str,
    ) -> None:
        self.is_input: bool = project is None
        self.forward: list[Equation] = []
        self._writer: Writer | None = None
        self._output: Value | None = None
        try:
            traced = self._trace(cell, project, features, dtype)
        except NotDerivable:  # it is written as a call
            return
        self._output = traced.output
        self._writer = Writer(Names(cell, traced.rows, []))

    def _trace(self, cell, project, features, dtype) -> Traced:
        def compute(view: Any, x: Any, _: Any) -> tuple[Any, list[Any]]:
            return x if project is None else project(view, x), []

        options = {"states": [], "noise": None, "training": False, "dtype": dtype}
        return trace(cell, compute, width=features, **options)

    @property
    def term(self) -> Term:
        """What the step takes."""
        if self._writer is None:
            return terms.function("project", _X)
        return self._writer.term(self._output)

    def name_input(self, writer: Writer, derived: Derived) -> None:
        """Writes it into the equations of the step: by a letter, if several have it."""
        reached = list(writer.walk(derived.new_states))
        for value in (v for v in reached if v.op == INPUT):
            users = [v for v in reached if value in writer.parts(v)]
            split = all(v.op == "slice" and v in writer.shown for v in users)
            if self.is_input or split or len(users) == 1:
                writer.shown[value] = self.term
            else:
                taken = {term.text for term in writer.shown.values()}
                free = next(c for c in "aequvwxyz" if f"{c}_t" not in taken)
                writer.shown[value] = Letter(free, ("t",)).term
                self.forward = [equation(writer.shown[value], self.term)]

    def backward(self, writer: Writer, d: Value | None) -> list[Equation]:
        """Returns the gradients of x and of the weights, from that of the step."""
        if self._writer is None or d is None:
            return []
        try:
            back = backward(self._output.graph, [self._output], 0)
        except NotDerivable:
            return []
        width = self._output.width
        leaf = self._output.graph.make(GRADIENT, width=width, detail=0)
        self._writer.shown[leaf] = writer.term(d)
        lines = []
        if back.input is not None:
            right = self._writer.term(back.input)
            if right != terms.gradient(_X):
                lines = [equation(terms.gradient(_X), right)]
        return [*lines, *weight_lines(self._writer, back)]

"""What is derived from the step of a cell, as equations in the letters of the step."""

import dataclasses
import traceback
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import keras

from kerasseq.kernels.derived.derive import derive
from kerasseq.kernels.derived.equations import Equation, Equations
from kerasseq.kernels.derived.graph import NOISE, NotDerivable
from kerasseq.kernels.derived.letters import Watch
from kerasseq.kernels.derived.names import Names
from kerasseq.kernels.derived.projection import Projection
from kerasseq.kernels.derived.terms import Letter
from kerasseq.kernels.derived.writing import Writer

STEP_BY_STEP = "Until then the layer calls `step` at each time step: right, and slower."
NOTES = {
    "|t+1": "∂L/∂…|t+1 is what step t + 1 contributes.",
    "Σ_t": "Σ_t adds up all steps and sequences, in one product after the loop.",
    "1[": "1[…] is 1 where the condition is true, else 0.",
}


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What a loop was derived from, and what it computes.

    `print` shows it as text, a notebook as equations.

    Attributes:
        name: The class of the cell.
        reason: Why no loop can be derived, and what to do; None if one is derived.
        forward: The equations of one step.
        backward: Those of its gradients. ∂L/∂h_t is the gradient of the new state;
            ∂L/∂c_t|t+1 is the part of it that comes from the next step.
        kept: What is kept of each step for the backward pass, besides the states and
            the inputs.
    """

    name: str
    reason: str | None = None
    forward: tuple[Equation, ...] = ()
    backward: tuple[Equation, ...] = ()
    kept: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.reason is not None:
            return f"{self.name} cannot be derived: {self.reason}. {STEP_BY_STEP}"
        kept = ", ".join(self.kept) or "only the states and the inputs"
        parts = [("Forward", self.forward), ("Backward", self.backward)]
        blocks = [f"{title}\n{_aligned(lines)}" for title, lines in parts]
        whole = "\n".join(blocks)
        notes = [note for sign, note in NOTES.items() if sign in whole]
        end = "\n".join([f"Kept for the backward pass: {kept}.", *notes])
        return "\n\n".join([self.name, *blocks, end])

    def latex(self, part: str | None = None) -> str:
        """Returns the equations as an `aligned` block of LaTeX.

        Args:
            part: "forward" or "backward"; both if None.
        """
        lines = {"forward": self.forward, "backward": self.backward}
        chosen = (*self.forward, *self.backward) if part is None else lines[part]
        body = " \\\\[0.4em]\n".join(line.latex for line in chosen)
        return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"

    def _repr_markdown_(self) -> str:
        if self.reason is not None:
            return str(self)
        return "\n\n".join(
            f"**{title}**\n\n$$\n{self.latex(part)}\n$$"
            for title, part in [("Forward", "forward"), ("Backward", "backward")]
        )


def _aligned(lines: Sequence[Equation]) -> str:
    width = max((_width(line.left) for line in lines), default=0)
    return "\n".join(
        f"  {line.left}{' ' * (width - _width(line.left))} = {line.right}"
        for line in lines
    )


def _width(text: str) -> int:
    """The columns of a text, in which an accent takes none."""
    return sum(not unicodedata.combining(c) for c in text)


def explain(
    cell: keras.Layer,
    step: Callable[..., tuple[Any, Any]],
    *,
    project: Callable[..., Any] | None = None,
    features: int,
    width: int,
    states: Sequence[int],
    noise: Sequence[int] | int | None = None,
    training: bool = False,
    dtype: str = "float32",
) -> Explanation:
    """Derives the loop of a cell, and writes it as equations.

    Args:
        cell: A built cell.
        step: As in `derive`.
        project: Function `(cell, x)` that computes the input of `step` from that of the
            cell; None if they are the same.
        features: Size of the input of the cell.
        width: As in `derive`.
        states: As in `derive`.
        noise: As in `derive`.
        training: As in `derive`.
        dtype: As in `derive`.
    """
    function = getattr(cell, "step", cell.call) if project else cell.call
    watch = Watch(cell, function)
    given: list[Any] = []

    def watched(view, x, old):
        given.extend(old)
        with watch:
            return step(view, x, old)

    name = type(cell).__name__
    options = {"noise": noise, "training": training, "dtype": dtype, "whole": True}
    try:
        derived = derive(cell, watched, width=width, states=states, **options)
    except NotDerivable as error:
        return Explanation(name, reason_of(error, function))
    names = Names(cell, derived.rows, watch.bound, given, derived.new_states)
    writer = Writer(names)
    if isinstance(noise, int):
        leaf = derived.graph.make(NOISE, width=noise, detail=0)
        writer.shown[leaf] = Letter("m").term
    projection = Projection(cell, project, features, dtype)
    projection.name_input(writer, derived)
    equations = Equations(
        writer, derived.new_states, derived.backward, project is not None
    )
    after = projection.backward(writer, derived.backward.input)
    return Explanation(
        name,
        None,
        (*projection.forward, *equations.forward()),
        (*equations.backward(), *after),
        tuple(writer.term(value).text for value in derived.kept),
    )


def reason_of(error: NotDerivable, step: Callable[..., Any]) -> str:
    """Returns what a step has that cannot be derived, and what to write instead."""
    cause = error.__cause__
    if cause is None:
        return str(error)
    text, where = str(cause), _line(cause, step)
    if "used as a boolean" in text:
        return (
            f"it branches on a value{where}: compute both sides, and choose with "
            "`ops.where(condition, a, b)`"
        )
    if "KerasTensor" in text:
        return (
            f"it needs the numbers of a tensor{where}: use functions of `keras.ops`, "
            "not of NumPy or a backend, and no tensors that are made in the step"
        )
    return f"{error}{where}. It is derived by a call with `keras.KerasTensor`"


def _line(error: BaseException, step: Callable[..., Any]) -> str:
    """The last line of the file of the step that an error came through."""
    code = getattr(getattr(step, "__func__", step), "__code__", None)
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if code is not None and f.filename == code.co_filename]
    if not own:
        return ""
    line = f" `{own[-1].line}`" if own[-1].line else ""
    return f" in line {own[-1].lineno}{line}"

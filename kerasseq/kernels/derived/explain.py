"""What is derived from the step of a cell, as equations in the letters of the step."""

import dataclasses
import traceback
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.kernels.derived import terms
from kerasseq.kernels.derived.derive import derive
from kerasseq.kernels.derived.equations import Equation, Equations
from kerasseq.kernels.derived.graph import (
    INPUT,
    NOISE,
    STATE,
    NotDerivable,
    Value,
    walk,
)
from kerasseq.kernels.derived.names import Names, watch
from kerasseq.kernels.derived.terms import Letter, word
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
    noise: Sequence[int] | int | None = None,
    dtype: str,
    **options: Any,
) -> Explanation:
    """Derives the loop of a cell, and writes it as equations.

    Args:
        cell: A built cell.
        step: As in `derive`.
        project: Function `(cell, x)` that computes the input of `step` from that of the
            cell; None if they are the same.
        features: Size of the input of the cell.
        noise: As in `derive`.
        dtype: As in `derive`.
        **options: Further arguments of `derive`.
    """
    function = getattr(cell, "step", cell.call) if project else cell.call
    options |= {"noise": noise, "dtype": dtype, "whole": True}
    given: list[Any] = []
    bound: list[tuple[str, Any]] = []

    def watched(view: Any, x: Any, states: list[Any]) -> tuple[Any, Any]:
        given[:] = x, *states
        with watch(cell, function) as found:
            result = step(view, x, states)
        bound[:] = found
        return result

    def whole(view: Any, x: Any, states: list[Any]) -> tuple[Any, Any]:
        return watched(view, project(view, x) if project else x, states)

    name, x = type(cell).__name__, Letter(word("x"), time="t").term
    try:
        try:
            derived = derive(cell, whole, width=features, **options)
        except NotDerivable:
            if project is None:
                raise
            inputs = project(cell, ops.zeros((1, features), dtype))
            derived = derive(cell, watched, width=inputs.shape[-1], **options)
            x = terms.function("project", x)
    except NotDerivable as error:
        return Explanation(name, reason_of(error, function))
    names = Names(cell, derived, bound, *given)
    writer = Writer(names)
    for leaf in derived.rows.values.values():
        if leaf.op == INPUT:
            writer.shown[leaf] = x
        if leaf.op == NOISE:
            index = () if isinstance(noise, int) else (word(str(leaf.detail + 1)),)
            writer.shown[leaf] = Letter(word("m"), index).term
    equations = Equations(writer, derived)
    return Explanation(
        name,
        None,
        tuple(equations.forward()),
        tuple(equations.backward()),
        tuple(writer.term(v).text for v in derived.kept if _reads_state(v)),
    )


def _reads_state(value: Value) -> bool:
    """Whether a value depends on more than the input: others are computed before."""
    return any(v.op == STATE for v in walk([value]))


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

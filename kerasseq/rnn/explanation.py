"""`explain` of cells and layers: what runs, as equations."""

import dataclasses
import traceback
import types
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops, tree

from kerasseq.core import checks
from kerasseq.kernels.derived.derive import Derived, derive
from kerasseq.kernels.derived.equations import Equation, Equations
from kerasseq.kernels.derived.graph import STATE, NotDerivable, walk
from kerasseq.kernels.derived.names import Names, watch
from kerasseq.kernels.derived.terms import Term, function, letter
from kerasseq.rnn.loop import call_keras_cell, has_steps

FEATURES = 5  # of a cell that is not built
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
        blocks = [self.name, f"Forward\n{_aligned(self.forward)}"]
        blocks += [f"Backward\n{_aligned(self.backward)}"]
        notes = [note for sign, note in NOTES.items() if sign in "".join(blocks)]
        end = "\n".join([f"Kept for the backward pass: {kept}.", *notes])
        return "\n\n".join([*blocks, end])

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
        blocks = [(part, self.latex(part)) for part in ("forward", "backward")]
        return "\n\n".join(f"**{part.title()}**\n\n$$\n{x}\n$$" for part, x in blocks)


def _aligned(lines: Sequence[Equation]) -> str:
    """Returns the lines, with "=" below "="; an accent takes no column."""
    widths = [sum(not unicodedata.combining(c) for c in line.left) for line in lines]
    return "\n".join(
        f"  {line.left}{' ' * (max(widths) - width)} = {line.right}"
        for line, width in zip(lines, widths, strict=True)
    )


def explain_cell(cell: keras.Layer, training: bool = False) -> Explanation:
    """Writes what is derived from the step of a cell as equations.

    Args:
        cell: A cell, of kerasseq, of Keras or your own. If it is not built, a copy of
            it is, with a few features.
        training: Whether dropout is on: the masks of `recurrent_dropout` are then m.

    Raises:
        ValueError: If the cell is not built, and cannot be copied; or if it is a stack
            of cells.
    """
    checks.flag("training", training)
    if hasattr(cell, "cells"):
        raise ValueError(
            f"explain() shows one cell, received a stack of {len(cell.cells)}. Call it "
            "for one of them: `kerasseq.layers.RNN(cell).explain()`"
        )
    cell, features = built(cell)
    name, method = type(cell).__name__, cell.step if has_steps(cell) else cell.call
    try:
        derived, names, x = _derived(cell, features, method, training)
    except NotDerivable as error:
        return Explanation(name, reason_of(error, method))
    lines = Equations(names, derived, x)
    # What depends on the input alone is computed before the loop.
    kept = [v for v in derived.kept if any(part.op == STATE for part in walk([v]))]
    shown = tuple(lines.term(v).text for v in kept)
    return Explanation(name, None, lines.forward(), lines.backward(), shown)


def _derived(
    cell: keras.Layer, features: int, method: Callable[..., Any], training: bool
) -> tuple[Derived, Names, Term]:
    """Derives the step with its projection. Returns it, its names, and its input."""
    steps, sizes, noise = has_steps(cell), tree.flatten(cell.state_size), None
    if training and getattr(cell, "recurrent_dropout", 0):
        masks = getattr(cell, "dropout_mask_count", None)
        noise = sizes[0] if masks is None else sizes[:1] * masks
    options = {"states": sizes, "noise": noise, "training": training, "whole": True}
    options["dtype"] = cell.compute_dtype
    seen: list[Any] = []  # the local variables, the input and the states of the step

    def step(view: Any, x: Any, states: list[Any]) -> tuple[Any, Any]:
        nested = tree.pack_sequence_as(cell.state_size, states)
        nested = list(nested) if isinstance(nested, list | tuple) else [nested]
        with watch(cell, method) as bound:
            seen[:] = bound, x, *states
            if steps:
                return view.step(x, nested, training)
            return call_keras_cell(view, x, nested, training)

    def whole(view: Any, x: Any, states: list[Any]) -> tuple[Any, Any]:
        return step(view, view.project(x) if steps else x, states)

    x = letter("x_t")
    try:
        derived = derive(cell, whole, width=features, **options)
    except NotDerivable:  # perhaps for `project`, which is then written as a call
        inputs = ops.zeros((1, features), cell.compute_dtype)
        width = (cell.project(inputs) if steps else inputs).shape[-1]
        derived, x = derive(cell, step, width=width, **options), function("project", x)
    return derived, Names(cell, derived, *seen), x


def built(cell: keras.Layer) -> tuple[keras.Layer, int]:
    """Returns a built cell, or a built copy, and how many features it takes."""
    if cell.built:
        shape = (cell.get_build_config() or {}).get("input_shape", (None, FEATURES))
        return cell, shape[-1]
    try:
        copy = type(cell).from_config(cell.get_config())
    except Exception as error:  # whatever a user's `get_config` lacks
        raise ValueError(
            f"explain() needs a built cell, and {type(cell).__name__} could not be "
            f"copied by its get_config: {error}. Call `cell.build((None, features))` "
            "first"
        ) from error
    for name, value in vars(cell).items():  # as a `step` that was set on the cell
        if isinstance(value, types.MethodType):
            value = types.MethodType(value.__func__, copy)
        if isinstance(value, types.FunctionType | types.MethodType):
            vars(copy).setdefault(name, value)
    copy.build((None, FEATURES))
    return copy, FEATURES


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
    """Returns the last line of the file of the step that an error came through."""
    code = getattr(step, "__code__", None)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if code is not None and frame.filename == code.co_filename:
            line = f" `{frame.line}`" if frame.line else ""
            return f" in line {frame.lineno}{line}"
    return ""

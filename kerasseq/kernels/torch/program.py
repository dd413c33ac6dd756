"""Runs the plan of a derived loop: products by PyTorch, compiled functions between."""

import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from kerasseq.kernels.torch import compile
from kerasseq.kernels.torch.emit import Source
from kerasseq.kernels.torch.plan import Plan
from kerasseq.kernels.torch.products import product_into
from kerasseq.kernels.torch.schedule import (
    BATCH,
    PAIR,
    STEPS,
    UNITS,
    Array,
    Function,
    Multiply,
    Place,
)

Tensors = dict[str, torch.Tensor]  # by the names of the arrays


class Call(NamedTuple):
    """A function or a product, with what it takes at each step."""

    run: Callable[..., object]
    left: list[torch.Tensor] | None = None  # None: a function
    right: torch.Tensor | None = None
    out: list[torch.Tensor] | None = None


class Program:
    """The compiled functions of a plan, with the products between them."""

    def __init__(self, plan: Plan) -> None:
        source = Source()
        self.plan = plan
        self.forward: list[Multiply | str] = self._add(source, "forward")
        self.backward: list[Multiply | str] = self._add(source, "backward")
        self.source = source
        self._module: compile.Module = compile.load("\n".join(source.text))
        self._functions: dict[str, Callable[[int, int], None]] = {
            name: self._module.function(name)
            for name in (*self.forward, *self.backward)
            if isinstance(name, str)
        }

    def _add(self, source: Source, direction: str) -> list[Multiply | str]:
        """Writes the functions of one pass; returns its steps, with their names."""
        found: list[Multiply | str] = []
        steps = getattr(self.plan, direction)
        for n, step in enumerate(steps):
            if isinstance(step, Multiply):
                found.append(step)
                continue
            found.append(f"{direction}_{n}")
            source.add(
                found[-1],
                step,
                backward=direction == "backward",
                whole=is_whole(steps),
                output=self.plan.output,
            )
        return found

    def run(
        self, tensors: Tensors, steps: int, batch: int, *, backward: bool = False
    ) -> None:
        """Runs all steps of one pass.

        Args:
            tensors: What the functions read and write.
            steps: T.
            batch: B.
            backward: Which pass.
        """
        if not steps or not batch:
            return
        listed = self.backward if backward else self.forward
        for name, width, _ in self.source.scratch:
            tensors[name] = torch.empty(width, dtype=torch.float32)
        whole = is_whole(listed)
        table = self._table(tensors, batch, steps if whole else 1)
        address, _ = table.buffer_info()
        calls = [self._bind(step, tensors, steps) for step in listed]
        times = range(steps - 1, -1, -1) if backward else range(steps)
        for t in times[:1] if whole else times:
            for run, left, right, out in calls:
                if left is None:
                    run(t, address)
                else:
                    run(left[t], right, out[t])

    def _bind(self, step: Multiply | str, tensors: Tensors, steps: int) -> Call:
        if isinstance(step, str):
            return Call(self._functions[step])
        right = tensors[f"parameter{step.parameter}"]
        right = (right.t() if step.transposed else right).contiguous()
        left = at_each_step(tensors, step.left, step.width, steps)
        out = at_each_step(tensors, step.out, right.shape[1], steps)
        run = product_into(len(left[0]), *right.shape, add=step.add)
        return Call(run, left, right, out)

    def _table(self, tensors: Tensors, batch: int, steps: int) -> array.array:
        """What functions read: numbers, addresses and distances in memory."""
        entries: list[int] = []
        for what in self.source.table:  # in the order of their places
            if isinstance(what, Array):
                entries += _entries(tensors.get(what.name))
            else:
                entries.append({"batch": batch, "steps": steps}.get(what, what))
        return array.array("q", entries)


def is_whole(steps: Sequence[Multiply | Function | str]) -> bool:
    """Whether a function computes all steps, as it does if there is no product."""
    return not any(isinstance(step, Multiply) for step in steps)


def _entries(tensor: torch.Tensor | None) -> tuple[int, int, int]:
    """An address, and the distances between steps and between rows."""
    if tensor is None:  # of the other pass
        return 0, 0, 0
    step, row, _ = (0, 0, *tensor.stride())[-3:]
    return tensor.data_ptr(), step, row


def rows(x: torch.Tensor) -> torch.Tensor:
    """A tensor whose units are neighbors in memory, as functions read them."""
    return x if x.shape[-1] == 1 or x.stride(-1) == 1 else x.contiguous()


def at_each_step(
    tensors: Tensors, place: Place, width: int, steps: int
) -> list[torch.Tensor]:
    """Returns the rows of all sequences at each step, `(B, width)`."""
    (name, size, kind), at, ahead = place
    tensor = tensors[name]
    if width != size:
        tensor = tensor[..., at : at + width]
    if kind == PAIR:
        pair = tensor.unbind()
        return [pair[(t + ahead) % 2] for t in range(steps)]
    if kind != STEPS:
        return [tensor] * steps
    found = tensor.unbind()
    return list(found[ahead : ahead + steps])


def at_all_steps(
    tensors: Tensors, place: Place, width: int, steps: int
) -> torch.Tensor:
    """Returns the rows of all steps and sequences, `(T * B, width)`."""
    (name, *_), at, ahead = place
    rows = tensors[name][ahead : ahead + steps, :, at : at + width]
    return rows.flatten(0, 1)


def shape_of(kind: str, steps: int, batch: int, width: int) -> tuple[int, ...]:
    """The shape of an array of a kind."""
    before = {STEPS: (steps, batch), PAIR: (2, batch), BATCH: (batch,), UNITS: ()}
    return *before[kind], width

"""Runs the plan of a derived loop: products by PyTorch, compiled functions between."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch

from kerasseq.kernels.torch import compile
from kerasseq.kernels.torch.emit import Source
from kerasseq.kernels.torch.plan import Plan
from kerasseq.kernels.torch.products import product_into
from kerasseq.kernels.torch.schedule import PAIR, STEPS, UNITS, Array, Multiply, Place

Tensors = Mapping[str, torch.Tensor]  # by the names of the arrays


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
        self.module: compile.Module = compile.load("\n".join(source.text))

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
                whole=len(steps) == 1,
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
        scratch = {a.name: torch.empty(a.width) for a in self.source.scratch}
        whole = len(listed) == 1  # a function alone computes all steps
        count = steps if whole else 1
        table = self._table({**tensors, **scratch}, batch, count)
        address = table.ctypes.data
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
            return Call(self.module.function(step))
        right = tensors[f"parameter{step.parameter}"]
        right = (right.t() if step.transposed else right).contiguous()
        left = at_each_step(tensors, step.left, step.width, steps)
        out = at_each_step(tensors, step.out, right.shape[1], steps)
        run = product_into(len(left[0]), *right.shape, add=step.add)
        return Call(run, left, right, out)

    def _table(self, tensors: Tensors, batch: int, steps: int) -> np.ndarray:
        """What functions read: numbers, addresses and distances in memory."""
        entries: list[int] = []
        for what in self.source.table:  # in the order of their places
            if isinstance(what, Array):
                entries += _entries(what, tensors.get(what.name))
            else:
                entries.append({"batch": batch, "steps": steps}.get(what, what))
        return np.array(entries, np.int64)


def _entries(array: Array, tensor: torch.Tensor | None) -> tuple[int, int, int]:
    """An address, and the distances between steps and between rows."""
    if tensor is None:  # of the other pass
        return 0, 0, 0
    step, row, _ = (0, 0, *tensor.stride())[-3:]
    return tensor.data_ptr(), step, row


def at_each_step(
    tensors: Tensors, place: Place, width: int, steps: int
) -> list[torch.Tensor]:
    """Returns the rows of all sequences at each step, `(B, width)`."""
    array, at, ahead = place
    tensor = tensors[array.name]
    if width != array.width:
        tensor = tensor[..., at : at + width]
    if array.kind == PAIR:
        pair = tensor.unbind()
        return [pair[(t + ahead) % 2] for t in range(steps)]
    if array.kind != STEPS:
        return [tensor] * steps
    found = tensor.unbind()
    return list(found[ahead : ahead + steps])


def at_all_steps(
    tensors: Tensors, place: Place, width: int, steps: int
) -> torch.Tensor:
    """Returns the rows of all steps and sequences, `(T * B, width)`."""
    array, at, ahead = place
    rows = tensors[array.name][ahead : ahead + steps, :, at : at + width]
    return rows.flatten(0, 1)


def shape_of(array: Array, steps: int, batch: int) -> tuple[int, ...]:
    """The shape of an array."""
    before = {STEPS: (steps, batch), PAIR: (2, batch), UNITS: ()}
    return *before.get(array.kind, (batch,)), array.width

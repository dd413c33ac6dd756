"""Runs the derived loop of a cell on a CPU in float32.

Each step is its products, computed by PyTorch, with compiled functions in between. The
gradients of matrices are one product each over all steps, after the loop.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.torch import compile
from kerasseq.kernels.torch.plan import Plan, make_plan, written
from kerasseq.kernels.torch.products import empty, mm
from kerasseq.kernels.torch.program import Program, at_all_steps, rows, shape_of
from kerasseq.kernels.torch.schedule import STEPS
from kerasseq.kernels.torch.tensors import holds_float32


def can_run(tensors: Sequence[Tensor]) -> bool:
    """See `kernels.derived`: on a CPU in float32, where llvmlite is installed."""
    return compile.is_available() and all(map(holds_float32, tensors))


def run(
    derived: Derived,
    x: torch.Tensor,
    states: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    noise: Sequence[torch.Tensor],
    mask: torch.Tensor | None,
    *,
    path: bool,
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    """See `kernels.derived`. The backward pass refuses a second derivative."""
    learned = [x, *parameters]
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in (*learned, *states))
    wanted = tuple(t.requires_grad for t in learned) if keep else None
    program = derived.compiled.get((path, wanted))
    if program is None:
        program = Program(make_plan(derived, path=path, wanted=wanted))
        derived.compiled[path, wanted] = program
    given = {f"noise{k}": m for k, m in enumerate(noise)}
    if mask is not None:
        given["mask"] = mask[..., None]
    outputs, *last = _Loop.apply(program, given, len(states), x, *states, *parameters)
    if keep and path:  # a view would keep all that is saved for the backward pass
        outputs = outputs.clone()
    return outputs, last


class _Loop(torch.autograd.Function):
    """The loop as one operation, in float32 inside `torch.autocast`, too.

    Products that are written to a given matrix are not cast there, all others are.
    """

    @staticmethod
    def forward(
        ctx: Any,
        program: Program,
        given: dict[str, torch.Tensor],
        states: int,
        x: torch.Tensor,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor | None, ...]:
        ctx.set_materialize_grads(False)
        plan, (steps, batch, _) = program.plan, x.shape
        given = {"x": x, **given, **_parameters(tensors[states:])}
        arrays = {name: rows(tensor) for name, tensor in given.items()}
        arrays |= _allocate(plan, x, steps, batch)
        for k, state in enumerate(tensors[:states]):
            arrays[f"state{k}"][0] = state
        program.run(arrays, steps, batch)
        if plan.backward:
            ctx.program, ctx.size, ctx.states = program, (steps, batch), states
            ctx.names = [name for name in arrays if name in plan.saved]
            saved = [arrays[name] for name in ctx.names]
            ctx.save_for_backward(*tensors[states:], *saved)
        paths = [arrays[f"state{k}"] for k in range(states)]  # or the last two states
        last = [path[steps if len(path) > 2 else steps % 2].clone() for path in paths]
        return paths[plan.output][1:] if plan.path else None, *last

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(
        ctx: Any, d_path: torch.Tensor | None, *d_last: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError(
                "expected a first derivative: on PyTorch the fast recurrence has no "
                "second derivatives. Build the layer with `unroll=True`, which has them"
            )
        plan, (steps, batch) = ctx.program.plan, ctx.size
        count = len(ctx.saved_tensors) - len(ctx.names)
        parameters, saved = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        given = _parameters(parameters) | dict(zip(ctx.names, saved, strict=True))
        if d_path is not None:
            given["d_path"] = d_path
        arrays = _allocate_backward(plan, steps, batch, d_last)
        arrays |= {name: rows(tensor) for name, tensor in given.items()}
        ctx.program.run(arrays, steps, batch, backward=True)
        d_states = [arrays[f"gradient{k}"][0] for k in range(ctx.states)]
        d_parameters = _parameter_gradients(plan, arrays, steps, count)
        return None, None, None, arrays.get("d_x"), *d_states, *d_parameters


def _parameters(tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"parameter{k}": tensor for k, tensor in enumerate(tensors)}


def _allocate(
    plan: Plan, like: torch.Tensor, steps: int, batch: int
) -> dict[str, torch.Tensor]:
    """What the loop writes; states have a place for the first one."""
    arrays = written(plan.forward)
    shapes = []
    for array in arrays:
        more = array.name.startswith("state") and array.kind == STEPS
        shapes.append(shape_of(array.kind, steps + more, batch, array.width))
    found = empty(like, shapes, in_one_block=bool(plan.backward))
    return {a.name: x for a, x in zip(arrays, found, strict=True)}


def _allocate_backward(
    plan: Plan, steps: int, batch: int, d_last: Sequence[torch.Tensor | None]
) -> dict[str, torch.Tensor]:
    """What the backward pass writes; sums begin with 0."""
    found = {}
    for array in written(plan.backward):
        shape = shape_of(array.kind, steps, batch, array.width)
        found[array.name] = torch.empty(shape, dtype=torch.float32)
    for _, array in plan.totals:
        found[array.name].zero_()
    for k, d in enumerate(d_last):
        found[f"gradient{k}"][steps % 2] = 0 if d is None else d
    # If the outputs have no gradient, the same row of zeros serves all steps.
    width = found[f"gradient{plan.output}"].shape[-1]
    return {"d_path": torch.zeros(width, dtype=torch.float32), **found}


def _parameter_gradients(
    plan: Plan, arrays: Mapping[str, torch.Tensor], steps: int, count: int
) -> list[torch.Tensor | None]:
    """The gradients of the parameters: products and sums over all steps."""
    found: list[torch.Tensor | None] = [None] * count
    parts = [
        (
            factors.parameter,
            mm(
                at_all_steps(arrays, factors.left, factors.shape[0], steps).t(),
                at_all_steps(arrays, factors.right, factors.shape[1], steps),
            ),
        )
        for factors in plan.factors
    ]
    parts += [(parameter, arrays[array.name]) for parameter, array in plan.totals]
    for k, part in parts:
        before = found[k]
        found[k] = part if before is None else before + part
    return found

"""Runs the derived loop of a cell on a CPU in float32.

Each step is its products, computed by PyTorch, with compiled functions in between. The
gradients of matrices are one product each over all steps, after the loop.
"""

import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels.derived.derive import Derived
from kerasseq.kernels.derived.evaluate import evaluate, leaves
from kerasseq.kernels.torch import compile
from kerasseq.kernels.torch.emit import Source, Writer
from kerasseq.kernels.torch.plan import (
    BATCH,
    PAIR,
    STEPS,
    UNITS,
    Multiply,
    Place,
    Plan,
    Step,
    make_plan,
    written,
)
from kerasseq.kernels.torch.products import holds_float32, mm, multiply_at

Tensors = dict[str, torch.Tensor]  # by the names of the arrays


class Direction:
    """What runs at each step of one pass.

    Attributes:
        steps: Products, and functions by their names.
        written: The arrays that they write.
        whole: Whether a function computes all steps, as it does without products.
    """

    def __init__(
        self, steps: Sequence[Step], source: Source, output: int, *, backward: bool
    ) -> None:
        self.written = written(steps)
        self.whole = not any(isinstance(step, Multiply) for step in steps)
        self.steps: list[Multiply | str] = []
        for n, step in enumerate(steps):
            if not isinstance(step, Multiply):
                name = f"{'backward' if backward else 'forward'}_{n}"
                source.functions[name] = Writer(source, step, output).text(
                    name, backward=backward, whole=self.whole
                )
                step = name
            self.steps.append(step)


class Program:
    """The compiled functions of a plan, with the products between them."""

    def __init__(self, plan: Plan) -> None:
        source = Source()
        self.plan, self._arrays = plan, source.arrays
        self.forward = Direction(plan.forward, source, plan.output, backward=False)
        self.backward = Direction(plan.backward, source, plan.output, backward=True)
        self._module: compile.Module = compile.load(source.text())
        self._functions: dict[str, Callable[[int, int], None]] = {
            name: self._module.function(name) for name in source.functions
        }

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
        direction = self.backward if backward else self.forward
        entries = [batch, steps if direction.whole else 1]
        for known in self._arrays:
            entries += _entries(tensors.get(known.name))
        table = array.array("q", entries)
        address, _ = table.buffer_info()
        calls = [self._bind(step, tensors, steps, address) for step in direction.steps]
        times = range(steps - 1, -1, -1) if backward else range(steps)
        for t in times[:1] if direction.whole else times:
            for call in calls:
                call(t)

    def _bind(
        self, step: Multiply | str, tensors: Tensors, steps: int, address: int
    ) -> Callable[[int], object]:
        """Returns what runs at step t."""
        if isinstance(step, str):
            function = self._functions[step]
            return lambda t: function(t, address)
        right = tensors[f"parameter{step.parameter}"]
        right = (right.t() if step.transposed else right).contiguous()
        left = _at_each_step(tensors, step.left, right.shape[0], steps)
        out = _at_each_step(tensors, step.out, right.shape[1], steps)
        return multiply_at(left, right, out)


def _entries(tensor: torch.Tensor | None) -> tuple[int, int, int]:
    """Returns an address, and the distances between steps and between rows."""
    if tensor is None:  # of the other pass
        return 0, 0, 0
    step, row, _ = (0, 0, *tensor.stride())[-3:]
    return tensor.data_ptr(), step, row


def _at_each_step(
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
    return list(tensor.unbind()[ahead : ahead + steps])


def rows(x: torch.Tensor) -> torch.Tensor:
    """Returns a tensor whose units are neighbors in memory, as functions read them."""
    return x if x.shape[-1] == 1 or x.stride(-1) == 1 else x.contiguous()


# The loop of a cell.


def can_run(tensors: Sequence[Tensor]) -> bool:
    """Returns whether the loop runs here: on a CPU in float32, with llvmlite."""
    return compile.is_available() and holds_float32(*tensors)


def run(
    derived: Derived,
    x: torch.Tensor,
    states: Sequence[torch.Tensor],
    parameters: Sequence[torch.Tensor],
    noise: Sequence[torch.Tensor],
    mask: torch.Tensor | None,
    *,
    path: bool,
    again: Callable[[], torch.Tensor] | None = None,
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    """Runs the loop through time, and returns the output and the last states.

    x is `(T, B, N)`, a state or a mask of `noise` `(B, n)`, `mask` boolean `(T, B)` or
    None, and the output `(T, B, n)`, None if not `path`.
    For a second derivative, `again` computes x once more.
    """
    learned = [x, *parameters]
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in (*learned, *states))
    wanted = tuple(t.requires_grad for t in learned) if keep else None
    program = derived.compiled.get((path, wanted))
    if program is None:
        program = Program(make_plan(derived, path=path, wanted=wanted))
        derived.compiled[path, wanted] = program
    given = {f"noise{k}": m for k, m in enumerate(noise)}
    if mask is not None:
        given["mask"] = mask[..., None].to(torch.float32)
    second = derived, noise, mask, again
    outputs, *last = _Loop.apply(
        program, given, second, len(states), x, *states, *parameters
    )
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
        given: Tensors,
        second: tuple[Any, ...],
        states: int,
        x: torch.Tensor,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor | None, ...]:
        ctx.set_materialize_grads(False)
        plan, (steps, batch, _) = program.plan, x.shape
        given = {"x": x, **given, **_parameters(tensors[states:])}
        arrays = {name: rows(tensor) for name, tensor in given.items()}
        arrays |= _allocate(program.forward, steps, batch)
        for k, state in enumerate(tensors[:states]):
            arrays[f"state{k}"][0] = state
        program.run(arrays, steps, batch)
        if plan.backward:
            ctx.program, ctx.size, ctx.states = program, (steps, batch), states
            ctx.second = second
            ctx.names = [name for name in arrays if name in plan.saved]
            saved = [arrays[name] for name in ctx.names]
            ctx.save_for_backward(*tensors, *saved)
        paths = [arrays[f"state{k}"] for k in range(states)]  # or the last two states
        last = [path[steps if len(path) > 2 else steps % 2].clone() for path in paths]
        return paths[plan.output][1:] if plan.path else None, *last

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(
        ctx: Any, d_path: torch.Tensor | None, *d_last: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        program, (steps, batch) = ctx.program, ctx.size
        kept = ctx.saved_tensors  # of a recomputed block they can be read once
        count = len(kept) - len(ctx.names)
        parameters, saved = kept[ctx.states : count], kept[count:]
        if torch.is_grad_enabled():  # create_graph=True
            gradients = _differentiable(ctx, kept[:count], [d_path, *d_last])
            return None, None, None, None, *gradients
        arrays = _parameters(parameters) | dict(zip(ctx.names, saved, strict=True))
        arrays |= _allocate(program.backward, steps, batch)
        for _, total in program.plan.totals:
            arrays[total.name].zero_()
        for k, d in enumerate(d_last):
            arrays[f"gradient{k}"][steps % 2] = 0 if d is None else d
        if d_path is None:  # the same row of zeros serves all steps
            width = arrays[f"gradient{program.plan.output}"].shape[-1]
            d_path = torch.zeros(width, dtype=torch.float32)
        arrays = {name: rows(x) for name, x in {**arrays, "d_path": d_path}.items()}
        program.run(arrays, steps, batch, backward=True)
        d_states = [arrays[f"gradient{k}"][0] for k in range(ctx.states)]
        d_parameters = _parameter_gradients(program.plan, arrays, steps, parameters)
        return None, None, None, None, arrays.get("d_x"), *d_states, *d_parameters


def _differentiable(
    ctx: Any, tensors: Sequence[torch.Tensor], d: Sequence[torch.Tensor | None]
) -> list[torch.Tensor | None]:
    """Returns the gradients of x and of tensors, as results that have derivatives.

    All steps run once more, by operations of PyTorch.

    Args:
        ctx: That of `_Loop`.
        tensors: The first states, and the parameters.
        d: The gradients of all outputs, and of the last states.
    """
    derived, noise, mask, again = ctx.second
    if again is None:
        raise RuntimeError(
            "expected a first derivative: on PyTorch the fast recurrence has no second "
            "derivatives with dropout of the inputs. Build the layer with "
            "`unroll=True`, which has them"
        )
    x, new = again(), derived.new_states
    states, parameters, path = tensors[: ctx.states], tensors[ctx.states :], []
    for t, x_t in enumerate(x):
        real = None if mask is None else mask[t][:, None]
        known = leaves(new, x_t, states, parameters, noise, real)
        states = evaluate(new, known, x_t)
        path.append(states[derived.output])
    results = [torch.stack(path) if ctx.program.plan.path else None, *states]
    pairs = [(y, g) for y, g in zip(results, d, strict=True) if g is not None]
    inputs = [x, *tensors]
    learned = [each for each in inputs if each.requires_grad]
    results, d = zip(*pairs, strict=True)
    gradients = iter(
        torch.autograd.grad(results, learned, d, create_graph=True, allow_unused=True)
    )
    return [next(gradients) if each.requires_grad else None for each in inputs]


def _parameters(tensors: Sequence[torch.Tensor]) -> Tensors:
    return {f"parameter{k}": tensor for k, tensor in enumerate(tensors)}


def _allocate(direction: Direction, steps: int, batch: int) -> Tensors:
    """Allocates what a pass writes; states of all steps begin with the first one."""
    tensors = {}
    for name, width, kind in direction.written:
        rows = {BATCH: (batch,), PAIR: (2, batch), UNITS: ()}.get(kind)
        if rows is None:
            rows = steps + name.startswith("state"), batch
        tensors[name] = torch.empty((*rows, width), dtype=torch.float32)
    return tensors


def _parameter_gradients(
    plan: Plan, arrays: Mapping[str, torch.Tensor], steps: int, parameters: Sequence
) -> list[torch.Tensor | None]:
    """Returns the gradients of the parameters: products and sums over all steps."""

    def all_steps(place: Place, width: int) -> torch.Tensor:
        (name, *_), at, ahead = place
        return arrays[name][ahead : ahead + steps, :, at : at + width].flatten(0, 1)

    parts = [(k, arrays[total.name]) for k, total in plan.totals]
    for k, left, right in plan.factors:
        n, m = parameters[k].shape
        parts.append((k, mm(all_steps(left, n).t(), all_steps(right, m))))
    gradients: list[torch.Tensor | None] = [None] * len(parameters)
    for k, part in parts:
        gradients[k] = part if gradients[k] is None else gradients[k] + part
    return gradients

"""The linear recurrence on PyTorch: compiled, or one operation a step.

On a CPU in float32, where llvmlite is installed, it is compiled as the derived loops
are. A function computes all steps of a sequence before the next one: the state stays in
the cache of the CPU, and each number is read and written once.

Elsewhere `torch.addcmul` writes each state where it belongs, in any dtype and on any
device: for batches of 32 by 128 units it takes as long, for small ones up to three
times as long. A program that is recorded or exported has the reference loop, which also
finds shapes.
"""

import functools
from typing import Any

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels.derived.graph import GRADIENT, INPUT, NOISE, STATE, Graph
from kerasseq.kernels.reference import linear_recurrence as reference
from kerasseq.kernels.torch import derived
from kerasseq.kernels.torch.plan import PAIR, STEPS, Array, Place, Plan, Schedule
from kerasseq.kernels.torch.private import in_dispatch_mode

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def run(a: Tensor, b: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the states at all steps `(B, T, D)` and the last one `(B, D)`."""
    recorded = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if recorded or in_dispatch_mode() or b.device.type == "meta":
        return reference.run(a, b, h)
    return _LinearRecurrence.apply(derived.can_run((a, b, h)), a, b, h)


class _LinearRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, compiled: bool, a: torch.Tensor, b: torch.Tensor, h: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        ctx.compiled = compiled
        path = _forward_compiled(a, b, h) if compiled else _forward(a, b, h)
        ctx.save_for_backward(a, path, h)
        return path, path[:, -1].clone()

    @staticmethod
    def backward(
        ctx: Any, d_path: torch.Tensor | None, d_last: torch.Tensor | None
    ) -> tuple[None, torch.Tensor, torch.Tensor, torch.Tensor]:
        a, path, first = ctx.saved_tensors
        again = torch.is_grad_enabled()  # create_graph=True
        compute = _backward_compiled if ctx.compiled and not again else _backward
        return None, *compute(a, path, first, d_path, d_last)


def _forward(a: torch.Tensor, b: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    path = torch.empty_like(b, memory_format=torch.contiguous_format)
    for a_t, b_t, h_t in zip(a.unbind(1), b.unbind(1), path.unbind(1), strict=True):
        h = torch.addcmul(b_t, a_t, h, out=h_t)
    return path


def _backward(
    a: torch.Tensor,
    path: torch.Tensor,
    first: torch.Tensor,
    d_path: torch.Tensor | None,
    d_last: torch.Tensor | None,
) -> Gradients:
    """Returns the gradients of a, b and the first state; None stands for zeros.

    They are a linear recurrence from the end to the start, so they have derivatives.
    """
    d_path = torch.zeros_like(path) if d_path is None else d_path
    d_last = torch.zeros_like(first) if d_last is None else d_last
    after = torch.cat([torch.ones_like(a[:, :1]), a.conj().flip(1)[:, :-1]], 1)
    d_b = run(after, d_path.flip(1), d_last)[0].flip(1)
    before = torch.cat([first[:, None], path[:, :-1]], 1)
    return d_b * before.conj(), d_b, a[:, 0].conj() * d_b[:, 0]


@functools.cache
def _program(width: int) -> derived.Program:
    """Returns the functions of $h = a h + b$ and of its gradients, for a size of h.

    Forward they read `a`, `b` and `before`, the states before the steps, and write
    `path`; backward they read `a`, `before` and `d_path`, and write the others.
    """
    graph = Graph()
    a, b, h, d = (
        graph.make(op, width=width, detail=0) for op in (NOISE, INPUT, STATE, GRADIENT)
    )

    def place(name: str, kind: str = STEPS, ahead: int = 0) -> Place:
        return Place(Array(name, width, kind), ahead=ahead)

    given = {a: place("a"), b: place("b"), h: place("before")}
    given[d] = place("d_state", PAIR, 1)
    forward, backward = (Schedule(given, side) for side in (False, True))
    forward.store(a * h + b, place("path"))
    backward.store(d, place("d_b"))
    backward.store(d * h, place("d_a"))
    backward.store(d * a, place("d_state", PAIR))
    plan = Plan(0, True, forward.complete(), backward.complete())
    return derived.Program(plan)


def _forward_compiled(
    a: torch.Tensor, b: torch.Tensor, first: torch.Tensor
) -> torch.Tensor:
    B, T, D = b.shape
    path = b.new_empty(D + B * T * D)[D:].view(B, T, D)  # D numbers come before it
    torch.addcmul(b[:, 0], a[:, 0], first, out=path[:, 0])
    arrays = {"a": a[:, 1:], "b": b[:, 1:], "path": path[:, 1:], "before": path}
    arrays = {name: _steps(x) for name, x in arrays.items()}
    _program(D).run(arrays, T - 1, B)
    return path


def _backward_compiled(
    a: torch.Tensor,
    path: torch.Tensor,
    first: torch.Tensor,
    d_path: torch.Tensor | None,
    d_last: torch.Tensor | None,
) -> Gradients:
    """Does what `_backward` does, for a path of `_forward_compiled`."""
    B, T, D = path.shape
    d_a, d_b = torch.empty_like(path), torch.empty_like(path)
    d = path.new_zeros(2, B, D)
    if d_last is not None:
        d[T % 2] = d_last
    arrays = {
        "a": _steps(a),
        "before": _steps(path.as_strided(path.shape, path.stride(), 0)),
        "d_path": path.new_zeros(D) if d_path is None else _steps(d_path),
        "d_a": _steps(d_a),
        "d_b": _steps(d_b),
        "d_state": d,
    }
    _program(D).run(arrays, T, B, backward=True)
    # What lies before the path of a sequence, and was read, is not its first state.
    torch.mul(d_b[:, 0], first, out=d_a[:, 0])
    return d_a, d_b, d[0]


def _steps(x: torch.Tensor) -> torch.Tensor:
    """Returns the same memory with time first."""
    return derived.rows(x).transpose(0, 1)

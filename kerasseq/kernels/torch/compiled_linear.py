"""The linear recurrence on a CPU in float32, compiled as the derived loops are.

A function computes all steps of a sequence before the next one: the state stays in the
cache of the CPU, and each number is read and written once.
"""

import functools

import torch

from kerasseq.kernels.derived.graph import GRADIENT, INPUT, NOISE, STATE, Graph
from kerasseq.kernels.torch.plan import Plan
from kerasseq.kernels.torch.program import Program, rows
from kerasseq.kernels.torch.schedule import (
    PAIR,
    STEPS,
    Array,
    Cuts,
    Place,
    Schedule,
)


@functools.cache
def program(width: int) -> Program:
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
    forward, backward = (Schedule(given, side, Cuts()) for side in (False, True))
    forward.store(a * h + b, place("path"))
    backward.store(d, place("d_b"))
    backward.store(d * h, place("d_a"))
    backward.store(d * a, place("d_state", PAIR), readable=False)
    return Program(Plan(0, True, forward.complete(), backward.complete()))


def forward(a: torch.Tensor, b: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """Returns the states after all steps, `(B, T, D)`, with D numbers before them."""
    B, T, D = b.shape
    path = b.new_empty(D + B * T * D)[D:].view(B, T, D)
    torch.addcmul(b[:, 0], a[:, 0], first, out=path[:, 0])
    arrays = {"a": a[:, 1:], "b": b[:, 1:], "path": path[:, 1:], "before": path}
    arrays = {name: _steps(x) for name, x in arrays.items()}
    program(D).run(arrays, T - 1, B)
    return path


def backward(
    a: torch.Tensor,
    path: torch.Tensor,
    first: torch.Tensor,
    d_path: torch.Tensor | None,
    d_last: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the gradients of a, b and the first state.

    Args:
        a: As for `forward`.
        path: What `forward` returned.
        first: As for `forward`.
        d_path: The gradient of the path, or None for zeros.
        d_last: The gradient of the last state, or None for zeros.
    """
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
    program(D).run(arrays, T, B, backward=True)
    # What lies before the path of a sequence, and was read, is not its first state.
    torch.mul(d_b[:, 0], first, out=d_a[:, 0])
    return d_a, d_b, d[0]


def _steps(x: torch.Tensor) -> torch.Tensor:
    """The same memory with time first."""
    return rows(x).transpose(0, 1)

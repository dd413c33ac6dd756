"""The linear recurrence on PyTorch: compiled, or one operation a step.

`compiled_linear.py` runs on a CPU in float32, where llvmlite is installed. Elsewhere
`torch.addcmul` writes each state where it belongs, in any dtype and on any device: for
batches of 32 by 128 units it takes as long, for small ones up to three times as long.
A program that is recorded or exported has the reference loop, which also finds shapes.
"""

from typing import Any

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels.reference import linear_recurrence as reference
from kerasseq.kernels.torch import compile, compiled_linear
from kerasseq.kernels.torch.private import in_dispatch_mode
from kerasseq.kernels.torch.tensors import holds_float32

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def run(a: Tensor, b: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """See `reference.linear_recurrence.run`."""
    recorded = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if recorded or in_dispatch_mode() or b.device.type == "meta":
        return reference.run(a, b, h)
    compiled = compile.is_available() and all(map(holds_float32, (a, b, h)))
    return _LinearRecurrence.apply(compiled, a, b, h)


class _LinearRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, compiled: bool, a: torch.Tensor, b: torch.Tensor, h: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        ctx.compiled = compiled
        path = compiled_linear.forward(a, b, h) if compiled else _forward(a, b, h)
        ctx.save_for_backward(a, path, h)
        return path, path[:, -1].clone()

    @staticmethod
    def backward(
        ctx: Any, d_path: torch.Tensor | None, d_last: torch.Tensor | None
    ) -> tuple[None, torch.Tensor, torch.Tensor, torch.Tensor]:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError(
                "expected a first derivative: on PyTorch the fast recurrence has no "
                "second derivatives. Build the layer with `unroll=True`, which has them"
            )
        a, path, first = ctx.saved_tensors
        compute = compiled_linear.backward if ctx.compiled else _backward
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
    """Returns the gradients of a, b and the first state."""
    d = torch.zeros_like(first) if d_last is None else d_last.clone()
    d_b, a = torch.empty_like(path), a.conj()
    for t in reversed(range(a.shape[1])):
        d_b_t = d_b[:, t]
        d_b_t.copy_(d if d_path is None else d + d_path[:, t])
        torch.mul(a[:, t], d_b_t, out=d)
    before = torch.cat([first[:, None], path[:, :-1]], 1)
    return d_b * before.conj(), d_b, d

"""The linear recurrence on PyTorch: one operation a step forward, two backward.

`torch.addcmul` writes each state where it belongs, in any dtype and on any device. A
program that is recorded or exported has the reference loop instead.
"""

from typing import Any

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels.reference import linear_recurrence as reference
from kerasseq.kernels.torch.recurrence import in_dispatch_mode


def run(a: Tensor, b: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """See `reference.linear_recurrence.run`."""
    recorded = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if recorded or in_dispatch_mode():
        return reference.run(a, b, h)
    return _LinearRecurrence.apply(a, b, h)


class _LinearRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, a: torch.Tensor, b: torch.Tensor, h: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        path, last = torch.empty_like(b), h
        for a_t, b_t, h_t in zip(a.unbind(1), b.unbind(1), path.unbind(1), strict=True):
            last = torch.addcmul(b_t, a_t, last, out=h_t)
        ctx.save_for_backward(a, path, h)
        return path, last.clone()

    @staticmethod
    def backward(
        ctx: Any, d_path: torch.Tensor | None, d_last: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError(
                "expected a first derivative: on PyTorch the fast recurrence has no "
                "second derivatives. Build the layer with `unroll=True`, which has them"
            )
        a, path, first = ctx.saved_tensors
        d_h = torch.zeros_like(first) if d_last is None else d_last.clone()
        d_b = torch.empty_like(path)
        a_conj = a.conj().unbind(1)
        d_path = [None] * len(a_conj) if d_path is None else d_path.unbind(1)
        steps = zip(a_conj, d_path, d_b.unbind(1), strict=True)
        for a_t, d_path_t, d_b_t in reversed(list(steps)):
            if d_path_t is None:
                d_b_t.copy_(d_h)
            else:
                torch.add(d_h, d_path_t, out=d_b_t)
            torch.mul(a_t, d_b_t, out=d_h)
        before = path.roll(1, dims=1)
        before[:, 0] = first
        return d_b * before.conj(), d_b, d_h

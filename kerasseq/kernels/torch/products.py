"""Products of matrices on a CPU, by the fastest of PyTorch's libraries.

PyTorch multiplies with MKL, which uses AVX-512 on Intel's CPUs alone. On AMD's Zen 5
oneDNN takes 0.45 of its time for the products over all steps, and 0.7 for those of a
step (batch 32, 128 units, 4 gates); MKL is faster for smaller ones.
`python -m benchmarks recurrent --backend torch --cpu-time` compares with torch.nn.
"""

import functools
from collections.abc import Callable, Sequence

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels.torch import private

try:
    from llvmlite.binding import get_host_cpu_name
except ImportError:
    get_host_cpu_name = str

LARGE = 2**20  # multiplications of a product, from which on oneDNN is faster


@functools.cache
def prefers_onednn() -> bool:
    """Returns whether to multiply with oneDNN: on AMD's Zen 5 or later, AVX-512."""
    generation = get_host_cpu_name().removeprefix("znver")
    return (
        (generation.isdecimal() and int(generation) >= 5)
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and torch.backends.mkldnn.is_available()
        and private.onednn_product() is not None
    )


def holds_float32(*tensors: Tensor) -> bool:
    """Returns whether compiled functions may read tensors: CPU, float32, untraced."""
    for x in tensors:
        plain = type(x) in (torch.Tensor, torch.nn.Parameter)
        if not (plain and x.device.type == "cpu" and x.dtype == torch.float32):
            return False
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return not traced and not private.in_dispatch_mode()


def mm(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Multiplies two matrices, and adds a bias to each row.

    Args:
        a: `(M, K)`.
        b: `(K, N)`.
        bias: `(N,)`, or None.

    Returns:
        `(M, N)`.

    Examples:
        >>> mm(torch.ones(3, 5), torch.ones(5, 7), torch.ones(7))[0, 0].item()
        6.0
    """
    learns = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    if _by_onednn(a.numel() * b.shape[1]) and not learns:
        return private.onednn_product()(a, _dense(b).t(), bias, "none", [], "")
    return torch.mm(a, b) if bias is None else torch.addmm(bias, a, b)


def project(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Computes $x W + b$ as `mm` does, with gradients.

    Args:
        x: `(M, K)`.
        weights: W, `(K, N)`.
        bias: b, `(N,)`.
    """
    # Without numbers sizes may be symbols.
    if holds_float32(x, weights, bias) and _by_onednn(x.numel() * len(bias)):
        return _Projection.apply(x, weights, bias)
    return torch.addmm(bias, x, weights)


class _Projection(torch.autograd.Function):
    """A product by oneDNN: PyTorch has no derivative of its private operation."""

    @staticmethod
    def forward(ctx, x, weights, bias):
        ctx.save_for_backward(x, weights)
        return mm(x, weights, bias)

    @staticmethod
    def backward(ctx, d):
        x, weights = ctx.saved_tensors
        wants_x, wants_weights, wants_bias = ctx.needs_input_grad
        return (
            mm(d, weights.t()) if wants_x else None,
            mm(x.t(), d) if wants_weights else None,
            d.sum(0) if wants_bias else None,
        )


def _dense(b):
    """Copies part of a matrix, for which oneDNN takes 1,000 times as long."""
    return b if b.is_contiguous() or b.t().is_contiguous() else b.contiguous()


def _by_onednn(multiplications: int) -> bool:
    return multiplications >= LARGE and prefers_onednn()


def multiply_at(
    left: Sequence[torch.Tensor], right: torch.Tensor, out: Sequence[torch.Tensor]
) -> Callable[[int], object]:
    """Returns a function that writes the product of step t.

    Args:
        left: `(M, K)` at each step.
        right: `(K, N)`.
        out: Where to write at each step, `(M, N)`.
    """
    if _by_onednn(left[0].numel() * right.shape[1]):
        right = _dense(right)  # once, for all steps
        return lambda t: out[t].copy_(mm(left[t], right))
    return lambda t: torch.mm(left[t], right, out=out[t])

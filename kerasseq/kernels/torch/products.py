"""Products of matrices on a CPU, by the fastest of PyTorch's libraries.

PyTorch multiplies with MKL, which uses AVX-512 on Intel's CPUs alone. On AMD's Zen 5
oneDNN takes 0.45 of its time for the products over all steps, and 0.7 for those of a
step (batch 32, 128 units, 4 gates); MKL is faster for smaller ones.
`python -m benchmarks recurrent --backend torch --cpu-time` compares with torch.nn.
"""

import functools
import math
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
    """Whether to multiply with oneDNN: on AMD's Zen 5 and later, with AVX-512."""
    generation = get_host_cpu_name().removeprefix("znver")
    return (
        (generation.isdecimal() and int(generation) >= 5)
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and torch.backends.mkldnn.is_available()
        and private.onednn_product() is not None
    )


def holds_float32(*tensors: Tensor) -> bool:
    """Whether compiled functions may read tensors: float32 on a CPU, not traced."""
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
    if _by_onednn(a.numel() * b.shape[1]) and not _learns(a, b, bias):
        return private.onednn_product()(a, b.t(), bias, "none", [], "")
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


def _by_onednn(multiplications: int) -> bool:
    return multiplications >= LARGE and prefers_onednn()


def _learns(*tensors: torch.Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(
        t is not None and t.requires_grad for t in tensors
    )


def product_into(M: int, K: int, N: int, *, add: bool) -> Callable[..., object]:
    """Returns a function `(a, b, out)` that writes a product to a matrix.

    Args:
        M: Rows of a and out.
        K: Columns of a, rows of b.
        N: Columns of b and out.
        add: Whether the function adds the product to `out`.
    """
    if _by_onednn(M * K * N):
        return _add_by_onednn if add else _write_by_onednn
    return _add if add else _write


def _write(a, b, out):
    torch.mm(a, b, out=out)


def _add(a, b, out):
    out.addmm_(a, b)


def _write_by_onednn(a, b, out):
    out.copy_(mm(a, b))


def _add_by_onednn(a, b, out):
    out.add_(mm(a, b))


def empty(
    like: torch.Tensor, shapes: Sequence[tuple[int, ...]], *, in_one_block: bool
) -> list[torch.Tensor]:
    """Allocates arrays, each by itself or all in one block.

    The C library returns free memory to the system if there is more than twice the
    largest block. With one block per array a training step of some MiB would return its
    memory each time, and spend a fifth of its time on page faults. Blocks above 32 MiB
    are returned in any case.
    """
    if not in_one_block:
        return [like.new_empty(shape) for shape in shapes]
    sizes = [math.prod(shape) for shape in shapes]
    parts = like.new_empty(sum(sizes)).split(sizes)
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

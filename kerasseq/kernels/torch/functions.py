"""Loops, compiled functions and gradients on PyTorch.

PyTorch records operations as they run, so its loop over time is Python's own.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import torch
from keras import ops, tree

from kerasseq.core.types import Nested, Tensor
from kerasseq.kernels.operations import matmul
from kerasseq.kernels.reference import scan as reference
from kerasseq.kernels.torch import private, products
from kerasseq.kernels.torch.recording import check_loop, recorded

no_gradients = torch.no_grad


def scan(
    step: Callable, carry: Nested, inputs: Nested, reverse: bool
) -> tuple[Nested, Nested]:
    """Carries a state over axis 0 of the inputs, and stacks the outputs."""
    first = tree.flatten(inputs)[0]
    check_fixed_length(first)
    if first.device.type == "meta":
        return _scan_shapes(step, carry, inputs)
    return reference.scan(step, carry, inputs, reverse)


def _scan_shapes(step, carry, inputs):
    """Runs one step instead of all, as Keras asks for shapes with 83 and 89 steps."""
    carry, output = step(carry, tree.map_structure(lambda x: x[0], inputs))
    length = len(tree.flatten(inputs)[0])
    return carry, tree.map_structure(lambda y: y.expand(length, *y.shape), output)


def compiled(
    function: Callable[..., Nested], *, jit: bool, donated: bool
) -> Callable[..., Nested]:
    """Records a function of structures of tensors, for each new shape."""
    return recorded(function, donated=donated)


def gradients(function: Callable[..., Nested], arguments: Nested) -> Nested:
    """Computes the gradients of a scalar function, of the shapes of the arguments."""
    flat = [x.detach().clone().requires_grad_() for x in tree.flatten(arguments)]
    result = function(tree.pack_sequence_as(arguments, flat))
    d = torch.autograd.grad(result, flat, allow_unused=True)
    d = [torch.zeros_like(x) if g is None else g for x, g in zip(flat, d, strict=True)]
    return tree.pack_sequence_as(arguments, d)


def output_specs(function: Callable[..., Nested], *args: Nested) -> Nested:
    """Runs a function for the shapes and dtypes of what it returns."""
    with torch.no_grad():
        return function(*args)


def default_jit_compile() -> bool:
    """Returns whether models compile with inductor if not told: never."""
    return False


def has_cudnn() -> bool:
    """Returns whether PyTorch has a GPU with cuDNN."""
    return torch.cuda.is_available() and torch.backends.cudnn.is_available()


def is_concrete(value: Tensor) -> bool:
    """Returns whether tensors hold numbers: no program is compiled."""
    return not torch.compiler.is_compiling()


def project(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """Computes x W + b for x `(..., D)` and W `(D, N)`, as one product."""
    if bias is not None and x.dtype == weights.dtype == bias.dtype:
        rows = x.reshape(-1, x.shape[-1])
        return products.project(rows, weights, bias).view(*x.shape[:-1], len(bias))
    y = matmul(x, weights)
    return y if bias is None else y + bias


def affine(x: Tensor, kernel: Tensor, bias: Tensor | None, axes: int) -> Tensor:
    """Computes x W + b over the last axes of x, `(..., *I)`, as one product."""
    inner, out = kernel.shape[:axes], kernel.shape[axes:]
    D, N = math.prod(inner), math.prod(out)
    x, before = x.reshape(-1, D), x.shape[: x.ndim - axes]
    kernel = kernel.reshape(D, N)
    b = None if bias is None else bias.reshape(N)
    y = x @ kernel if b is None else torch.addmm(b, x, kernel)
    return y.view(*before, *out)


def fused_attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """Attends with q `(B, T, N, K)` to k and v `(B, S, N, K)`; options as in Keras.

    Keras copies all keys and values before it calls PyTorch's operation, which takes
    longer than to attend to them with one query.
    """
    if options["flash_attention"] is not None or not q.dtype == k.dtype == v.dtype:
        return ops.dot_product_attention(q, k, v, **options)
    bias, mask = options["bias"], options["mask"]
    if mask is not None:  # -inf would give NaN for a fully masked query
        bias = torch.zeros(mask.shape, dtype=q.dtype, device=mask.device)
        # Half of the lowest number, so that adding a score does not give -inf.
        bias = bias.masked_fill(~mask, torch.finfo(q.dtype).min / 2)
    elif bias is not None:
        bias = bias.to(q.dtype)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    heads = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias, is_causal=options["is_causal"], scale=options["scale"]
    )
    return heads.transpose(1, 2)


def constant(array: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """Returns an array as a tensor on the device of another."""
    return torch.as_tensor(array, device=like.device)


def take_steps(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Selects the steps `index`, `(B, P)`, of x, `(B, T, ...)`."""
    shape = x.shape[0], index.shape[1], *x.shape[2:]
    index = index.reshape(*index.shape, *[1] * (x.ndim - 2))
    return torch.gather(x, 1, index.to(torch.int64).expand(shape))


def running_maximum(x: torch.Tensor) -> torch.Tensor:
    """Returns the maximum of each step and those before, `(B, T, ...)`."""
    if not torch.jit.is_tracing():
        return torch.cummax(x, dim=1).values
    check_fixed_length(x.swapaxes(0, 1))
    shift = 1  # ONNX has no cummax: the maximum of 2, 4, 8, … steps
    while shift < int(x.shape[1]):
        longer = torch.maximum(x[:, shift:], x[:, :-shift])
        x, shift = torch.cat([x[:, :shift], longer], dim=1), 2 * shift
    return x


def is_exporting() -> bool:
    """Returns whether `torch.export` or TorchScript records a program."""
    return uses_torch_export() or torch.jit.is_tracing()


def uses_torchscript() -> bool:
    """Returns whether TorchScript records a program."""
    return torch.jit.is_tracing()


def uses_torch_export() -> bool:
    """Returns whether `torch.export` records a program; False before PyTorch 2.7."""
    return getattr(torch.compiler, "is_exporting", bool)()


def check_fixed_length(x: torch.Tensor) -> None:
    """Raises if a loop over time is written out that should not.

    Both exporters write a loop out step by step, for the length of the example input.
    TorchScript does not know which lengths are dynamic; Keras replaces those by 1.

    Args:
        x: Tensor with time on axis 0.

    Raises:
        ValueError: If its length is dynamic and it would be exported.
    """
    check_loop(x)
    if torch.jit.is_tracing():
        dynamic = int(x.shape[0]) == 1
    else:
        dynamic = uses_torch_export() and not isinstance(x.shape[0], int)
    if dynamic:
        raise ValueError(
            "the number of time steps must be fixed to export a recurrent layer on "
            "PyTorch, received a dynamic one: the exported program has no loop. Pass "
            "the length in `input_signature`, for 20 ids for example "
            '`[keras.InputSpec(shape=(None, 20), dtype="int32")]`. The batch size can '
            "be dynamic"
        )


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    """Computes with numbers inside the block, also where a program is recorded."""
    with torch.no_grad(), private.no_tracing(), private.no_dispatch_modes():
        yield


@torch.no_grad()
def add_to_rows(
    table: keras.Variable, rows: torch.Tensor, values: torch.Tensor
) -> None:
    """Adds values `(*rows.shape, ...)` to the rows of a table `(V, ...)` in place.

    On a CPU `index_add_` takes five times as long as `scatter_add_`.
    """
    index = rows.to(torch.int64).view(-1, *[1] * (values.ndim - 1)).expand_as(values)
    table.value.scatter_add_(0, index, values)


@torch.no_grad()
def train_steps(
    model: keras.Model, step: Callable[[Nested], None], data: Nested
) -> Any:
    """Runs a step for each update on axis 0 of the data, and returns the metrics."""
    with _one_thread():
        for n in range(len(tree.flatten(data)[0])):
            step(tree.map_structure(lambda x, n=n: x[n], data))
    return model.get_metrics_result()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Computes on one thread of the CPU.

    The operations of an update take some 20 microseconds each. On several threads they
    take as long on idle cores, and up to fifty times as long on busy ones, since each
    operation waits for all threads.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""The recurrence on PyTorch: PyTorch's own kernels, numba's loops or the reference.

PyTorch's own kernels are oneDNN's LSTM and plain loops on a CPU, cuDNN's on a GPU. On a
CPU in float32, where numba is installed, they compute the plain LSTM without mask and
recurrent dropout, in training up to 256 steps, and the loops of `numba_loops.py` all
other equations, LSTMs with peepholes, coupled gates or masks included. Elsewhere
PyTorch's own kernels compute what they can, and the reference loop the rest, which
PyTorch differentiates: activations, `torch.compile`, export, fake tensors.
"""

from collections.abc import Sequence
from typing import Any

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels import cudnn
from kerasseq.kernels.recurrence import Recurrence
from kerasseq.kernels.reference.equations import Equation, run_steps
from kerasseq.kernels.torch import numba_loops
from kerasseq.kernels.torch.functions import check_fixed_length
from kerasseq.kernels.torch.tensors import holds_float32

LONG = 256  # steps; longer LSTMs are trained by numba's loops


def run(
    cell: Recurrence, states: Sequence[Tensor], mask: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """See `kerasseq.kernels.recurrence`."""
    use_numba = has_loops(cell.equation) and holds_float32(cell.weights["U"])
    if native_is_best(cell, mask, use_numba):
        if not torch.jit.is_tracing():  # ONNX has native loops, torch.export has not
            check_fixed_length(cell.inputs)
        return run_native(cell, states)
    plain = cell.kernel is not None and cell.inputs.dtype == torch.float32
    projected = None if use_numba and plain else cell.project(cell.inputs)
    if use_numba and (plain or projected.dtype == torch.float32):
        return run_loops(cell, projected, states, mask)
    check_fixed_length(projected)
    return run_steps(cell.equation, projected, states, cell.weights, mask)


def native_is_best(cell: Recurrence, mask: Tensor | None, use_numba: bool) -> bool:
    """Whether PyTorch has a kernel for this recurrence, and no faster one is available.

    On a CPU that is oneDNN's LSTM, and the loops over other equations if numba cannot
    run them.

    Args:
        cell: A `Recurrence`.
        mask: As for `recurrence`.
        use_numba: Whether the loops of numba can run it.

    Raises:
        ValueError: If `use_cudnn=True` is set and cuDNN cannot run it.
    """
    reason = cell.why_not_native(mask, cudnn.BUILT_FOR["torch"])
    x = cell.inputs
    if cell.cudnn is True and not (reason is None and torch.cudnn_is_acceptable(x)):
        cudnn.refuse(reason or f"cuDNN does not run on {x.device} in {x.dtype}")
    if reason is not None or not x.shape[0] * x.shape[1]:
        return False
    if x.dtype != cell.kernel.dtype:  # as integers
        return False
    if x.device.type == "cpu":
        compiled = torch.compiler.is_compiling() and torch.is_grad_enabled()
        if compiled and cell.equation.name == "lstm":
            return False  # torch.compile cannot differentiate oneDNN's LSTM
        # In long sequences gradients vanish: with denormal numbers oneDNN is slow.
        long = torch.is_grad_enabled() and len(x) > LONG
        return not use_numba or (cell.equation.name == "lstm" and not long)
    return cell.cudnn is not False


def run_native(
    cell: Recurrence, states: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Runs a recurrence in PyTorch's kernels."""
    equation, weights = cell.equation, cell.weights
    matrices = [cell.kernel, weights["U"]]
    biases = [cell.bias]
    if cell.bias is not None:
        biases.append(weights.get("b", torch.zeros_like(cell.bias)))
    if equation.name == "gru":  # Keras' order is z, r, h, PyTorch's r, z, h
        matrices, biases = (
            [None if w is None else cudnn.reset_first(w) for w in ws]
            for ws in (matrices, biases)
        )
    flat = [w.t().contiguous() for w in matrices]
    flat += [b for b in biases if b is not None]
    name = f"rnn_{equation.phi}" if equation.name == "elman" else equation.name
    hidden = [s[None].contiguous() for s in states]
    hidden = hidden if equation.name == "lstm" else hidden[0]
    training = torch.is_grad_enabled()
    kernel, biases = getattr(torch._VF, name), len(flat) == 4
    if cell.inputs.device.type != "cpu":
        flat = in_one_block(flat)
    path, *last = kernel(
        cell.inputs, hidden, flat, biases, 1, 0.0, training, False, False
    )
    return path, [state[0] for state in last]


def in_one_block(weights: Sequence[Tensor]) -> list[Tensor]:
    """Copies weights one after the other into one block of memory, as cuDNN requires.

    cuDNN's order is the one of the arguments: matrices first, then biases. Weights that
    lie apart, as Keras' variables do, make PyTorch copy them and warn.
    """
    block = torch.cat([w.flatten() for w in weights])
    parts = block.split([w.numel() for w in weights])
    return [part.view(w.shape) for part, w in zip(parts, weights, strict=True)]


def has_loops(equation: Equation) -> bool:
    """Whether numba is installed and there are functions for this equation."""
    activations = ("tanh",) if equation.name == "lstm" else ("tanh", "relu")
    usual = equation.phi in activations and equation.sigma == "sigmoid"
    return numba_loops.numba_steps is not None and usual


def run_loops(
    cell: Recurrence,
    projected: torch.Tensor | None,
    states: Sequence[torch.Tensor],
    mask: torch.Tensor | None,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Runs a recurrence in the loops of numba.

    Args:
        cell: A `Recurrence` whose equation `has_loops`.
        projected: The projected inputs, `(T, B, gates * H)`; None to project them here,
            with `cell.kernel` and `cell.bias`.
        states: List of states, each `(B, H)`.
        mask: Boolean, `(T, B)`, or None.

    Returns:
        The path of the hidden state `(T, B, H)`, and the list of the last states.
    """
    weights = dict(cell.weights)
    dropout = weights.pop("dropout", None)
    inputs = [cell.inputs, cell.kernel, cell.bias]
    if projected is not None:
        inputs = [projected, None, None]
    tensors = [*inputs, *states, *weights.values()]
    learns = any(t is not None and t.requires_grad for t in tensors)
    keep = torch.is_grad_enabled() and learns
    fixed = (cell.equation, mask, dropout, list(weights), keep)
    path, *last = _Recurrence.apply(fixed, len(states), *tensors)
    if keep and cell.path:  # a view would keep what is saved of all gates alive
        path = path.clone()
    return path, last


class _Recurrence(torch.autograd.Function):
    """The loops as one operation. They need float32 inside `torch.autocast`, too."""

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def forward(
        ctx: Any,
        fixed: tuple[Any, ...],
        states: int,
        x: torch.Tensor,
        kernel: torch.Tensor | None,
        bias: torch.Tensor | None,
        *tensors: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        equation, mask, dropout, names, keep = fixed
        ctx.set_materialize_grads(False)
        weights = dict(zip(names, tensors[states:], strict=True))
        steps = numba_loops.loops_of(equation)(equation, weights, dropout, mask)
        projected, rows = x, None
        if kernel is not None:
            rows = x.flatten(0, 1)  # (T B, D)
            projected = numba_loops.mm(rows, kernel, bias)
            projected = projected.view(*x.shape[:2], kernel.shape[1])
        paths, gates = steps.forward(projected, tensors[:states], keep)
        if keep:
            ctx.fixed, ctx.states, ctx.projects = fixed, states, kernel is not None
            needs_x, needs_kernel = ctx.needs_input_grad[2:4]
            inputs = [rows if needs_kernel else None, kernel if needs_x else None]
            ctx.save_for_backward(*inputs, *tensors[states:], *paths, *gates)
        return paths[0][1:], *(path[-1].clone() for path in paths)

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(
        ctx: Any, d_path: torch.Tensor | None, *d_last: torch.Tensor | None
    ) -> tuple[Any, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError(
                "expected a first derivative: on PyTorch the fast recurrence has no "
                "second derivatives. Build the layer with `unroll=True`, which has them"
            )
        equation, mask, dropout, names, _ = ctx.fixed
        rows, kernel, *saved = ctx.saved_tensors
        weights = {name: saved.pop(0) for name in names}
        paths = [saved.pop(0) for _ in range(ctx.states)]
        steps = numba_loops.loops_of(equation)(equation, weights, dropout, mask)
        d_states = [
            torch.zeros_like(path[0]) if d is None else own(d)
            for path, d in zip(paths, d_last, strict=True)
        ]
        path = numba_loops.NO_PATH if d_path is None else numba_loops.array(d_path)
        dz, dw, d_states = steps.backward(paths, saved, path, d_states)
        d_inputs = (dz, None, None)
        if ctx.projects:
            d_inputs = projection_gradients(
                dz, rows, kernel, needs_bias=ctx.needs_input_grad[4]
            )
        return None, None, *d_inputs, *d_states, *(dw[name] for name in names)


def own(x: torch.Tensor) -> torch.Tensor:
    """A contiguous copy, to be changed in place."""
    return x.clone(memory_format=torch.contiguous_format)


def projection_gradients(
    dz: torch.Tensor,
    rows: torch.Tensor | None,
    kernel: torch.Tensor | None,
    *,
    needs_bias: bool,
) -> tuple[torch.Tensor | None, ...]:
    """The gradients of x, W and b, where $z = x W + b$.

    Args:
        dz: `(T, B, N)`.
        rows: x as `(T * B, D)`; None if W needs no gradient.
        kernel: W, `(D, N)`; None if x needs no gradient.
        needs_bias: Whether b needs a gradient.
    """
    d_rows = dz.flatten(0, 1)
    dx = None if kernel is None else numba_loops.mm(d_rows, kernel.t())
    return (
        None if dx is None else dx.view(*dz.shape[:2], len(kernel)),
        None if rows is None else numba_loops.mm(rows.t(), d_rows),
        d_rows.sum(0) if needs_bias else None,
    )

"""PyTorch's own recurrent kernels: oneDNN and plain loops on a CPU, cuDNN on a GPU."""

from collections.abc import Sequence

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels import cudnn
from kerasseq.kernels.recurrence import Recurrence

LONG = 256  # steps


def wanted(cell: Recurrence, mask: Tensor | None, use_numba: bool) -> bool:
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
    reason = cudnn.why_not(cell, mask, cudnn.BUILT_FOR["torch"])
    x = cell.inputs
    if cell.cudnn is True and not (reason is None and torch.cudnn_is_acceptable(x)):
        cudnn.refuse(reason or f"cuDNN does not run on {x.device} in {x.dtype}")
    if reason is not None or not x.shape[0] * x.shape[1]:
        return False
    if x.device.type == "cpu":
        compiled = torch.compiler.is_compiling() and torch.is_grad_enabled()
        if compiled and cell.equation.name == "lstm":
            return False  # torch.compile cannot differentiate oneDNN's LSTM
        # In long sequences gradients vanish: with denormal numbers oneDNN is slow.
        long = torch.is_grad_enabled() and len(x) > LONG
        return not use_numba or (cell.equation.name == "lstm" and not long)
    return cell.cudnn is not False


def run(cell: Recurrence, states: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """See `kerasseq.kernels.recurrence`."""
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
    """Copies weights one after the other into one block of memory, as cuDNN wants them.

    cuDNN's order is the one of the arguments: matrices first, then biases. Weights that
    lie apart, as Keras' variables do, make PyTorch copy them and warn.
    """
    block = torch.cat([w.flatten() for w in weights])
    parts = block.split([w.numel() for w in weights])
    return [part.view(w.shape) for part, w in zip(parts, weights, strict=True)]

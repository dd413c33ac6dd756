"""Native recurrences on PyTorch: oneDNN's LSTM and plain loops on a CPU, cuDNN's."""

from collections.abc import Sequence

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels import cudnn
from kerasseq.kernels.recurrence import Native
from kerasseq.kernels.torch import derived, private
from kerasseq.kernels.torch.functions import check_fixed_length

LONG = 256  # steps; longer LSTMs are trained by the derived loop


def why_no_cudnn(name: str, x: Tensor) -> str | None:
    """Returns why cuDNN cannot run it; None if it can."""
    if name in cudnn.BUILT_FOR["torch"] and torch.cudnn_is_acceptable(x):
        return None
    return f"cuDNN does not run on {x.device} in {x.dtype}"


def is_best(name: str, x: Tensor, use_cudnn: bool | str) -> bool:
    """Returns whether it is faster than what is derived, or all that can run here.

    On a CPU that is oneDNN's LSTM, and the loops over other equations where llvmlite is
    not installed, or where a program is recorded.
    """
    if not x.is_floating_point() or not x.shape[0] * x.shape[1]:
        return False
    if x.device.type == "meta" or private.is_transformed():
        return False  # no numbers to try it with
    if x.device.type != "cpu":
        return use_cudnn is not False
    if torch.compiler.is_compiling():  # nor can it be tried inside
        return False
    # In long sequences gradients vanish: with denormal numbers oneDNN is slow.
    long = torch.is_grad_enabled() and len(x) > LONG
    return not derived.can_run([x]) or (name == "lstm" and not long)


def run(
    name: str, native: Native, states: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Runs a recurrence in PyTorch's kernels; returns the path and the last states."""
    if not torch.jit.is_tracing():  # ONNX has native loops, torch.export has not
        check_fixed_length(native.inputs)
    matrices = [native.kernel, native.recurrent_kernel]
    biases = [native.bias]
    if native.bias is not None:
        inside = native.recurrent_bias
        biases.append(torch.zeros_like(native.bias) if inside is None else inside)
    if name == "gru":  # Keras' order is z, r, h, PyTorch's r, z, h
        matrices, biases = (
            [None if w is None else cudnn.reset_first(w) for w in ws]
            for ws in (matrices, biases)
        )
    flat = [w.t().contiguous() for w in matrices]
    flat += [b for b in biases if b is not None]
    hidden = [s[None].contiguous() for s in states]
    hidden = hidden if name == "lstm" else hidden[0]
    training = torch.is_grad_enabled()
    kernel, has_biases = getattr(torch, name), len(flat) == 4
    if native.inputs.device.type != "cpu":
        flat = in_one_block(flat)
    path, *last = kernel(
        native.inputs, hidden, flat, has_biases, 1, 0.0, training, False, False
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

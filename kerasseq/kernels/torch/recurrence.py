"""The recurrence on PyTorch: PyTorch's own kernels, numba's loops or the reference.

`native.py` computes what PyTorch's own kernels can: on a CPU the plain LSTM without
mask and recurrent dropout, in training up to 256 steps; on a GPU what cuDNN supports.
`numba_loops.py` computes all other equations on a CPU in float32, where numba is
installed, LSTMs with peepholes, coupled gates or masks included. The reference loop
computes the rest: other dtypes, activations and devices, `torch.compile`, export to
"torch" and "onnx", and fake tensors. PyTorch differentiates it.
"""

from collections.abc import Sequence

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels.recurrence import Recurrence
from kerasseq.kernels.reference.equations import run_steps
from kerasseq.kernels.torch import native, numba_loops
from kerasseq.kernels.torch.exporting import check_fixed_length


def run(
    cell: Recurrence, states: Sequence[Tensor], mask: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """See `kerasseq.kernels.recurrence`."""
    use_numba = numba_loops.fits(cell.equation) and holds_float32(cell.weights["U"])
    if native.wanted(cell, mask, use_numba):
        if not torch.jit.is_tracing():  # ONNX has native loops, torch.export has not
            check_fixed_length(cell.inputs)
        return native.run(cell, states)
    x = cell.project(cell.inputs)
    arguments = (cell.equation, x, states, cell.weights, mask)
    if use_numba and x.dtype == torch.float32:
        return numba_loops.run(*arguments)
    check_fixed_length(x)
    return run_steps(*arguments)


def holds_float32(x: Tensor) -> bool:
    """Whether a tensor holds numbers in float32 on a CPU, and is not being traced."""
    plain = type(x) in (torch.Tensor, torch.nn.Parameter)
    plain = plain and x.device.type == "cpu" and x.dtype == torch.float32
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return plain and not traced and not in_dispatch_mode()


def in_dispatch_mode() -> bool:
    """Whether a mode such as `make_fx` records operations.

    PyTorch has no public name for this; where the private one is missing, the answer
    is True, and the reference loop runs.
    """
    try:
        from torch.utils._python_dispatch import _get_current_dispatch_mode
    except ImportError:
        return True
    return _get_current_dispatch_mode() is not None

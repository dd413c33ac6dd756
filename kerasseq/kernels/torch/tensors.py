"""Which tensors compiled functions may read: their memory, and now."""

import torch

from kerasseq.core.types import Tensor
from kerasseq.kernels.torch.private import in_dispatch_mode


def holds_float32(x: Tensor) -> bool:
    """Whether a tensor holds numbers in float32 on a CPU, and is not being traced."""
    plain = type(x) in (torch.Tensor, torch.nn.Parameter)
    plain = plain and x.device.type == "cpu" and x.dtype == torch.float32
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return plain and not traced and not in_dispatch_mode()

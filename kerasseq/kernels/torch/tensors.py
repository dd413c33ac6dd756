"""Which tensors compiled functions may read: their memory, and now."""

import torch

from kerasseq.core.types import Tensor


def holds_float32(x: Tensor) -> bool:
    """Whether a tensor holds numbers in float32 on a CPU, and is not being traced."""
    plain = type(x) in (torch.Tensor, torch.nn.Parameter)
    plain = plain and x.device.type == "cpu" and x.dtype == torch.float32
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return plain and not traced and not in_dispatch_mode()


def in_dispatch_mode() -> bool:
    """Whether `make_fx` records operations, or `torch.func` transforms them.

    PyTorch has no public names for this; where a private one is missing, the answer is
    True, and the reference loop runs.
    """
    try:
        from torch._C import _are_functorch_transforms_active
        from torch.utils._python_dispatch import _get_current_dispatch_mode
    except ImportError:
        return True
    return (
        _get_current_dispatch_mode() is not None or _are_functorch_transforms_active()
    )

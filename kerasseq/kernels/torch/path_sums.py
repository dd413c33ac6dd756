"""Sums over all paths on PyTorch: each step writes its result where it belongs.

Keras' overhead of an operation is twice the time of the operation for a batch of 16
labels. The states come before the batch: their shifts are then contiguous in memory,
which PyTorch adds in two thirds of the time.
"""

import torch

from kerasseq.kernels.reference import path_sums as reference
from kerasseq.kernels.torch.private import in_dispatch_mode


@torch.no_grad()
def run(
    e: torch.Tensor, first: torch.Tensor, skip: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Sums over all paths, from scores `(T, B, S)` to their logarithms `(T, B, S)`."""
    recorded = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if recorded or in_dispatch_mode() or e.device.type == "meta":
        return reference.run(e, first, skip, mask)
    T, B, S = e.shape
    e, skip = e.transpose(1, 2).contiguous(), skip.t().contiguous()
    path = e.new_full((T + 1, S + 2, B), reference.NEVER)
    path[0, 2:] = first.t()
    by_two, by_one, stay = (path[:, n : S + n].unbind() for n in range(3))
    new, all_real = torch.empty_like(skip), mask.all(1).tolist()
    for t, e_t in enumerate(e.unbind()):
        torch.add(by_two[t], skip, out=new)
        torch.logaddexp(new, by_one[t], out=new)
        torch.logaddexp(new, stay[t], out=new)
        torch.add(new, e_t, out=stay[t + 1])
        if not all_real[t]:
            torch.where(mask[t], stay[t + 1], stay[t], out=stay[t + 1])
    return path[1:, 2:].transpose(1, 2)

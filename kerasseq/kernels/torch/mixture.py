"""`kernels.mixture` on PyTorch, outside of programs: one call for each expert."""

from collections.abc import Callable, Sequence

import torch

from kerasseq.kernels.torch.functions import is_exporting


def runs_now(x: torch.Tensor) -> bool:
    """Returns whether values may decide how many rows an expert gets."""
    compiling = torch.compiler.is_compiling() or is_exporting()
    return not compiling and x.device.type != "meta"


def run(
    function: Callable[..., torch.Tensor],
    x: torch.Tensor,
    gates: torch.Tensor,
    chosen: torch.Tensor,
    weights: Sequence[torch.Tensor],
) -> torch.Tensor:
    """Returns gated sums `(R, V)` of what k experts compute of each row of x."""
    E, k = weights[0].shape[0], chosen.shape[1]
    flat = chosen.reshape(-1)
    order = torch.argsort(flat, stable=True)
    counts = torch.bincount(flat, minlength=E).tolist()[:E]
    order = order[: sum(counts)]
    rows = order // k
    parts = [
        function(part, *(w[e] for w in weights))
        for e, part in enumerate(x[rows].split(counts))
        if len(part) or e == 0  # for the width of the outputs
    ]
    y = torch.cat(parts)
    y = y * gates.reshape(-1)[order, None].to(y.dtype)
    return y.new_zeros((len(x), y.shape[-1])).index_add(0, rows, y)

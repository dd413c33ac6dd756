"""Sums over all paths step by step: the definition."""

from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.scan import scan

NEVER = -1e30  # the logarithm of zero; sums of it stay finite


def run(e: Tensor, first: Tensor, skip: Tensor, mask: Tensor) -> Tensor:
    """Sums over all paths, from scores `(T, B, S)` to their logarithms `(T, B, S)`."""

    def step(alpha: Tensor, now: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        stay = alpha[:, 2:]
        new = _add(alpha[:, :-2] + skip, alpha[:, 1:-1])
        new = _add(new, stay) + now["e"]
        new = ops.where(now["mask"], new, stay)
        return ops.concatenate([alpha[:, :2], new], axis=1), new

    # Two states in which no path is stand before the others.
    carry = ops.pad(first, [[0, 0], [2, 0]], constant_values=NEVER)
    return ops.stop_gradient(scan(step, carry, {"e": e, "mask": mask[..., None]})[1])


def _add(x, y):
    r"""Computes $\log(e^x + e^y)$; Keras' own is in float32 on PyTorch."""
    largest = ops.where(x > y, x, y)
    return largest + ops.log1p(ops.exp(-ops.abs(x - y)))

"""The linear recurrence step by step: the definition."""

from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.scan import scan


def run(a: Tensor, b: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    r"""Computes $h_t = a_t \odot h_{t-1} + b_t$.

    Args:
        a: `(B, T, D)`.
        b: `(B, T, D)`.
        h: The state before the first step, `(B, D)`.

    Returns:
        The states at all steps `(B, T, D)`, and the last one `(B, D)`.
    """

    def step(h: Tensor, now: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        h = now["a"] * h + now["b"]
        return h, h

    inputs = {"a": ops.swapaxes(a, 0, 1), "b": ops.swapaxes(b, 0, 1)}
    last, path = scan(step, h, inputs)
    return ops.swapaxes(path, 0, 1), last

"""The selective scan from the decays and the states of all steps: the definition."""

from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.linear_recurrence import linear_recurrence
from kerasseq.kernels.operations import matmul


def run(
    step: Tensor, A: Tensor, B: Tensor, C: Tensor, u: Tensor, h: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Computes $h_t = e^{\Delta_t A} \odot h_{t-1} + (\Delta_t u_t) B_t^T$.

    Args:
        step: $\Delta$, `(batch, T, E)`.
        A: `(E, N)`.
        B: `(batch, T, N)`.
        C: `(batch, T, N)`.
        u: `(batch, T, E)`.
        h: The state before the first step, `(batch, E, N)`.

    Returns:
        $y_t = h_t C_t$ `(batch, T, E)`, and the last state `(batch, E, N)`.
    """
    decay = ops.exp(step[..., None] * A)
    written = (step * u)[..., None] * B[:, :, None]
    batch, T, E, N = ops.shape(written)
    a, b = (ops.reshape(x, (batch, T, E * N)) for x in (decay, written))
    path, h = linear_recurrence(a, b, ops.reshape(h, (batch, E * N)))
    path = ops.reshape(path, (batch, T, E, N))
    return matmul(path, C[..., None])[..., 0], ops.reshape(h, (batch, E, N))

"""Linear attention step by step: the definition."""

from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.scan import scan


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    b: Tensor | None,
    c: Tensor | None,
    state: Tensor,
) -> tuple[Tensor, Tensor]:
    r"""Computes $S_t = \alpha_t S_{t-1} + b_t c_t^T S_{t-1} + k_t v_t^T$.

    Args:
        q: `(B, T, N, K)`.
        k: `(B, T, N, K)`.
        v: `(B, T, N, V)`.
        log_decay: $\log \alpha$, `(B, T, N, K)`, at most 0, where -inf forgets all; B,
            N and K may be 1. None for α = 1.
        b: `(B, T, N, K)`; $-k$ if None.
        c: `(B, T, N, K)`; nothing is erased if None.
        state: $S_0$, `(B, N, K, V)`.

    Returns:
        $y_t = S_t^T q_t$ of all steps `(B, T, N, V)`, and the last state.
    """
    if c is not None and b is None:
        b = -k
    path = states(k[..., None] * v[..., None, :], log_decay, b, c, state)
    return ops.sum(q[..., None] * path, axis=-2), path[:, -1]


def states(
    written: Tensor,
    log_decay: Tensor | None,
    b: Tensor | None,
    c: Tensor | None,
    state: Tensor,
) -> Tensor:
    r"""Computes the states of all steps, `(B, T, N, K, V)`.

    Args:
        written: $k_t v_t^T$, `(B, T, N, K, V)`.
        log_decay: See `linear_attention`.
        b: `(B, T, N, K)`; nothing is erased if None.
        c: `(B, T, N, K)`, or None as b.
        state: $S_0$, `(B, N, K, V)`.
    """

    def step(S, now):
        after = S
        if "log_decay" in now:
            after = ops.exp(now["log_decay"])[..., None] * S
        if "c" in now:
            u = ops.sum(now["c"][..., None] * S, axis=-2)  # S^T c, (B, N, V)
            after = after + now["b"][..., None] * u[..., None, :]
        after = after + now["written"]
        return after, after

    steps = {"written": written, "log_decay": log_decay, "b": b, "c": c}
    steps = {name: ops.swapaxes(x, 0, 1) for name, x in steps.items() if x is not None}
    return ops.swapaxes(scan(step, state, steps)[1], 0, 1)

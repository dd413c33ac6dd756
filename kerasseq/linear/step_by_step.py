r"""Linear attention with the states of all steps, for `tracing.gradient_flow`.

$$
S_t = \mathrm{diag}(\alpha_t)\, S_{t-1} + b_t\,(c_t^T S_{t-1}) + k_t v_t^T, \qquad
y_t = S_t^T q_t
$$

`kernels.linear_attention` computes the same in chunks, and has no state within one.
"""

import keras
from keras import ops

from kerasseq import kernels, tracing
from kerasseq.core.types import Tensor
from kerasseq.tracing import listeners


def step_by_step(
    layer: keras.Layer,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    log_decay: Tensor | None = None,
    b: Tensor | None = None,
    c: Tensor | None = None,
    initial_state: Tensor | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes `kernels.linear_attention`, and records its `hidden_state`.

    Args:
        layer: The layer of the state.
        q: `(B, T, N, K)`, and the others as for the kernel.
        k: `(B, T, N, K)`.
        v: `(B, T, N, V)`.
        log_decay: Logarithms of the decays, or None.
        b: `(B, T, N, K)`, or None.
        c: `(B, T, N, K)`, or None.
        initial_state: `(B, N, K, V)`, or None.
        mask: Boolean `(B, T)`, or None.

    Returns:
        The outputs `(B, T, N, V)`, and the last state `(B, N, K, V)`. The state of all
        steps is recorded as `(B, T, N, K, V)`.
    """
    dtype = kernels.state_dtype(layer.compute_dtype)
    q, k, v = (ops.cast(x, dtype) for x in (q, k, v))
    b = -k if b is None else ops.cast(b, dtype)
    written = listeners.write(
        layer, "hidden_state", k[..., None] * v[:, :, :, None]
    )  # (B, T, N, K, V)
    S = ops.zeros_like(written[:, 0])
    if initial_state is not None:
        S = S + ops.cast(initial_state, dtype)
    decay = ops.ones_like(k) if log_decay is None else _decays(log_decay, k)
    states = []
    for t in range(q.shape[1]):
        after = decay[:, t, ..., None] * S + written[:, t]
        if c is not None:
            read = ops.sum(
                ops.cast(c[:, t], dtype)[..., None] * S, axis=-2
            )  # (B, N, V)
            after = after + b[:, t, ..., None] * read[:, :, None]
        if mask is not None:
            after = ops.where(mask[:, t, None, None, None], after, S)
        S = after
        states.append(S)
    path = tracing.record(layer, "hidden_state", ops.stack(states, axis=1))
    y = ops.sum(path * q[..., None], axis=-2)
    if mask is not None:
        y = ops.where(mask[..., None, None], y, 0)
    return y, S


def _decays(log_decay, k):
    """The decays of all steps and channels, `(B, T, N, K)`."""
    decay = ops.exp(ops.cast(log_decay, k.dtype))
    if len(decay.shape) == 1:  # a number for each head
        decay = decay[None, None]
    if len(decay.shape) == 3:  # for each head and step
        decay = decay[..., None]
    return ops.broadcast_to(decay, ops.shape(k))

r"""Linear attention in chunks: products inside a chunk, the state handed on.

Within a chunk that starts with the state $S$, the value that is read from the state
before step t to be erased, $u_t = S_{t-1}^T c_t$, depends on those before it:

$$
u_t = \tilde c_t^T S + \sum_{j < t} A^{cb}_{tj} u_j + A^{ck}_{tj} v_j, \qquad
A^{xy}_{tj} = x_t^T \Big(\prod_i \alpha_i\Big)\, y_j
$$

This triangular system is solved for all chunks at once, before S is known, as it is
linear in S. The state after a chunk is then $G S + H$, and only this runs in a loop.
Yang et al. 2023 (chunks, decays), 2024 (erasing).
"""

import math

import numpy as np
from keras import ops

from kerasseq.core import masks
from kerasseq.core.shapes import check_mask
from kerasseq.core.types import Tensor
from kerasseq.kernels.decays import ChannelDecay, HeadDecay, NoDecay
from kerasseq.kernels.finite import since_first, spoil, zero_non_finite
from kerasseq.kernels.functions import uses_torchscript
from kerasseq.kernels.linear_recurrence import fits
from kerasseq.kernels.operations import is_float64, matmul
from kerasseq.kernels.reference import linear_attention as reference
from kerasseq.kernels.scan import scan

CHUNK = 64  # steps that are computed by products, between states that are handed on


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    log_decay: Tensor | None = None,
    b: Tensor | None = None,
    c: Tensor | None = None,
    initial_state: Tensor | None = None,
    mask: Tensor | None = None,
    segment_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Computes attention by a state of constant size, with decays and erasing.

    $$
    S_t = \mathrm{diag}(\alpha_t)\, S_{t-1} + b_t\,(c_t^T S_{t-1}) + k_t v_t^T, \qquad
    y_t = S_t^T q_t
    $$

    `reference.linear_attention` defines the result. Time and memory grow linearly with
    the length. The state is float32 in mixed precision, and float64 for float64.

    Args:
        q: `(B, T, N, K)`.
        k: `(B, T, N, K)`.
        v: `(B, T, N, V)`.
        log_decay: $\log \alpha$, at most 0, where -inf forgets all: `(N,)`, a number
            for each head; `(B, T, N)`, for each head and step; or `(B, T, N, K)`, for
            each channel, head and step. An axis may be 1. No decay if None.
        b: `(B, T, N, K)`; $-k$ if there is a c, the delta rule.
        c: `(B, T, N, K)`. Nothing is erased if None.
        initial_state: $S_0$, `(B, N, K, V)`; zeros if None.
        mask: Boolean `(B, T)`, False at padding. A masked step leaves the state as it
            is, and its output is zero.
        segment_ids: Integers `(B, T)` of packed texts: the state is zero again where
            the number changes.

    Returns:
        The outputs $y$ `(B, T, N, V)` in the dtype of v, and the last state
        `(B, N, K, V)`.

    Raises:
        ValueError: If the length is 0, or the shapes do not match.

    Examples:
        >>> x = np.ones((2, 7, 3, 5), "float32")
        >>> y, state = linear_attention(x, x, x, log_decay=np.zeros((3,)))
        >>> tuple(y.shape), tuple(state.shape)
        ((2, 7, 3, 5), (2, 3, 5, 5))
        >>> float(y[0, 6, 0, 0])  # seven times the product of two vectors of five ones
        35.0
    """
    q, k, v = (ops.convert_to_tensor(x) for x in (q, k, v))
    _check(q, k, v, log_decay, b, c, initial_state, mask, segment_ids)
    dtype = "float64" if is_float64(v) else "float32"
    output_dtype = v.dtype
    q, k, v, b, c = (
        None if x is None else masks.zero_masked(ops.cast(x, dtype), mask)
        for x in (q, k, v, b, c)
    )
    B, T, N, K = ops.shape(q)
    if log_decay is not None:
        log_decay = _all_steps(ops.cast(log_decay, dtype), T)
        log_decay = masks.zero_masked(log_decay, mask)
    if segment_ids is not None:
        log_decay, c = _forget_between_segments(segment_ids, log_decay, c, dtype)
    if initial_state is None:
        initial_state = ops.zeros((B, N, K, v.shape[-1]), dtype)
    by_steps = q.shape[1] == 1 or uses_torchscript()  # where sizes are tensors
    run = reference.linear_attention if by_steps else _in_chunks
    y, state = run(q, k, v, log_decay, b, c, ops.cast(initial_state, dtype))
    return ops.cast(y, output_dtype), state


def linear_states(
    written: Tensor,
    *,
    log_decay: Tensor | None = None,
    b: Tensor | None = None,
    c: Tensor | None = None,
    initial_state: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Returns the states $S_t$ of `linear_attention` at all steps, in order.

    Their memory grows with the length, and with the size of the state.

    Args:
        written: $k_t v_t^T$, `(B, T, N, K, V)`, in the dtype of the state.
        log_decay: See `linear_attention`.
        b: `(B, T, N, K)`; needed with a c.
        c: See `linear_attention`.
        initial_state: See `linear_attention`.
        mask: See `linear_attention`.

    Returns:
        `(B, T, N, K, V)`.

    Examples:
        >>> states = linear_states(np.ones((2, 7, 3, 5, 5), "float32"))
        >>> float(states[0, 6, 0, 0, 0])
        7.0
    """
    written = ops.convert_to_tensor(written)
    dtype, T = written.dtype, ops.shape(written)[1]
    if log_decay is not None:
        log_decay = _all_steps(ops.cast(log_decay, dtype), T)
    written, log_decay, b, c = (
        None if x is None else masks.zero_masked(ops.cast(x, dtype), mask)
        for x in (written, log_decay, b, c)
    )
    if initial_state is None:
        initial_state = ops.zeros_like(written[:, 0])
    initial_state = ops.cast(initial_state, dtype)
    return reference.states(written, log_decay, b, c, initial_state)


def _in_chunks(q, k, v, log_decay, b, c, state):
    """Computes y `(B, T, N, V)` and the last state `(B, N, K, V)` chunk by chunk."""
    T = q.shape[1]
    short = isinstance(T, int) and T < CHUNK
    L = 2 ** (T - 1).bit_length() if short else CHUNK
    steps = ops.shape(q)[1]
    q, k, v, b, c, log_decay = (
        None if x is None else _split(x, steps, L) for x in (q, k, v, b, c, log_decay)
    )
    hidden = None
    if c is not None:  # NaN in any of them would reach all rows of the inverse
        k, v, b, c, log_decay, hidden = _hide_non_finite(k, v, b, c, log_decay)
    if log_decay is None:
        decays = NoDecay()
    elif log_decay.shape[-1] == 1:
        decays = HeadDecay(log_decay[..., 0])
    else:
        decays = ChannelDecay(log_decay)
    if c is None:
        y, state = _add(decays, q, k, v, state)  # (C, B, N, L, V)
    else:
        y, state = _add_and_erase(decays, q, k, v, b, c, state, hidden)
    return _join(y, steps, L), state


def _split(x, steps, L):
    """Splits `(B, T, N, K)` into chunks `(C, B, N, L, K)`, padded with zeros."""
    B, _, N, K = ops.shape(x)
    C = (steps + L - 1) // L
    if not (isinstance(steps, int) and steps == C * L):
        zeros = ops.zeros((B, C * L - steps, N, K), x.dtype)
        x = ops.concatenate([x, zeros], axis=1)
    return ops.transpose(ops.reshape(x, (B, C, L, N, K)), (1, 0, 3, 2, 4))


def _join(y, steps, L):
    """Joins chunks `(C, B, N, L, V)` to `(B, T, N, V)`, without the padding."""
    C, B, N, _, V = ops.shape(y)
    y = ops.reshape(ops.transpose(y, (1, 0, 3, 2, 4)), (B, C * L, N, V))
    return y if isinstance(steps, int) and steps == C * L else y[:, :steps]


def _add(decays, q, k, v, state):
    """Returns the outputs of chunks and the last state, if nothing is erased."""
    added = matmul(_transpose(decays.to_end(k)), v)
    before, state = _hand_on(decays, state, {"added": added})
    v, hidden = zero_non_finite(v)
    y = matmul(decays.products(q, k), v)
    y = spoil(y, since_first(hidden, axis=3))
    return y + matmul(decays.from_start(q), before), state


def _hide_non_finite(k, v, b, c, log_decay):
    """Replaces NaN and infinity by 0, and returns which steps had them.

    Returns:
        The arguments, and booleans `(C, B, N, L, 1)`.
    """
    finite, hidden = [], False
    for x in (k, v, b, c):
        if x is not None:
            x, here = zero_non_finite(x)
            hidden = ops.logical_or(hidden, ops.any(here, axis=-1, keepdims=True))
        finite.append(x)
    if log_decay is not None:
        # -inf forgets all. TensorFlow turns not (x < y) into x >= y, also for NaN.
        here = ops.logical_or(ops.isnan(log_decay), log_decay == math.inf)
        log_decay = ops.where(here, ops.zeros((), log_decay.dtype), log_decay)
        hidden = ops.logical_or(hidden, ops.any(here, axis=-1, keepdims=True))
    return *finite, log_decay, hidden


def _add_and_erase(decays, q, k, v, b, c, state, hidden):
    """Returns the outputs of chunks and the last state, with $b_t c_t^T S_{t-1}$."""
    written = matmul(decays.products(q, k), v)
    to_end = _transpose(decays.to_end(k))
    C_k = decays.products(c, k, exclusive=True)
    if b is None:
        Q_b, C_b, b_to_end = -decays.products(q, k), -C_k, -to_end
    else:
        Q_b, C_b = decays.products(q, b), decays.products(c, b, exclusive=True)
        b_to_end = _transpose(decays.to_end(b))
    # u = W S + Z is what is read before each step.
    solve = _inverse(C_b)
    W = matmul(solve, decays.from_start(c, exclusive=True))
    Z = matmul(solve, matmul(C_k, v))
    added = matmul(to_end, v) + matmul(b_to_end, Z)
    hidden = since_first(hidden, axis=3)
    added = spoil(added, hidden[..., -1:, :])
    steps = {"added": added, "erased": matmul(b_to_end, W)}
    before, state = _hand_on(decays, state, steps)
    y = written + matmul(Q_b, matmul(W, before) + Z)
    y = spoil(y, hidden)
    return y + matmul(decays.from_start(q), before), state


def _inverse(x: Tensor) -> Tensor:
    """Returns the inverse of I - x, where x `(..., L, L)` is zero from the diagonal on.

    Blocks on the diagonal are inverted, of one row, then of two, as in forward
    substitution: a sum of powers of x would cancel, and the triangular solver of XLA
    takes more than a minute on a CPU for 4096 steps of 4 heads.
    """
    L = x.shape[-1]
    inverse = ops.eye(L, dtype=x.dtype)
    for h in (2**n for n in range(L.bit_length() - 1)):
        block = np.arange(L) // h
        below = (block[:, None] == block + 1) & (block[:, None] % 2 == 1)
        cross = ops.where(below, x, ops.zeros((), x.dtype))
        if h > 1:  # the inverse is still the identity
            cross = matmul(matmul(inverse, cross), inverse)
        inverse = inverse + cross
    return inverse


def _hand_on(decays: NoDecay, state: Tensor, steps: dict) -> tuple[Tensor, Tensor]:
    """Returns the states before each chunk `(C, B, N, K, V)`, and the last one."""
    decay = decays.whole()
    if decay is not None:
        steps["decay"] = decay[..., None]

    def step(S, now):
        after = now["decay"] * S if "decay" in now else S
        if "erased" in now:
            after = after + matmul(now["erased"], S)
        return after + now["added"], S

    state, before = scan(step, state, steps)
    return before, state


def _transpose(x: Tensor) -> Tensor:
    return ops.swapaxes(x, -1, -2)


def _check(q, k, v, log_decay, b, c, state, mask, segment_ids):
    """Raises unless the shapes match."""
    if q.shape[1] == 0:
        raise ValueError("expected at least one time step, received a length of 0")
    B, T, N, K = q.shape
    expected = {"k": (k, (B, T, N, K)), "v": (v, (B, T, N, v.shape[-1]))}
    expected |= {"b": (b, (B, T, N, K)), "c": (c, (B, T, N, K))}
    expected |= {"initial_state": (state, (B, N, K, v.shape[-1]))}
    if log_decay is not None:
        shapes = {1: (N,), 3: (B, T, N), 4: (B, T, N, K)}
        shape = shapes.get(len(log_decay.shape), "(N,), (B, T, N) or (B, T, N, K)")
        expected["log_decay"] = log_decay, shape
    for name, (x, shape) in expected.items():
        if x is not None and not fits(x.shape, shape, broadcasts=name == "log_decay"):
            raise ValueError(
                f"{name} must have shape {shape} beside q of shape {tuple(q.shape)}, "
                f"received shape {tuple(x.shape)}. Reshape it"
            )
    for name, x in (("mask", mask), ("segment_ids", segment_ids)):
        check_mask(name, x, ("batch", "time"), (B, T))
    if b is not None and c is None:
        raise ValueError("b must be None without c, received a tensor. Pass c as well")


def _all_steps(log_decay, time):
    """Returns the logarithms as `(B or 1, T, N or 1, K or 1)`."""
    if len(log_decay.shape) == 1:
        N = log_decay.shape[0]
        return ops.broadcast_to(log_decay[None, None, :, None], (1, time, N, 1))
    return log_decay[..., None] if len(log_decay.shape) == 3 else log_decay


def _forget_between_segments(segment_ids, log_decay, c, dtype):
    """Returns the logarithms and c such that each segment starts from zeros."""
    ids = ops.convert_to_tensor(segment_ids)
    before = ops.concatenate([ids[:, :1], ids[:, :-1]], axis=1)
    starts = ops.not_equal(ids, before)[:, :, None, None]
    kept = ops.zeros(ops.shape(starts), dtype)
    log_decay = kept if log_decay is None else log_decay
    log_decay = ops.where(starts, ops.full_like(kept, -math.inf), log_decay)
    return log_decay, None if c is None else ops.where(starts, ops.zeros_like(c), c)

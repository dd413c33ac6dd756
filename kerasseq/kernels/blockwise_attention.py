r"""Exact attention over blocks of keys, in memory that grows with the length.

$$
m' = \max(m, \max_s e_{ts}), \quad
l' = e^{m - m'} l + \sum_s e^{e_{ts} - m'}, \quad
O' = e^{m - m'} O + \sum_s e^{e_{ts} - m'} v_s
$$

for the keys s of one block after the other; the output is $O / l$. The backward pass
computes the scores of a block again, from the saved $\log \sum_s e^{e_{ts}} = m + \log
l$: with $\alpha_{ts}$ the weights and G the gradient of the output,

$$
\delta_t = G_t^T O_t / l_t, \quad
dv_s = \sum_t \alpha_{ts} G_t, \quad
de_{ts} = \alpha_{ts} (G_t^T v_s - \delta_t), \quad
dq_t = \sum_s de_{ts} k_s, \quad
dk_s = \sum_t de_{ts} q_t
$$

PyTorch's fused attention is computed so, too. It is used where no mask of all pairs has
to be made for it.

Milakov and Gimelshein 2018; Rabe and Staats 2021; Dao et al. 2022.

Axes: C blocks, B batch, N query heads, M key-value heads, T queries, L keys of a block,
K width of queries and keys, V width of the values.
"""

import functools
from collections.abc import Callable

import keras
from keras import ops

from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.kernels.functions import with_gradient
from kerasseq.kernels.operations import fused_attention, is_float64, matmul
from kerasseq.kernels.scan import scan


def blockwise_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    block_size: int,
    key_mask: Tensor | None = None,
    mask: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    start: int | Tensor = 0,
    bias: Tensor | None = None,
    bias_of: Callable[[Tensor, Tensor], Tensor] | None = None,
    positions: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    r"""Computes $\mathrm{softmax}(\lambda\, Q K^T + b) V$, a block of keys at a time.

    Args:
        q: `(B, T, N, K)`.
        k: `(B, S, M, K)`; each head of keys and values is shared by N / M of queries.
        v: `(B, S, M, V)`.
        scale: λ.
        block_size: L, number of keys in a block.
        key_mask: Boolean `(B, S)`, True at real keys, or None.
        mask: Boolean, of a shape that broadcasts to `(B, N, T, S)`, or None.
        causal: Whether a query attends to its own and earlier positions only.
        window: A query attends to keys at a distance below this only.
        start: Index of the first query among the keys; an integer, or one for each
            sequence, `(B,)`.
        bias: b, of a shape that broadcasts to `(B, N, T, S)`, or None.
        bias_of: Function of positions of queries `(B or 1, T)` and of keys `(B or 1,
            L)` that returns their b, of a shape that broadcasts to `(B, N, T, L)`. It
            gets no gradient.
        positions: Integers `(B or 1, T)` and `(B or 1, S)`, for `bias_of`.

    Returns:
        `(B, T, N, V)`; zeros for a fully masked query.

    Examples:
        >>> x = keras.ops.ones((2, 5, 3, 7))
        >>> y = blockwise_attention(x, x, x, scale=1.0, block_size=2)
        >>> keras.ops.shape(y), float(y[0, 0, 0, 0])
        ((2, 5, 3, 7), 1.0)
    """
    made = key_mask, window, bias, bias_of, causal if mask is not None else None
    if keras.backend.backend() == "torch" and _fusible(q, v, made, start):
        return _fused(q, k, v, scale, mask, causal)
    return attend_to_blocks(
        *(q, k, v),
        scale=scale,
        block_size=block_size,
        key_mask=key_mask,
        mask=mask,
        causal=causal,
        window=window,
        start=start,
        bias=bias,
        bias_of=bias_of,
        positions=positions,
        length=ops.shape(k)[1],
    )


def attend_to_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    block_size: int,
    key_mask: Tensor | None,
    mask: Tensor | None,
    causal: bool,
    window: int | None,
    start: int | Tensor,
    bias: Tensor | None,
    bias_of: Callable[[Tensor, Tensor], Tensor] | None,
    positions: tuple[Tensor, Tensor] | None,
    length: int | Tensor,
    devices: int = 1,
    loop: Callable = scan,
) -> Tensor:
    """Computes `blockwise_attention` in one loop, on one device or on one of a ring.

    On one of several `devices`, q, k, v, `key_mask` and the positions are its own;
    `mask` and `bias` are of its queries and the keys of all devices, cut into full
    blocks; `length` is the number of keys of all devices; `loop` is as `scan`, over
    the blocks of all devices.
    """
    L = block_size
    q = ops.swapaxes(q, 1, 2) * ops.cast(scale, q.dtype)  # (B, N, T, K)
    k = _split(ops.swapaxes(k, 1, 2), 2, L)  # (C, B, M, L, K)
    v = _split(ops.swapaxes(v, 1, 2), 2, L)
    blocks = {
        "first": ops.arange(devices * ops.shape(k)[0], dtype="int32") * L,
        "key_mask": None if key_mask is None else _split(key_mask, 1, L),
        "mask": None if mask is None else _split(mask, 3, L),
        "position": None if bias_of is None else _split(positions[1], 1, L),
    }
    fixed = {
        "blocks": {name: x for name, x in blocks.items() if x is not None},
        "queries": _query_indices(ops.shape(q)[2], start),
        **({} if bias_of is None else {"positions": positions[0]}),
    }

    def scores(q, now, fixed):
        """Computes e, and which of them count; `(B, N, T, L)`."""
        e = matmul(q, _transpose(_repeat_heads(now["key"], q.shape[1])))
        e = ops.cast(e, _dtype(q))
        if "bias" in now:
            e = e + ops.cast(now["bias"], e.dtype)
        if bias_of is not None:
            b = bias_of(fixed["positions"], now["position"])
            e = e + ops.cast(b, e.dtype)
        allowed = _allowed(length, L, fixed["queries"], causal, window, now)
        return ops.where(allowed, e, masks.lowest(e.dtype)), allowed

    differentiated = {"query": q, "key": k, "value": v}
    if bias is not None:
        differentiated["bias"] = _split(bias, 3, L)
    attention = with_gradient(
        functools.partial(_forward, scores, loop),
        functools.partial(_backward, scores, loop),
    )
    return ops.swapaxes(attention(differentiated, fixed), 1, 2)


def _fusible(q, v, made, start):
    """Returns whether PyTorch's fused attention needs no mask, and widths are equal."""
    same = q.shape[-1] == v.shape[-1] and not is_float64(q)
    return (
        same
        and isinstance(start, int)
        and start == 0
        and not any(x is not None and x is not False for x in made)
    )


def _fused(q, k, v, scale, mask, causal):
    """Computes fused attention, with zeros for a fully masked query."""
    k, v = (_repeat_heads(x, q.shape[2], axis=2) for x in (k, v))
    out = fused_attention(q, k, v, scale=scale, mask=mask, causal=causal)
    if mask is None:
        return out
    any_key = ops.swapaxes(ops.any(mask, axis=-1, keepdims=True), 1, 2)
    return ops.where(any_key, out, ops.zeros_like(out))


def _allowed(S, L, queries, causal, window, now):
    """Returns which keys of a block a query attends to: up to `(B, N, T, L)`."""
    keys = (now["first"] + ops.arange(L, dtype="int32"))[None, None, None]
    conditions = [keys < S]
    if causal:
        conditions.append(keys <= queries)
    if window is not None:
        conditions.append(ops.abs(queries - keys) < window)
    if "key_mask" in now:
        conditions.append(now["key_mask"][:, None, None])
    return masks.intersect(*conditions, now.get("mask"))


def _forward(scores, loop, tensors, fixed):
    """Computes O / l after all blocks, and what the backward pass needs."""
    q, blocks = _queries_and_blocks(tensors, fixed)
    dtype = _dtype(q)

    def step(carry, now):
        before, total, summed = carry  # m, l and O
        e, mask = scores(q, now, fixed)
        m = masks.largest(e, axis=-1, keepdims=True)
        m = ops.where(m > before, m, before)
        powers = ops.where(mask, ops.exp(e - m), ops.zeros((), dtype))
        shrunk, v = ops.exp(before - m), _repeat_heads(now["value"], q.shape[1])
        total = shrunk * total + ops.sum(powers, axis=-1, keepdims=True)
        read = ops.cast(matmul(ops.cast(powers, v.dtype), v), dtype)
        return (m, total, shrunk * summed + read), {}

    column = ops.zeros_like(q[..., :1], dtype=dtype)
    zeros = ops.zeros((*ops.shape(q)[:3], blocks["value"].shape[-1]), dtype)
    start = column + masks.lowest(dtype), column, zeros
    (m, total, summed), _ = loop(step, start, blocks)
    total = ops.where(total > 0, total, ops.ones_like(total))  # no key is allowed
    out = summed / total
    return ops.cast(out, blocks["value"].dtype), (out, m + ops.log(total))


def _backward(scores, loop, tensors, fixed, saved, G):
    """Computes the gradients of q, of the blocks of k and v, and of a bias if any."""
    q, blocks = _queries_and_blocks(tensors, fixed)
    out, log_total = saved
    G, short, M = ops.cast(G, out.dtype), ops.cast(G, q.dtype), blocks["key"].shape[2]
    delta = ops.sum(G * out, axis=-1, keepdims=True)

    def step(dq, now):
        e, mask = scores(q, now, fixed)
        k, v = (_repeat_heads(now[name], q.shape[1]) for name in ("key", "value"))
        alpha = ops.where(mask, ops.exp(e - log_total), ops.zeros((), e.dtype))
        dv = matmul(_transpose(ops.cast(alpha, q.dtype)), short)
        products = ops.cast(matmul(short, _transpose(v)), e.dtype)
        de = alpha * (products - delta)
        gradients = {"value": _sum_groups(dv, M)}
        if "bias" in now:
            gradients["bias"] = ops.cast(_sum_like(de, now["bias"]), now["bias"].dtype)
        de = ops.cast(de, q.dtype)
        gradients["key"] = _sum_groups(matmul(_transpose(de), q), M)
        return dq + ops.cast(matmul(de, k), dq.dtype), gradients

    dq, gradients = loop(step, ops.zeros_like(q, dtype=G.dtype), blocks)
    return {"query": ops.cast(dq, q.dtype), **gradients}


def _queries_and_blocks(tensors, fixed):
    """Returns the queries, and all that the loop reads block by block."""
    blocks = {**tensors, **fixed["blocks"]}
    return blocks.pop("query"), blocks


def _dtype(q):
    """Returns the type of scores, sums and outputs."""
    return "float64" if is_float64(q) else "float32"


def _sum_like(x, like):
    """Sums over the axes that have size 1 in another tensor."""
    axes = tuple(n for n, size in enumerate(like.shape) if size == 1)
    return ops.sum(x, axis=axes, keepdims=True) if axes else x


def _repeat_heads(x, N, axis=1):
    """Repeats each of M heads for the N / M heads of queries that share it."""
    G = N // x.shape[axis]
    return x if G == 1 else ops.repeat(x, G, axis=axis)


def _sum_groups(x, M):
    """Sums `(B, N, L, K)` over the heads that share one of M heads."""
    _, N, L, K = x.shape
    if N == M:
        return x
    return ops.sum(ops.reshape(x, (-1, M, N // M, L, K)), axis=2)


def _query_indices(T, start):
    """Indices of the queries among the keys, `(B or 1, 1, T, 1)`."""
    if len(getattr(start, "shape", ())) == 1:
        start = ops.cast(start, "int32")[:, None, None, None]
    return ops.arange(T, dtype="int32")[None, None, :, None] + start


def _split(x, axis, size):
    """Splits an axis into blocks, which come first; the last is filled with zeros."""
    x = ops.convert_to_tensor(x)
    shape = list(ops.shape(x))
    length = shape[axis]
    C = (length + size - 1) // size
    if not (isinstance(length, int) and length == C * size):
        shape[axis] = C * size - length
        x = ops.concatenate([x, ops.zeros(shape, x.dtype)], axis=axis)
    split = [*shape[:axis], C, size, *shape[axis + 1 :]]
    order = [axis, *(n for n in range(len(split)) if n != axis)]
    return ops.transpose(ops.reshape(x, split), order)


def _transpose(x):
    return ops.swapaxes(x, -1, -2)

"""Attention to the keys of a window, in chunks of queries.

A chunk is at least as long as the window is wide, so that its queries read the keys of
the chunk before, of their own, and, unless they are causal, of the chunk after.
"""

import keras
from keras import ops

from kerasseq.attention.cache import Cache
from kerasseq.attention.dot_product import (
    attention_weights,
    repeat_heads,
    weighted_sum,
)
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.kernels import blockwise_attention
from kerasseq.tracing import listeners

CHUNK = 16  # at least: chunks of one or two queries are slow
BLOCK = 128  # keys of a chunk that are read at a time


def check_one_sequence(
    layer: MultiHeadAttention, query: Tensor, value: Tensor, cache: Cache | None
) -> None:
    """Raises unless query and value may be one sequence."""
    T, S = query.shape[1], value.shape[1]
    if cache is None and None not in (T, S) and T != S:
        raise ValueError(
            f"{type(layer).__name__} reads one sequence: query and value must have the "
            f"same length, received {T} and {S}. Use BlockwiseAttention for "
            "cross-attention"
        )


def reads_chunks(
    layer: MultiHeadAttention, q: Tensor, attention_mask: Tensor | None, **options: bool
) -> bool:
    """Returns whether a call reads chunks: it needs no weights, cache or mask of pairs.

    Args:
        layer: The layer, with a `sliding_window`.
        q: `(B, T, N, K)`.
        attention_mask: That of the call, or None.
        **options: Those of `MultiHeadAttention._attend`.
    """
    if len(q.shape) > 4 or attention_mask is not None or listeners.active():
        return False
    if options["return_weights"] or options["start"] is not None:
        return False
    return q.shape[1] is None or q.shape[1] > chunk_length(layer)


def chunk_length(layer: MultiHeadAttention) -> int:
    """Returns L, the number of queries in a chunk."""
    return max(layer.sliding_window, CHUNK)


def attend_in_chunks(
    layer: MultiHeadAttention,
    q: Tensor,
    positions: Tensor | None,
    memory: Cache,
    real: Tensor | None,
    *,
    causal: bool,
    drop: bool = False,
    regular: bool = False,
    extra: dict[str, Tensor] | None = None,
) -> Tensor:
    """Returns the heads `(B, T, N, V)` of queries that attend to a window.

    Args:
        layer: The layer, with a `sliding_window`.
        q: `(B, T, N, K)`.
        positions: `(B, T)` or `(1, T)`; needed if the layer biases scores.
        memory: Keys `(B, T, M, K)`, values, and "position" if it biases scores.
        real: Boolean `(B, T)`, True at keys that may be read, or None.
        causal: Whether a query attends to its own and earlier positions only.
        drop: Whether to apply the dropout of the layer.
        regular: Whether positions are those in the array, and the bias depends on their
            differences alone.
        extra: Keys that every query reads, or None: "key" `(B, G, M, K)`, "value",
            "position" as in `memory`, "index" `(B, G)` and boolean "real" `(B, G)`.
    """
    L, w = chunk_length(layer), layer.sliding_window
    B, T = ops.shape(q)[:2]
    C = (T + L - 1) // L
    real = ops.ones((B, T), "bool") if real is None else ops.cast(real, "bool")
    content = q if layer.position is None else layer.position.content_queries(q)
    if regular:
        memory = {name: memory[name] for name in ("key", "value")}
    elif layer.biases_scores:
        s = ops.broadcast_to(memory["position"], (B, T))
        memory = {**memory, "position": s}
    chunks = {name: _neighbors(x, C, L, causal) for name, x in memory.items()}
    allowed = _neighbors(real, C, L, causal)[:, None, None]  # (B C, 1, 1, S)
    near = masks.window(L, allowed.shape[-1], w, L)[:, None]
    if causal:
        near = masks.intersect(near, masks.causal(L, allowed.shape[-1], L)[:, None])
    mask = masks.intersect(near, allowed)
    if extra is not None:
        queries = ops.arange(C * L, dtype="int32")
        chunks, mask = _with_extra(chunks, mask, extra, queries, C, L, causal)
    bias = None
    if regular:
        p = L + ops.arange(L, dtype="int32")[None]
        s = ops.arange(allowed.shape[-1], dtype="int32")[None]
        bias = layer._bias(q[:1], p, {"position": s})  # the same in each chunk
    elif layer.biases_scores:
        p = _split(ops.broadcast_to(positions, (B, T)), C, L)
        bias = layer._bias(_split(q, C, L), p, chunks)
    k = repeat_heads(chunks["key"], layer.heads_per_group)
    v = repeat_heads(chunks["value"], layer.heads_per_group)
    q = _split(content, C, L)
    if drop:
        alpha = attention_weights(q, k, scale=layer.factor, mask=mask, bias=bias)
        alpha = keras.random.dropout(alpha, layer.dropout, seed=layer.seed_generator)
        out = weighted_sum(alpha, v)
    else:
        out = blockwise_attention(
            q, k, v, scale=layer.factor, block_size=BLOCK, mask=mask, bias=bias
        )
    return ops.reshape(out, (B, C * L, *out.shape[2:]))[:, :T]


def _with_extra(chunks, mask, extra, queries, C, L, causal):
    """Keys and mask of chunks with the extra keys in front."""
    allowed = extra["real"][:, None]  # (B, 1, G)
    if causal:
        earlier = extra["index"][:, None] <= queries[:, None]
        allowed = masks.intersect(allowed, earlier)
    B, _, G = ops.shape(allowed)
    allowed = ops.broadcast_to(allowed, (B, C * L, G))
    allowed = ops.reshape(allowed, (-1, 1, L, G))
    shape = (*ops.shape(allowed)[:3], mask.shape[-1])
    mask = ops.concatenate([allowed, ops.broadcast_to(mask, shape)], axis=-1)
    widened = {
        name: ops.concatenate([ops.repeat(extra[name], C, axis=0), x], axis=1)
        for name, x in chunks.items()
    }
    return widened, mask


def _split(x, C, L):
    """Splits `(B, T, ...)` into chunks `(B C, L, ...)`, padded with zeros."""
    shape = ops.shape(x)
    missing = C * L - shape[1]
    if not isinstance(missing, int) or missing:
        zeros = ops.zeros((shape[0], missing, *shape[2:]), x.dtype)
        x = ops.concatenate([x, zeros], axis=1)
    return ops.reshape(x, (-1, L, *shape[2:]))


def _neighbors(x, C, L, causal):
    """Chunks `(B C, 2 L or 3 L, ...)` of `(B, T, ...)`, with those beside each."""
    shape = ops.shape(x)
    own = ops.reshape(_split(x, C, L), (shape[0], C, L, *shape[2:]))
    zeros = ops.zeros_like(own[:, :1])
    if causal:
        parts = ops.concatenate([zeros, own[:, :-1]], axis=1), own
    else:
        x = ops.concatenate([zeros, own, zeros], axis=1)
        parts = x[:, :-2], own, x[:, 2:]
    x = ops.concatenate(parts, axis=2)
    return ops.reshape(x, (-1, len(parts) * L, *shape[2:]))

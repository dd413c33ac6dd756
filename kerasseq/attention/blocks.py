"""Multi-head attention without the scores of all pairs of queries and keys.

`BlockwiseAttention` always attends so, and `MultiHeadAttention` to long texts. The loop
over the blocks is in `kernels/blockwise_attention.py`.
"""

import functools
from typing import TYPE_CHECKING, Any

from kerasseq.attention.cache import Cache
from kerasseq.attention.dot_product import record_heads
from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.kernels import blockwise_attention, fuses_attention, ring_attention
from kerasseq.tracing import listeners

if TYPE_CHECKING:
    from kerasseq.attention.inputs import Masks
    from kerasseq.attention.multi_head import MultiHeadAttention

BLOCK = 128  # keys that are read at a time


def prefers_blocks(layer: "MultiHeadAttention", q: Tensor, **options: Any) -> bool:
    """Returns whether a layer attends to a long text in blocks, to save memory.

    Args:
        layer: The layer.
        q: Queries, `(B, T, N, K)`.
        **options: Those of `MultiHeadAttention._attend`.
    """
    if layer.flash_attention or fuses_attention(q):
        return False
    return not needs_weights(q, **options)


def needs_weights(q: Tensor, *, drop: bool, return_weights: bool, **_: Any) -> bool:
    """Returns whether weights have to exist: to be returned, dropped or recorded."""
    return drop or return_weights or listeners.active() or len(q.shape) > 4


def attend_in_blocks(
    layer: "MultiHeadAttention",
    q: Tensor,
    positions: Tensor | None,
    memory: Cache,
    given_masks: "Masks",
    *,
    block_size: int = BLOCK,
    devices: int = 1,
    causal: bool,
    start: int | Tensor | None,
    **_: Any,
) -> Tensor:
    """Returns the heads `(B, T, N, V)`, computed over one block of keys at a time.

    Args:
        layer: The layer.
        q: `(B, T, N, K)`.
        positions: `(B, T)` or `(1, T)`; needed if the layer biases scores.
        memory: Keys `(B, S, M, K)`, values, and "position" if it biases scores.
        given_masks: `attention_mask`, `query_mask`, `value_mask` and `key_mask`.
        block_size: L, number of keys in a block.
        devices: P, the number of devices that share the sequence; new tokens of a cache
            are on one.
        causal: Whether a query attends to its own and earlier positions only.
        start: Index of the first query among the keys; None for 0.
    """
    attention_mask, query_mask, value_mask, key_mask = given_masks
    if devices > 1 and start is None:
        attention = functools.partial(ring_attention, devices=devices)
    else:
        begin = 0 if start is None else start
        attention = functools.partial(blockwise_attention, start=begin)
    out = attention(
        q if layer.position is None else layer.position.content_queries(q),
        memory["key"],
        memory["value"],
        scale=layer.factor,
        block_size=block_size,
        key_mask=masks.intersect(value_mask, key_mask),
        mask=masks.intersect(masks.add_head_axis(attention_mask)),
        causal=causal,
        window=layer.sliding_window,
        **_bias(layer, q, positions, memory),
    )
    return record_heads(layer, "heads", masks.zero_masked(out, query_mask))


def _bias(layer, q, positions, memory):
    """Returns the arguments of the kernel for the bias by position."""
    if not layer.biases_scores:
        return {}
    if not layer.bias_is_constant:
        return {"bias": layer._bias(q, positions, memory)}

    def bias_of(query_positions, key_positions):
        return layer.position.bias(query_positions, key_positions, None, layer.factor)

    return {"bias_of": bias_of, "positions": (positions, memory["position"])}

r"""Blockwise attention: multi-head attention over one block of keys at a time.

$$
m' = \max(m, \max_s e_{ts}), \quad
l' = e^{m - m'} l + \sum_s e^{e_{ts} - m'}, \quad
O' = e^{m - m'} O + \sum_s e^{e_{ts} - m'} v_s, \quad
\mathrm{head}_t = O / l
$$

The result is exact. T × S scores never exist, neither in the forward pass nor in the
backward pass, which computes them again. Dao et al. 2022; Liu et al. 2023. Course
slides E. The loop is in `kernels/blockwise_attention.py`.
"""

from typing import Any

from kerasseq.attention.dot_product import record_heads, repeat_heads
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.core import checks, masks
from kerasseq.core.serialization import register
from kerasseq.kernels import blockwise_attention
from kerasseq.tracing import listeners


@register
class BlockwiseAttention(MultiHeadAttention):
    """Multi-head attention in memory that grows with the length, not with its square.

    The results are those of `MultiHeadAttention`, whose arguments, weights, masks and
    caches it has. The attention weights exist, and take their memory, in a call that
    returns, records or drops them.

    A position encoding whose bias has weights or depends on the queries, such as
    `RelativePositionBias`, makes the bias of all pairs; `RotaryEmbedding` and
    `AlibiBias` do not.

    Args:
        num_heads: As for `MultiHeadAttention`.
        key_dim: As for `MultiHeadAttention`.
        *args: As for `MultiHeadAttention`.
        block_size: L, number of keys in a block. Shorter sequences are one block.
        **kwargs: As for `MultiHeadAttention`.

    Call arguments:
        query: And all others: as for `MultiHeadAttention`.

    Returns:
        As `MultiHeadAttention`.

    Raises:
        TypeError: If `block_size` is not a whole number.
        ValueError: If an argument is out of range.

    Examples:
        >>> layer = BlockwiseAttention(num_heads=2, key_dim=3, block_size=5)
        >>> x = np.ones((2, 13, 7))
        >>> keras.ops.shape(layer(x, x, use_causal_mask=True))
        (2, 13, 7)

    References:
        Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with
        IO-Awareness", NeurIPS 2022. Liu and Abbeel, "Blockwise Parallel Transformer for
        Large Context Models", NeurIPS 2023. Slides E.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        *args: Any,
        block_size: int = 128,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, *args, **kwargs)
        self.block_size: int = checks.size("block_size", block_size)
        self.argument_names: tuple[str, ...] = (*self.argument_names, "block_size")

    def _attend(self, q, positions, memory, given_masks, **options):
        if not self._in_blocks(q, memory, options):
            return super()._attend(q, positions, memory, given_masks, **options)
        attention_mask, query_mask, value_mask, key_mask = given_masks
        start = options["start"]
        out = blockwise_attention(
            q if self.position is None else self.position.content_queries(q),
            repeat_heads(memory["key"], self.heads_per_group),
            repeat_heads(memory["value"], self.heads_per_group),
            scale=self.factor,
            block_size=self.block_size,
            key_mask=masks.intersect(value_mask, key_mask),
            mask=masks.intersect(masks.add_head_axis(attention_mask)),
            causal=options["causal"],
            window=self.sliding_window,
            start=0 if start is None else start,
            **self._block_bias(q, positions, memory),
        )
        return record_heads(self, "heads", masks.zero_masked(out, query_mask)), None

    def _in_blocks(self, q, memory, options):
        """Whether the scores are more than one block of queries or of keys."""
        if options["drop"] or options["return_weights"] or listeners.active():
            return False
        lengths = q.shape[1], memory["key"].shape[1]
        return len(q.shape) == 4 and all(
            length is None or length > self.block_size for length in lengths
        )

    def _block_bias(self, q, positions, memory):
        """The arguments of the kernel for the bias of the position encoding."""
        position = self.position
        if position is None or not position.has_bias:
            return {}
        if not position.bias_is_constant:
            return {"bias": self._bias(q, positions, memory)}

        def bias_of(key_positions):
            return position.bias(positions, key_positions, None, self.factor)

        return {"bias_of": bias_of, "key_positions": memory["position"]}

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

import sys
from typing import Any

from kerasseq.attention.blocks import BLOCK, attend_in_blocks, needs_weights
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.core import checks
from kerasseq.core.serialization import register


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

    dense_length: int = sys.maxsize  # one block is computed at once

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        *args: Any,
        block_size: int = BLOCK,
        devices: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, *args, **kwargs)
        self.block_size: int = checks.size("block_size", block_size)
        self.argument_names: tuple[str, ...] = (
            *self.argument_names,
            *("block_size", "devices"),
        )
        self.devices = devices

    @property
    def devices(self) -> int:
        """P, the number of devices that share a sequence."""
        return self._devices

    @devices.setter
    def devices(self, devices: int) -> None:
        self._devices = checks.size("devices", devices)

    def _attend(self, q, positions, memory, given_masks, **options):
        if not self._in_blocks(q, memory, options):
            return super()._attend(q, positions, memory, given_masks, **options)
        L = self.block_size
        tensors = q, positions, memory, given_masks
        return attend_in_blocks(self, *tensors, block_size=L, **options), None

    def _in_blocks(self, q, memory, options):
        """Whether the scores are more than one block of queries or of keys."""
        if needs_weights(q, **options):
            return False
        lengths = q.shape[1], memory["key"].shape[1]
        return all(length is None or length > self.block_size for length in lengths)

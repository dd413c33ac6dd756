r"""Blockwise attention: multi-head attention over one block of keys at a time.

$$
m' = \max(m, \max_s e_{ts}), \quad
l' = e^{m - m'} l + \sum_s e^{e_{ts} - m'}, \quad
O' = e^{m - m'} O + \sum_s e^{e_{ts} - m'} v_s, \quad
\mathrm{head}_t = O / l
$$

The result is exact. T × S scores never exist, neither in the forward pass nor in the
backward pass, which computes them again. Dao et al. 2022; Liu et al. 2023. Course
slides E. The loop is in `kernels/blockwise_attention.py`, and the one over several
devices in `kernels/ring_attention.py`.
"""

import sys
from typing import Any

from kerasseq.attention.blocks import BLOCK, attend_in_blocks, needs_weights
from kerasseq.attention.multi_head import MultiHeadAttention
from kerasseq.attention.sparse.ring import RingPlan, plan
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

    With `devices=P` the sequence is cut into P parts along time (ring attention). Each
    device holds the queries, keys and values of one part, and in P steps the keys and
    values travel around the ring. The results are those of one device; the memory of
    each is that of its part. Any length will do: masked positions fill the last part.
    On JAX it runs over the first P devices, in `fit` and `jax.jit`, too. TensorFlow and
    PyTorch compute on one device, and so do calls with a cache, calls that need the
    attention weights, inputs of more than three axes, sequences shorter than P, and
    programs for any batch size. `plan` prints who holds what.

    Args:
        num_heads: As for `MultiHeadAttention`.
        key_dim: As for `MultiHeadAttention`.
        *args: As for `MultiHeadAttention`.
        block_size: L, number of keys in a block. Shorter sequences are one block. On
            several devices the blocks of a part are equal, of at most L keys.
        devices: P, the number of devices that share a sequence. The attribute can be
            set, as to `layer.devices = 1` where a loaded model finds fewer.
        **kwargs: As for `MultiHeadAttention`.

    Call arguments:
        query: And all others: as for `MultiHeadAttention`.

    Returns:
        As `MultiHeadAttention`.

    Raises:
        TypeError: If `block_size` or `devices` is not a whole number.
        ValueError: If an argument is out of range, if several devices and dropout are
            asked for, or, in a call on JAX, if there are fewer devices.

    Examples:
        >>> layer = BlockwiseAttention(num_heads=2, key_dim=3, block_size=5)
        >>> x = np.ones((2, 13, 7))
        >>> keras.ops.shape(layer(x, x, use_causal_mask=True))
        (2, 13, 7)

        >>> layer = BlockwiseAttention(num_heads=2, key_dim=3, devices=3)
        >>> print(layer.plan(batch=2, length=13))
        device  queries   keys  step 1 reads  step 2 reads  step 3 reads
        0           0–4    0–4           0–4         10–12           5–9
        1           5–9    5–9           5–9           0–4         10–12
        2         10–12  10–12         10–12           5–9           0–4
        Each device sends 480 bytes to the next one during each step but the last: 960 \
bytes.

    References:
        Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with
        IO-Awareness", NeurIPS 2022. Liu and Abbeel, "Blockwise Parallel Transformer for
        Large Context Models", NeurIPS 2023. Liu, Zaharia and Abbeel, "Ring Attention
        with Blockwise Transformers for Near-Infinite Context", 2023. Slides E.
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
        devices = checks.size("devices", devices)
        if devices > 1 and self.dropout:
            raise ValueError(
                f"dropout must be 0 with devices={devices}, received {self.dropout}, "
                "which needs all attention weights on one device. Drop features after "
                "the layer instead, or set devices=1"
            )
        self._devices = devices

    def plan(
        self,
        batch: int,
        length: int,
        value_length: int | None = None,
        *,
        masked: bool = False,
    ) -> RingPlan:
        """Plans how the devices share a sequence; on each backend alike.

        Args:
            batch: B.
            length: T, number of queries.
            value_length: S, number of keys; T if None.
            masked: Whether the keys have a padding mask, which travels, too.

        Returns:
            A `RingPlan`: `print` shows it, and `plot` draws it.

        Raises:
            TypeError: If a size is not a whole number.
            ValueError: If there are fewer queries or keys than devices.

        Examples:
            >>> layer = BlockwiseAttention(num_heads=2, key_dim=3, devices=4)
            >>> layer.plan(batch=2, length=1000, masked=True).bytes_per_step
            24500
        """
        S = length if value_length is None else value_length
        return plan(
            *(self, batch, length, S),
            **{"devices": self.devices, "block_size": self.block_size},
            masked=masked,
        )

    def _attend(self, q, positions, memory, given_masks, **options):
        if not self._in_blocks(q, memory, options):
            return super()._attend(q, positions, memory, given_masks, **options)
        tensors, sizes = (
            (q, positions, memory, given_masks),
            {
                "block_size": self.block_size,
                "devices": self.devices,
            },
        )
        return attend_in_blocks(self, *tensors, **sizes, **options), None

    def _in_blocks(self, q, memory, options):
        """Returns whether there are several devices, or blocks of queries or keys."""
        if needs_weights(q, **options):
            return False
        if self.devices > 1:
            return True
        lengths = q.shape[1], memory["key"].shape[1]
        return all(length is None or length > self.block_size for length in lengths)

r"""Relative position bias of T5: a learned bias for each range of distances.

$$
b_n(p, s) = B_{\mathrm{bucket}(s - p),\, n}
$$

Raffel et al. 2020; course slides A (T5).
"""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import as_floats, check_numbers
from kerasseq.core.types import Identifier, Initializer, Shape, Tensor
from kerasseq.positions.alibi import SCORES, heads_of
from kerasseq.positions.base import AttentionPosition


@register
class RelativePositionBias(AttentionPosition):
    """Adds a learned bias to attention scores, by the distance of query and key.

    As `MultiHeadAttention(..., position=RelativePositionBias())` it biases the scores
    there. Attentions that are given the same object share its weight, as all layers of
    T5 do.

    Args:
        num_buckets: Number of ranges of distances, each with one bias per head.
        max_distance: All distances from here on are in one bucket.
        bidirectional: Whether half of the buckets are for keys after the query. If
            not, all of those are in the bucket of distance 0.
        initializer: Initializer of the biases.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        attention_scores: `(B, N, T, S)`.
        start_index: Index of the first query among the keys.

    Returns:
        The biased scores, `(B, N, T, S)`.

    Raises:
        ValueError: If an argument is out of range, or the scores do not have four axes.

    Examples:
        >>> layer = RelativePositionBias(num_buckets=8, max_distance=20)
        >>> keras.ops.shape(layer(np.zeros((2, 3, 5, 7))))
        (2, 3, 5, 7)
    """

    initializer: Initializer

    @passes_on(AttentionPosition)
    def __init__(
        self,
        num_buckets: int = 32,
        max_distance: int = 128,
        *,
        bidirectional: bool = True,
        initializer: Identifier = "uniform",
        **kwargs: Any,
    ) -> None:
        self.bidirectional: bool = checks.flag("bidirectional", bidirectional)
        at_least = 4 if self.bidirectional else 2
        num_buckets = checks.size("num_buckets", num_buckets)
        self.num_buckets: int = checks.whole_number(
            "num_buckets", num_buckets, at_least
        )
        self.max_distance: int = checks.size("max_distance", max_distance, 2, 8)
        exact = self.num_buckets // at_least
        if self.max_distance <= exact:
            raise ValueError(
                f"max_distance must be above {exact}, as that many of num_buckets="
                f"{num_buckets} hold a single distance, received "
                f"max_distance={max_distance}. Increase it, or reduce num_buckets"
            )

    def build(self, scores_shape: Shape) -> None:
        self.embeddings: keras.Variable = self.add_weight(
            name="embeddings",
            shape=(self.num_buckets, heads_of(self, scores_shape)),
            initializer=self.initializer,
        )
        self.built = True

    def call(self, attention_scores: Tensor, start_index: int | Tensor = 0) -> Tensor:
        check_numbers("attention_scores", attention_scores, SCORES)
        scores = as_floats("attention_scores", attention_scores, self.compute_dtype)
        T, S = ops.shape(attention_scores)[2:]
        p = ops.arange(T, dtype="int32")[None] + start_index
        b = self.bias(p, ops.arange(S, dtype="int32")[None])
        return scores + ops.cast(b, scores.dtype)

    def bias(
        self,
        query_positions: Tensor,
        key_positions: Tensor,
        queries: Tensor | None = None,
        scale: float = 1.0,
    ) -> Tensor:
        """Returns the bias that is added to the scores; it depends on positions only.

        Args:
            query_positions: p, `(B, T)` or `(1, T)`.
            key_positions: s, `(B, S)` or `(1, S)`.
            queries: Not used.
            scale: Not used.

        Returns:
            b, `(B, N, T, S)` or `(1, N, T, S)`.
        """
        p, s = query_positions[:, :, None], key_positions[:, None, :]
        limit = self.max_distance
        B = ops.convert_to_tensor(self.embeddings)
        bucket = kernels.constant(self._buckets(np.arange(-limit, limit + 1)), like=B)
        B = ops.take(B, bucket, axis=0)  # of each distance, (2 limit + 1, N)
        b = ops.take(B, ops.clip(s - p, -limit, limit) + limit, axis=0)  # (B, T, S, N)
        return ops.transpose(b, (0, 3, 1, 2))

    def _buckets(self, distance):
        sizes = self.num_buckets, self.max_distance
        return buckets(distance, *sizes, bidirectional=self.bidirectional)


def buckets(
    distance: np.ndarray,
    num_buckets: int = 32,
    max_distance: int = 128,
    *,
    bidirectional: bool = True,
) -> np.ndarray:
    """Returns the bucket of each distance s - p.

    Half of the buckets hold one distance each, the others ranges that grow
    geometrically up to `max_distance`. Computed in float32 as in T5, so that distances
    at the edge of a range are in the same bucket as there.

    Args:
        distance: Array of integers, positive for keys after the query.
        num_buckets: Number of buckets.
        max_distance: All distances from here on are in one bucket.
        bidirectional: Whether half of the buckets are for positive distances.

    Returns:
        Array of int32.

    Examples:
        >>> buckets(np.array([-20, -8, -3, -2, 0, 2, 3, 20]), 16, 20).tolist()
        [7, 5, 3, 2, 0, 10, 11, 15]
    """
    first = np.zeros_like(distance)
    if bidirectional:
        num_buckets //= 2
        first = np.where(distance > 0, num_buckets, 0)
        n = np.abs(distance)
    else:
        n = np.maximum(-distance, 0)
    exact = num_buckets // 2
    growth = np.log(np.maximum(n, 1).astype("float32") / np.float32(exact))
    growth = growth / np.float32(math.log(max_distance / exact)) * (num_buckets - exact)
    in_range = np.minimum(exact + growth.astype("int32"), num_buckets - 1)
    return (first + np.where(n < exact, n, in_range)).astype("int32")

r"""T5's positions: a learned bias for each distance, far ones in common.

$$
b_n(p, s) = B_{\mathrm{bucket}(s - p),\, n}
$$

Raffel et al. 2020; course slides A (T5).
"""

import math

import keras
import numpy as np
from keras import ops

from kerasseq.core import arguments, checks
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.shapes import check_numbers
from kerasseq.positions.alibi import SCORES, heads_of


@register
class RelativePositionBias(keras.layers.Layer):
    """Add a learned bias to scores, by the distance of query and key.

    As `MultiHeadAttention(..., position=RelativePositionBias())` it biases the scores
    there. Give the same one to several attentions and they share its table, as all
    layers of T5 do.

    Args:
        num_buckets: Rows of the table.
        max_distance: From here on all distances have one row.
        bidirectional: Whether half of the rows are for what comes later; if not, all
            that comes later has the row of distance 0.
        initializer: Of the table.
        **kwargs: As for any layer.

    Call arguments:
        attention_scores: `(B, N, T, S)`.
        start_index: The position of the first query among the keys.

    Returns:
        The scores with their bias.

    Raises:
        ValueError: If an argument is out of range, or the scores have not four axes.

    Examples:
        >>> layer = RelativePositionBias(num_buckets=8, max_distance=20)
        >>> keras.ops.shape(layer(np.zeros((2, 3, 5, 7))))
        (2, 3, 5, 7)
    """

    def __init__(
        self,
        num_buckets=32,
        max_distance=128,
        *,
        bidirectional=True,
        initializer="uniform",
        **kwargs,
    ):
        arguments.check(locals())
        super().__init__(**kwargs)
        check_float64(self)
        self.bidirectional = bool(bidirectional)
        self.num_buckets = checks.whole_number(
            "num_buckets", num_buckets, 4 if bidirectional else 2
        )
        self.max_distance = checks.whole_number("max_distance", max_distance)
        self.initializer = arguments.revive("initializer", initializer)
        alone = num_buckets // (4 if bidirectional else 2)
        if max_distance <= alone:
            raise ValueError(
                f"max_distance={max_distance} must be above {alone}: of "
                f"num_buckets={num_buckets} so many are for one distance each"
            )

    def build(self, scores_shape):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.num_buckets, heads_of(self, scores_shape)),
            initializer=self.initializer,
        )
        self.built = True

    def call(self, attention_scores, start_index=0):
        check_numbers("attention_scores", attention_scores, SCORES)
        T, S = ops.shape(attention_scores)[2:]
        p = ops.arange(T, dtype="int32")[None] + start_index
        b = self.bias(p, ops.arange(S, dtype="int32")[None])
        return attention_scores + ops.cast(b, attention_scores.dtype)

    def bias(self, query_positions, key_positions):
        """What `MultiHeadAttention` adds to its scores.

        Args:
            query_positions: p, `(B, T)` or `(1, T)`.
            key_positions: s, `(B, S)` or `(1, S)`.

        Returns:
            b, `(B, N, T, S)` or `(1, N, T, S)`.
        """
        p, s = query_positions[:, :, None], key_positions[:, None, :]
        far = self.max_distance
        bucket = ops.convert_to_tensor(self._buckets(np.arange(-far, far + 1)))
        rows = ops.take(bucket, ops.clip(s - p, -far, far) + far)  # (B, T, S)
        B = ops.convert_to_tensor(self.embeddings)
        return ops.transpose(ops.take(B, rows, axis=0), (0, 3, 1, 2))

    def _buckets(self, distance):
        sizes = self.num_buckets, self.max_distance
        return buckets(distance, *sizes, bidirectional=self.bidirectional)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        config = {
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "bidirectional": self.bidirectional,
            "initializer": arguments.as_config("initializer", self.initializer),
        }
        return {**super().get_config(), **config}


def buckets(distance, num_buckets=32, max_distance=128, *, bidirectional=True):
    """The row of each distance s - p.

    Half of the rows are for one distance each, the others for ranges that grow by the
    same factor up to the largest distance. In float32, as in T5, so that no distance at
    the edge of a range falls to the other side.

    Args:
        distance: Array of whole numbers; keys that come later have positive ones.
        num_buckets: Rows in all.
        max_distance: From here on all distances have one row.
        bidirectional: Whether half of the rows are for positive distances.

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
    alone = num_buckets // 2
    grown = np.log(np.maximum(n, 1).astype("float32") / np.float32(alone))
    grown = grown / np.float32(math.log(max_distance / alone)) * (num_buckets - alone)
    wide = np.minimum(alone + grown.astype("int32"), num_buckets - 1)
    return (first + np.where(n < alone, n, wide)).astype("int32")

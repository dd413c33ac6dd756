r"""ALiBi: attention with linear biases, whose slope differs by head.

$$
b_n(p, s) = -m_n\, |p - s|, \qquad m_n = 2^{-8n/N}
$$

Nothing is learned, and sequences may be longer than in training. Press et al. 2022.
Course slides D.
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
from kerasseq.core.types import Shape, Tensor
from kerasseq.positions.base import AttentionPosition

SCORES = "(batch, heads, query_time, key_time)"


@register
class AlibiBias(AttentionPosition):
    """Adds a bias to attention scores that decreases linearly with the distance.

    Equivalent to `keras_hub.layers.AlibiBias`. As
    `MultiHeadAttention(..., position=AlibiBias())` it biases the scores there.

    Args:
        alibi_bias_max: 8 in the equation: the slope of the last head is 2 to the power
            of minus this.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        attention_scores: `(B, N, T, S)`. All queries get the bias of the last position,
            which under a causal mask gives the same attention weights as their own.

    Returns:
        The biased scores, `(B, N, T, S)`.

    Raises:
        ValueError: If the scores do not have four axes.

    Examples:
        >>> scores = AlibiBias()(np.zeros((1, 2, 3, 3)))
        >>> keras.ops.convert_to_numpy(scores)[0, :, -1].tolist()
        [[-0.125, -0.0625, 0.0], [-0.0078125, -0.00390625, 0.0]]
    """

    @passes_on(AttentionPosition)
    def __init__(self, alibi_bias_max: float = 8, **kwargs: Any) -> None:
        self.alibi_bias_max: float = checks.positive("alibi_bias_max", alibi_bias_max)

    def build(self, scores_shape: Shape) -> None:
        self.num_heads: int = heads_of(self, scores_shape)
        self.built = True

    def call(self, attention_scores: Tensor) -> Tensor:
        N = heads_of(self, attention_scores.shape)
        check_numbers("attention_scores", attention_scores, SCORES)
        scores = as_floats("attention_scores", attention_scores, self.compute_dtype)
        s = ops.arange(ops.shape(attention_scores)[-1], dtype="int32")[None]
        b = self._bias(N, s[:, -1:], s)  # (1, N, 1, S)
        return scores + ops.cast(b, scores.dtype)

    @property
    def bias_is_constant(self) -> bool:
        """Whether `bias` depends on the positions alone, not on weights or queries."""
        return True

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
        return self._bias(self.num_heads, query_positions, key_positions)

    def _bias(self, N, p, s):
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        distance = ops.cast(ops.abs(p[:, :, None] - s[:, None, :]), dtype)
        m = kernels.constant(
            slopes(N, self.alibi_bias_max).astype(dtype), like=distance
        )
        return -m[:, None, None] * distance[:, None]


def heads_of(layer: keras.Layer, scores_shape: Shape) -> int:
    """Returns N, from the shape of scores `(B, N, T, S)`."""
    if len(scores_shape) != 4 or not scores_shape[1]:
        raise ValueError(
            f"attention_scores of {type(layer).__name__} must have shape {SCORES}, "
            f"received shape {tuple(scores_shape)}. Add the axis of the heads, as in "
            "attention_scores[:, None]"
        )
    return scores_shape[1]


def slopes(N: int, highest: float = 8) -> np.ndarray:
    """Returns the slope of each head.

    If N is not a power of two, the heads beyond the next lower power take every other
    slope of the next higher power.

    Examples:
        >>> slopes(2).tolist(), slopes(3).tolist()
        ([0.0625, 0.00390625], [0.0625, 0.00390625, 0.25])
    """
    power = 2 ** int(math.log2(N))
    first = 2.0 ** (-highest * np.arange(1, power + 1) / power)
    if power == N:
        return first
    return np.concatenate([first, slopes(2 * power, highest)[::2][: N - power]])

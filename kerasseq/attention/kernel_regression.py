r"""Nadaraya-Watson kernel regression as attention.

$$
\hat y(x) = \sum_j \frac{K((x - x_j) / w)}{\sum_k K((x - x_k) / w)}\, y_j, \qquad
K(u) = e^{-|u|^2 / 2}
$$

The weights are a softmax of $-|x - x_j|^2 / 2 w^2$, with queries $x$, keys $x_j$ and
values $y_j$. Nadaraya 1964; Watson 1964; as attention in Zhang et al., "Dive into Deep
Learning".
"""

import math
from typing import Any

import keras
from keras import ops

from kerasseq.attention.base import SingleHeadAttention
from kerasseq.core import checks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor


@register
class KernelAttention(SingleHeadAttention):
    r"""Averages the values with weights that decrease with the distance of their keys.

    Args:
        width: w, the width of the Gaussian kernel, in the units of queries and keys.
        learnable: Whether the width is learned.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        query: $x$, `(B, T_q, D)`.
        value: $y$, `(B, T_k, D_v)`.
        key: $x_j$, `(B, T_k, D)`; the values if None.
        mask: Boolean, `(B, T_k)` or `(B, T_q, T_k)`, True where a query may attend.
        return_attention_scores: Whether to return the weights as well.
        use_causal_mask: Whether query i attends to positions up to i only.

    Returns:
        `(B, T_q, D_v)`, and the weights `(B, T_q, T_k)` if asked for.

    Raises:
        ValueError: If the width is not positive, or queries and keys differ in width.

    Examples:
        >>> layer = KernelAttention(width=0.1)
        >>> x = np.linspace(0, 1, 5)[None, :, None]
        >>> y = layer(x, x**2, x)
        >>> keras.ops.shape(y)
        (1, 5, 1)
    """

    @passes_on(SingleHeadAttention)
    def __init__(
        self, width: float = 1.0, *, learnable: bool = True, **kwargs: Any
    ) -> None:
        self.width: float = float(checks.positive("width", width))
        self.learnable: bool = checks.flag("learnable", learnable)

    def build(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> None:
        self.check_shapes(query_shape, value_shape, key_shape)
        D_q, D_k = query_shape[-1], (key_shape or value_shape)[-1]
        if D_q != D_k:
            raise ValueError(
                "queries and keys must have equal widths to compute distances, "
                f"received widths {D_q} and {D_k}. Project one of them"
            )
        # The logarithm is learned, so that the width stays positive.
        self.log_width: keras.Variable = self.add_weight(
            name="log_width",
            shape=(),
            initializer=keras.initializers.Constant(math.log(self.width)),
            trainable=self.learnable,
        )
        self.built = True

    def scores(
        self,
        query: Tensor,
        key: Tensor,
        key_time: int | Tensor | None = None,
        projected: bool = False,
    ) -> Tensor:
        """Returns the scores, $-|x - x_j|^2 / 2 w^2$, `(B, T_q, T_k)`."""
        x, x_j = query, key
        w = ops.exp(ops.convert_to_tensor(self.log_width))
        squares = ops.sum(ops.square(x[:, :, None] - x_j[:, None]), -1)
        return -0.5 * squares / (w * w)

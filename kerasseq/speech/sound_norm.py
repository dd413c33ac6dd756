r"""Frames of a sound with mean 0 and variance 1, over its real frames and all bands.

$$y_{t,m} = \frac{x_{t,m} - \mu}{\sqrt{\sigma^2 + \epsilon}}$$

with mean $\mu$ and variance $\sigma^2$ of the sound. Else the level of a recording and
the small contrast of a logarithm keep a model from learning for long. There are no
weights, and the difference between bands stays, unlike in a normalization of each band.
"""

from typing import Any

import keras
from keras import ops

from kerasseq.core import masks
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.types import Shape, Tensor

EPSILON = 1e-3  # a silent sound is not noise of variance 1


@register
class SoundNormalization(keras.layers.Layer):
    """Normalizes the frames of each sound by themselves.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: Frames `(B, T, M)`.
        mask: Boolean `(B, T)`, True at real frames. Keras passes it.

    Returns:
        `(B, T, M)`; zeros at masked frames.

    Examples:
        >>> x = np.array([[[2.0, 4.0], [2.0, 4.0], [9.0, 9.0]]])
        >>> y = SoundNormalization()(x, mask=np.array([[True, True, False]]))
        >>> keras.ops.convert_to_numpy(y).round(2).tolist()
        [[[-1.0, 1.0], [-1.0, 1.0], [0.0, 0.0]]]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.built = True

    def call(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        given = x
        x = masks.zero_masked(ops.cast(x, scores_dtype(x.dtype)), mask)
        real = ops.ones_like(x[..., :1])
        if mask is not None:
            real = ops.cast(mask, x.dtype)[..., None]  # (B, T, 1)
        count = ops.sum(real, axis=(1, 2), keepdims=True) * x.shape[-1]
        count = ops.maximum(count, 1)
        mean = ops.sum(x, axis=(1, 2), keepdims=True) / count
        x = masks.zero_masked(x - mean, mask)
        variance = ops.sum(x * x, axis=(1, 2), keepdims=True) / count
        return ops.cast(x * ops.rsqrt(variance + EPSILON), given.dtype)

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return x_shape

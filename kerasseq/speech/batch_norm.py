r"""Batch normalization over the real steps of sequences.

$$
y = \gamma\,\frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta
$$

In training $\mu$ and $\sigma^2$ are those of all real steps of the batch; in inference,
the moving averages of these. Ioffe and Szegedy 2015. The layer is that of Keras, which
computes float64 in float32; this one does not.
"""

import keras
from keras import ops

from kerasseq.core.serialization import check_float64, register
from kerasseq.core.types import Shape, Tensor
from kerasseq.kernels import is_float64


@register
class BatchNormalization(keras.layers.BatchNormalization):
    """Batch normalization of sequences: `keras.layers.BatchNormalization`.

    The arguments are those of `keras.layers.BatchNormalization`, with the last axis;
    `renorm` and `synchronized` are left out.

    Call arguments:
        x: `(B, T, D)`.
        training: Whether to use the statistics of the batch, and to update the moving
            ones.
        mask: Boolean `(B, T)`, True at real steps; others must be finite, and do not
            count.

    Examples:
        >>> layer = BatchNormalization(epsilon=1e-9)
        >>> x = keras.ops.array([[[1.0], [3.0], [100.0]]])
        >>> y = layer(x, training=True, mask=np.array([[True, True, False]]))
        >>> keras.ops.convert_to_numpy(y)[0, :2, 0].tolist()
        [-1.0, 1.0]
    """

    def build(self, shape: Shape) -> None:
        check_float64(self)
        super().build(shape)

    def call(
        self, x: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x = x if is_float64(x) else ops.cast(x, "float32")
        weights = self.moving_mean, self.moving_variance, self.gamma, self.beta
        # TensorFlow does not promote bfloat16.
        mean, variance, gamma, beta = (ops.cast(w, x.dtype) for w in weights)
        if training and self.trainable:
            mean, variance = moments(x, mask)
            self._update(self.moving_mean, mean)
            self._update(self.moving_variance, variance)
        scale = gamma * ops.rsqrt(variance + self.epsilon)
        return ops.cast((x - mean) * scale + beta, self.compute_dtype)

    def _update(self, moving, value):
        old = ops.cast(moving, value.dtype)
        moving.assign(self.momentum * old + (1 - self.momentum) * value)


def moments(x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Returns the mean and the variance of each feature over all real steps.

    Args:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, True at real steps; all are if None.

    Returns:
        Two tensors `(D,)`, zeros if no step is real.

    Examples:
        >>> x = keras.ops.array([[[1.0], [3.0], [100.0]]])
        >>> mean, variance = moments(x, np.array([[True, True, False]]))
        >>> float(mean[0]), float(variance[0])
        (2.0, 1.0)
    """
    ones = ops.ones_like(x[..., :1])
    real = ones if mask is None else ops.cast(mask, x.dtype)[..., None]
    count = ops.sum(real)
    count = ops.where(count > 0, count, ops.ones_like(count))
    mean = ops.sum(x * real, axis=(0, 1)) / count
    difference = (x - mean) * real
    return mean, ops.sum(difference * difference, axis=(0, 1)) / count

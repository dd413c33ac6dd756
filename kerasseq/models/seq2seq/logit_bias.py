"""A bias of the logits that is read from published weights, and not trained."""

from typing import Any

import keras
from keras import ops

from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor


@register
class LogitBias(Layer):
    """Adds a bias to logits; it is zero in a new model, and training leaves it.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        logits: `(B, T, V)`.

    Returns:
        `(B, T, V)`.

    Examples:
        >>> layer = LogitBias()
        >>> keras.ops.shape(layer(np.zeros((1, 2, 5)))), layer.count_params()
        ((1, 2, 5), 5)
    """

    @passes_on(Layer)
    def __init__(self, **kwargs: Any) -> None:
        pass

    def build(self, shape: Shape) -> None:
        self.bias: keras.Variable = self.add_weight(
            name="bias", shape=(shape[-1],), initializer="zeros", trainable=False
        )
        self.built = True

    def call(self, logits: Tensor) -> Tensor:
        return logits + ops.cast(self.bias, logits.dtype)

    def compute_output_shape(self, shape: Shape) -> Shape:
        return shape

r"""Small layers of BERT, beside those that it shares with other models.

Devlin et al. 2019, and the code that they published with it. Course slides A, C.
"""

import keras
from keras import ops

from kerasseq.core.masks import lowest
from kerasseq.core.serialization import register


@register
class FirstStep(keras.layers.Layer):
    """The vector at the first real step, `(B, T, D)` to `(B, D)`: that of `[CLS]`.

    Examples:
        >>> x = np.arange(6.0).reshape(1, 3, 2)
        >>> y = FirstStep()(x, np.array([[False, True, True]]))
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[2.0, 3.0]]
    """

    def call(self, sequence, real):
        return at_positions(sequence, _first(real)[:, None])[:, 0]

    def compute_output_shape(self, sequence_shape, real_shape=None):
        return sequence_shape[0], sequence_shape[-1]


def _first(real):
    return ops.cast(ops.argmax(ops.cast(real, "int32"), axis=1), "int32")


@register
class AtPositions(keras.layers.Layer):
    """The vectors at some places of each row, `(B, T, D)` to `(B, P, D)`.

    Examples:
        >>> x = np.arange(6.0).reshape(1, 3, 2)
        >>> keras.ops.convert_to_numpy(AtPositions()(x, np.array([[2, 0]]))).tolist()
        [[[4.0, 5.0], [0.0, 1.0]]]
    """

    def call(self, sequence, positions):
        return at_positions(sequence, positions)

    def compute_output_shape(self, sequence_shape, positions_shape):
        return (*positions_shape, sequence_shape[-1])


def at_positions(sequence, positions):
    """`(B, T, D)` at places `(B, P)`."""
    return ops.take_along_axis(sequence, positions[:, :, None], axis=1)


@register
class Bias(keras.layers.Layer):
    """Adds a learned number to each feature, in float32.

    Examples:
        >>> keras.ops.shape(Bias()(np.zeros((2, 3, 5))))
        (2, 3, 5)
    """

    def build(self, input_shape):
        self.bias = self.add_weight(
            name="bias", shape=(input_shape[-1],), initializer="zeros"
        )
        self.built = True

    def call(self, x):
        return ops.cast(x, self.compute_dtype) + self.bias

    def compute_output_shape(self, input_shape):
        return input_shape


@register
class OnlyReal(keras.layers.Layer):
    """Logits of the steps of a row, `(B, T)`, of which padding is never chosen.

    Examples:
        >>> y = OnlyReal()(np.ones((1, 2)), np.array([[True, False]]))
        >>> keras.ops.convert_to_numpy(keras.ops.softmax(y)).tolist()
        [[1.0, 0.0]]
    """

    def call(self, logits, real):
        return ops.where(real, logits, lowest(logits.dtype))

    def compute_output_shape(self, logits_shape, real_shape=None):
        return logits_shape

"""First weights: scaled ones, and those that keep the size of what goes through."""

import math

import keras

from kerasseq.core.serialization import register


@register
class Scaled(keras.initializers.Initializer):
    """The values of another initializer times a number.

    Args:
        initializer: The other.
        factor: The number.

    Examples:
        >>> keras.ops.convert_to_numpy(Scaled("ones", 0.5)((2,))).tolist()
        [0.5, 0.5]
    """

    def __init__(self, initializer, factor):
        self.initializer = keras.initializers.get(initializer)
        self.factor = factor

    def __call__(self, shape, dtype=None):
        return self.factor * self.initializer(shape, dtype)

    def get_config(self):
        initializer = keras.initializers.serialize(self.initializer)
        return {"initializer": initializer, "factor": self.factor}


@register
class FanIn(keras.initializers.Initializer):
    r"""Normal, of deviation $1 / \sqrt n$ for kernels that add up n inputs.

    Keras' own initializers count the inputs of a kernel `(D, N, K)`, to the heads of an
    attention, as N D; and its weights, for a stream of vectors of deviation 1, are then
    so small that a part adds next to nothing to the stream.

    Args:
        width: D, of the stream: a kernel `(D, …)` adds up D inputs, one `(…, D)` all
            that are before the last axis.

    Examples:
        >>> kernel = FanIn(width=64)((64, 4, 16))
        >>> print("%.1f" % (8 * keras.ops.std(kernel)))
        1.0

    References:
        Raffel et al. 2020, code.
    """

    def __init__(self, width):
        self.width = width

    def __call__(self, shape, dtype=None):
        n = shape[0] if shape[0] == self.width else math.prod(shape[:-1])
        return keras.initializers.RandomNormal(stddev=n**-0.5)(shape, dtype)

    def get_config(self):
        return {"width": self.width}

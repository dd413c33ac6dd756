"""A layer that wraps a method of another layer."""

from collections.abc import Callable
from typing import Any

import keras


class MethodLayer(keras.layers.Layer):
    """Calls a method of a layer as Keras calls a layer.

    In a call of a layer Keras casts weights to the compute dtype, and builds a graph of
    symbolic tensors. A plain call of a method does neither.

    Args:
        layer: A built layer, whose weights become weights of this layer; or a built
            model, whose weights do not.
        method: The name of one of its methods.
        casts: Whether Keras casts floating arguments to the compute dtype.

    Examples:
        >>> dense = keras.layers.Dense(2, dtype="mixed_bfloat16")
        >>> dense.build((None, 3))
        >>> dense.doubled = lambda x: 2 * keras.ops.matmul(x, dense.kernel)
        >>> y = MethodLayer(dense, "doubled")(np.ones((1, 3)))
        >>> keras.backend.standardize_dtype(y.dtype)
        'bfloat16'
    """

    def __init__(self, layer: keras.Layer, method: str, *, casts: bool = True) -> None:
        # TensorFlow's names of scopes begin with a letter.
        name = f"{method.strip('_')}_{layer.name}"
        super().__init__(dtype=layer.dtype_policy, name=name)
        self.bound: Callable[..., Any] = getattr(layer, method)
        if not isinstance(layer, keras.Model):  # a model may contain this layer: a
            self.layer = layer  # cycle, in which reading a file of weights never ends
        self._convert_input_args = casts  # as Keras' own layers do
        self.supports_masking = True
        self.built = True

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.bound(*args, **kwargs)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None

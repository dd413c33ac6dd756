"""A layer that wraps a method of another layer."""

from collections.abc import Callable
from typing import Any, Self

import keras


class OfWeights(keras.DTypePolicy):
    """Casts the weights of a layer to its compute dtype, and no inputs."""

    @classmethod
    def like(cls, layer: keras.Layer) -> Self:
        """Returns the policy with the dtypes of a layer."""
        dtype = layer.compute_dtype
        return cls(dtype if dtype == layer.variable_dtype else f"mixed_{dtype}")

    def convert_input(self, x: Any, autocast: bool, dtype: str) -> Any:
        """Returns an input as it is."""
        return x


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
        >>> dense.both = lambda x: (x, dense.kernel.value)
        >>> parts = MethodLayer(dense, "both", casts=False)(keras.ops.ones((1, 3)))
        >>> [keras.backend.standardize_dtype(part.dtype) for part in parts]
        ['float32', 'bfloat16']
    """

    def __init__(self, layer: keras.Layer, method: str, *, casts: bool = True) -> None:
        # TensorFlow's names of scopes begin with a letter.
        name = f"{method.strip('_')}_{layer.name}"
        policy = layer.dtype_policy if casts else OfWeights.like(layer)
        super().__init__(dtype=policy, name=name)
        self.bound: Callable[..., Any] = getattr(layer, method)
        if not isinstance(layer, keras.Model):  # a model may contain this layer: a
            self.layer = layer  # cycle, in which reading a file of weights never ends
        self.supports_masking = True
        self.built = True

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.bound(*args, **kwargs)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None

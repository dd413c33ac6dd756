"""A method of a layer as the call of another layer."""

import keras


class Through(keras.layers.Layer):
    """Call a method of a layer, with what Keras does round a call.

    Inside a call weights are cast to the compute type, and symbolic tensors make a
    graph; called by itself, a method has neither.

    Args:
        layer: The layer, whose weights then count as weights of this; or a model, whose
            weights do not. It must be built before.
        method: The name of one of its methods.

    Examples:
        >>> dense = keras.layers.Dense(2, dtype="mixed_bfloat16")
        >>> dense.build((None, 3))
        >>> dense.doubled = lambda x: 2 * keras.ops.matmul(x, dense.kernel)
        >>> y = Through(dense, "doubled")(np.ones((1, 3)))
        >>> keras.backend.standardize_dtype(y.dtype)
        'bfloat16'
    """

    def __init__(self, layer, method):
        # TensorFlow's names of scopes begin with a letter.
        name = f"{method.strip('_')}_{layer.name}"
        super().__init__(dtype=layer.dtype_policy, name=name)
        self.bound = getattr(layer, method)
        if not isinstance(layer, keras.Model):  # which may hold this: files of weights
            self.layer = layer  # are read by walking from part to part, without end
        self.supports_masking = True
        self.built = True

    def call(self, *args, **kwargs):
        return self.bound(*args, **kwargs)

    def compute_mask(self, *args, **kwargs):
        return None

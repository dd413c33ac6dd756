"""Wrappers that give layers with other inputs a single sequence as input."""

import keras
from keras import ops


class Wrapper(keras.layers.Layer):
    """A layer that wraps another layer."""

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.layer = layer
        self.supports_masking = True

    def get_config(self):
        layer = keras.saving.serialize_keras_object(self.layer)
        return {**super().get_config(), "layer": layer}

    @classmethod
    def from_config(cls, config):
        layer = keras.saving.deserialize_keras_object(config.pop("layer"))
        return cls(layer, **config)


@keras.saving.register_keras_serializable("tests")
class OnItself(Wrapper):
    """Calls an attention layer with its input as query and value.

    Args:
        layer: A layer whose call takes `query`, `value` and their masks.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def build(self, shape):
        if not self.layer.built:  # a loaded layer is built
            self.layer.build(shape, shape)
        self.built = True

    def call(self, x, mask=None, training=False):
        allowed = {} if mask is None else {"query_mask": mask, "value_mask": mask}
        return self.layer(x, x, training=training, **allowed)

    def compute_output_shape(self, shape):
        return self.layer.compute_output_shape(shape, shape)


@keras.saving.register_keras_serializable("tests")
class Added(Wrapper):
    """Adds the output of a position layer to the input, which it scales by a weight.

    Args:
        layer: A layer that embeds positions, ids from 0 to 7, or both.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def build(self, shape):
        self.weight = self.add_weight(shape=(shape[-1],), initializer="ones")
        if not self.layer.built:
            self.layer.build(
                shape[:2] if self.wrapped_has("token_embedding") else shape
            )
        self.built = True

    def wrapped_has(self, attribute):
        return hasattr(self.layer, attribute)

    def call(self, x, mask=None):
        ids = sum(2**i * ops.cast(x[..., i] > 0, "int32") for i in range(3))
        if self.wrapped_has("num_segments"):
            code = self.layer(x, ids)
        else:
            code = self.layer(
                ids if self.wrapped_has("token_embedding") else x, mask=mask
            )
        return x * self.weight + code

    def compute_output_shape(self, shape):
        return shape


@keras.saving.register_keras_serializable("tests")
class Marginals(Wrapper):
    """Calls a CRF, and returns the probabilities of the tags.

    Args:
        layer: A `CRF`.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def build(self, shape):
        if not self.layer.built:
            self.layer.build(shape)
        self.built = True

    def call(self, x, mask=None):
        return ops.cast(self.layer.marginals(self.layer(x), mask), self.compute_dtype)

    def compute_output_shape(self, shape):
        return shape


@keras.saving.register_keras_serializable("tests")
class Asked(Wrapper):
    """Adds the first answers of a memory network to the input, scaled by a weight.

    The places of the memory are the steps, whose ids are from 0 to 7; id 3 asks.

    Args:
        layer: A `MemoryNetwork` of at least 8 ids.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def build(self, shape):
        self.weight = self.add_weight(shape=(shape[-1],), initializer="ones")
        if not self.layer.built:
            self.layer.build()
        self.built = True

    def call(self, x, mask=None):
        ids = sum(2**i * ops.cast(x[..., i] > 0, "int32") for i in range(3))
        query = ops.full_like(ids[:, 0], 3)
        answers = self.layer(query, ids, mask=mask)[:, None, : x.shape[-1]]
        return x * self.weight + answers

    def compute_output_shape(self, shape):
        return shape


@keras.saving.register_keras_serializable("tests")
class AsImage(Wrapper):
    """Calls a layer with a sequence as an image of one channel, one row per step.

    Args:
        layer: A layer that returns a class token and a vector for each row.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def build(self, shape):
        if not self.layer.built:
            self.layer.build((*shape, 1))
        self.built = True

    def call(self, x):
        z = self.layer(x[..., None])
        return z[:, 1:] + z[:, :1]

    def compute_output_shape(self, shape):
        batch, tokens, width = self.layer.compute_output_shape((*shape, 1))
        return (batch, None if tokens is None else tokens - 1, width)


@keras.saving.register_keras_serializable("tests")
class Scaled(Wrapper):
    """Scales the input by a weight, and calls a layer of the same shape.

    Args:
        layer: A layer of sequences.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def build(self, shape):
        self.weight = self.add_weight(shape=(shape[-1],), initializer="ones")
        self.built = True

    def call(self, x, mask=None, training=False):
        return self.layer(x * self.weight, mask=mask, training=training)

    def compute_output_shape(self, shape):
        return shape


@keras.saving.register_keras_serializable("tests")
class Coded(Scaled):
    """Adds the codes of a vector quantizer to its input, which a weight scales.

    Args:
        layer: A `VectorQuantizer`.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def call(self, x, mask=None, training=False):
        x = x * self.weight
        return x + self.layer(x, mask=mask, training=training)


@keras.saving.register_keras_serializable("tests")
class AsAudio(Scaled):
    """Calls a layer with the numbers of a sequence as the samples of a sound.

    Args:
        layer: A layer with a frame for each step, as wide as a step.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def call(self, x, training=False):
        batch, steps, width = ops.shape(x)
        return self.layer(ops.reshape(x * self.weight, (batch, steps * width)))

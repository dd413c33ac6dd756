"""A layer of several inputs as one of a single input, for what every layer must do."""

import keras


@keras.saving.register_keras_serializable("tests")
class OnItself(keras.layers.Layer):
    """Call a layer with its input as query and as value.

    Args:
        layer: A layer whose call takes `query`, `value` and `mask`.
        **kwargs: As for any layer.
    """

    def __init__(self, layer, **kwargs):
        super().__init__(**kwargs)
        self.layer = layer
        self.supports_masking = True

    def build(self, shape):
        if not self.layer.built:  # one that was loaded is
            self.layer.build(shape, shape)
        self.built = True

    def call(self, x, mask=None, training=False):
        allowed = {} if mask is None else {"value_mask": mask}
        return self.layer(x, x, training=training, **allowed)

    def compute_output_shape(self, shape):
        return self.layer.compute_output_shape(shape, shape)

    def get_config(self):
        layer = keras.saving.serialize_keras_object(self.layer)
        return {**super().get_config(), "layer": layer}

    @classmethod
    def from_config(cls, config):
        layer = keras.saving.deserialize_keras_object(config.pop("layer"))
        return cls(layer, **config)

"""A layer that reads in one direction, run in both."""

from typing import Any, Self

import keras
from keras import ops

from kerasseq.core import checks, objects
from kerasseq.core.serialization import register
from kerasseq.core.sublayers import WithSublayers
from kerasseq.core.types import Config, Shape, Tensor
from kerasseq.tasks.sequence_layers import last_step


@register
class BothDirections(WithSublayers, keras.layers.Layer):
    """Runs a copy of a layer from each end of a sequence, and joins the outputs.

    `keras.layers.Bidirectional` is for recurrent layers, which take `go_backwards`. In
    a trace and in `gradient_flow`, time runs in the reading order of each copy: from
    the last step of the input to the first in layers inside `backward_`.

    Args:
        layer: A layer from `(B, T, D)` to `(B, T, C)` that does not change with
            padding on either side. Its weights are not used.
        return_sequences: Whether to return all outputs, not only those of each copy at
            its last real step, where it has read the whole sequence.
        **kwargs: For `keras.layers.Layer`.

    Call arguments:
        x: `(B, T, D)`.
        mask: Boolean `(B, T)`, True at real steps. Keras passes it.
        training: Whether dropout is applied.

    Returns:
        `(B, T, 2 C)`, or `(B, 2 C)` without `return_sequences`: first the outputs of
        the copy that starts at the first step.

    Examples:
        >>> import kerasseq
        >>> layer = BothDirections(kerasseq.layers.WaveNet(3, dilations=[1, 2]))
        >>> keras.ops.shape(layer(np.ones((2, 7, 5))))
        (2, 7, 6)
    """

    bidirectional = True

    def __init__(
        self,
        layer: keras.layers.Layer,
        *,
        return_sequences: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.return_sequences: bool = checks.flag("return_sequences", return_sequences)
        self.supports_masking = True
        self._config: Config = keras.saving.serialize_keras_object(layer)
        self._config.pop("build_config", None)
        self.forward_layer: keras.layers.Layer = objects.copy_layer(
            layer, f"forward_{layer.name}"
        )
        self.backward_layer: keras.layers.Layer = objects.copy_layer(
            layer, f"backward_{layer.name}", seed_offset=1
        )

    def build(self, shape: Shape) -> None:
        self.forward_layer.build(shape)
        self.backward_layer.build(shape)
        self.built = True

    def call(
        self, x: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        forward = self.forward_layer(x, mask=mask, training=training)
        turned = None if mask is None else ops.flip(mask, axis=1)
        backward = self.backward_layer(
            ops.flip(x, axis=1), mask=turned, training=training
        )
        if not self.return_sequences:
            ends = last_step(forward, mask), last_step(backward, turned)
            return ops.concatenate(ends, axis=-1)
        return ops.concatenate([forward, ops.flip(backward, axis=1)], axis=-1)

    def compute_mask(self, x: Tensor, mask: Tensor | None = None) -> Tensor | None:
        return mask if self.return_sequences else None

    def compute_output_shape(self, shape: Shape) -> Shape:
        *before, width = self.forward_layer.compute_output_shape(shape)
        before = before if self.return_sequences else before[:1]
        return (*before, 2 * width)

    def get_config(self) -> Config:
        own = {"layer": self._config, "return_sequences": self.return_sequences}
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        layer = keras.saving.deserialize_keras_object(config["layer"])
        return cls(**{**config, "layer": layer})

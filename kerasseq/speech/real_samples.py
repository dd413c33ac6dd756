"""The samples of sounds that are padded to one length."""

from typing import Any

import keras
from keras import ops

from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor


@register
class RealSamples(keras.layers.Layer):
    """Returns the audio of a batch, with a mask of the samples that are real.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: A dictionary with "audio" `(B, S)` and "lengths" `(B,)`, the samples of
            each sound.

    Returns:
        The audio. `compute_mask` returns `(B, S)`.

    Examples:
        >>> layer = RealSamples()
        >>> x = {"audio": np.ones((2, 3)), "lengths": np.array([1, 3])}
        >>> keras.ops.convert_to_numpy(layer.compute_mask(x)).astype(int).tolist()
        [[1, 0, 0], [1, 1, 1]]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True
        self.built = True

    def call(self, inputs: dict[str, Tensor]) -> Tensor:
        return inputs["audio"]

    def compute_mask(
        self, inputs: dict[str, Tensor], previous_mask: Tensor | None = None
    ) -> Tensor:
        # Their number is unknown while a model is built, which ops.arange refuses.
        ones = ops.ones_like(inputs["audio"], dtype="int32")
        return ops.cumsum(ones, axis=1) <= ops.cast(inputs["lengths"], "int32")[:, None]

    def compute_output_shape(self, inputs_shape: dict[str, Shape]) -> Shape:
        return inputs_shape["audio"]

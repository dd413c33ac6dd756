r"""Segment embeddings, as in BERT: one learned vector for each sentence of a pair.

$$
x_t = E_{w_t} + P_t + S_{s_t}
$$

Devlin et al. 2019; course slides A.
"""

from typing import Any

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_real, check_shape, check_steps
from kerasseq.core.types import Identifier, Initializer, Shape, Tensor


@register
class SegmentEmbedding(Layer):
    """Learned embedding of each segment, such as sentence A and sentence B.

    Args:
        num_segments: Number of segments.
        initializer: Initializer of the embeddings.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(B, T, D)`. Only the shape is used.
        segments: Integers `(B, T)` or `(T,)`, the segment of each token.

    Returns:
        The embeddings `(B, T, D)`, to be added to the inputs.

    Examples:
        >>> layer = SegmentEmbedding(2)
        >>> embeddings = layer(np.zeros((1, 3, 5)), np.array([[0, 0, 1]]))
        >>> keras.ops.shape(embeddings)
        (1, 3, 5)
    """

    initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        num_segments: int = 2,
        *,
        initializer: Identifier = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        self.num_segments: int = checks.size("num_segments", num_segments, 1)

    def build(self, inputs_shape: Shape, segments_shape: Shape | None = None) -> None:
        check_shape("inputs", inputs_shape, more=True)
        checks.fits_memory("num_segments", self.num_segments, inputs_shape[-1])
        self.segment_embeddings: keras.Variable = self.add_weight(
            name="embeddings",
            shape=(self.num_segments, inputs_shape[-1]),
            initializer=self.initializer,
        )
        self.built = True

    def call(self, inputs: Tensor, segments: Tensor) -> Tensor:
        check_steps("segments", segments, inputs.shape[-2])
        check_real("segments", segments)
        S = ops.convert_to_tensor(self.segment_embeddings)
        embeddings = ops.take(S, ops.cast(segments, "int32"), axis=0)
        return ops.broadcast_to(embeddings, ops.shape(inputs))

    def compute_output_shape(
        self, inputs_shape: Shape, segments_shape: Shape | None = None
    ) -> Shape:
        return inputs_shape

r"""Learned position embeddings: one vector for each position.

$$
PE(p) = E_p
$$

Gehring et al. 2017; used by BERT and GPT. Course slides C and D.
"""

from typing import Any

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_shape
from kerasseq.core.types import Identifier, Initializer, Shape, Tensor
from kerasseq.positions.base import PositionEncoding


@register
class PositionEmbedding(PositionEncoding):
    """Learned embedding of each position, up to a maximum sequence length.

    Equivalent to `keras_hub.layers.PositionEmbedding`, with the same weight.

    Args:
        sequence_length: Number of positions.
        initializer: Initializer of the embeddings.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(B, T, D)`. Only the shape is used.
        start_index: Position of the first token.
        positions: Integers `(B, T)` or `(T,)` to use instead of counting.
        mask: Boolean `(B, T)`, set by Keras. Positions are counted over real tokens.

    Returns:
        The embeddings `(B, T, D)`, to be added to the inputs.

    Raises:
        ValueError: If the sequence is longer than `sequence_length`.

    Examples:
        >>> layer = PositionEmbedding(sequence_length=13)
        >>> keras.ops.shape(layer(np.zeros((2, 7, 5))))
        (2, 7, 5)
    """

    initializer: Initializer

    @passes_on(PositionEncoding)
    def __init__(
        self,
        sequence_length: int,
        initializer: Identifier = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        self.sequence_length: int = checks.size("sequence_length", sequence_length, 1)

    def build(self, inputs_shape: Shape) -> None:
        check_shape("inputs", inputs_shape, more=True)
        checks.fits_memory("sequence_length", self.sequence_length, inputs_shape[-1])
        self.position_embeddings: keras.Variable = self.add_weight(
            name="embeddings",
            shape=(self.sequence_length, inputs_shape[-1]),
            initializer=self.initializer,
        )
        self.input_spec: keras.InputSpec = keras.InputSpec(
            min_ndim=2, axes={-1: inputs_shape[-1]}
        )
        self.built = True

    def encode(self, p: Tensor, D: int) -> Tensor:
        E = ops.convert_to_tensor(self.position_embeddings)
        return ops.take(E, ops.cast(p, "int32"), axis=0)

    def max_positions(self, D: int) -> tuple[int, str]:
        return self.sequence_length, f"sequence_length={self.sequence_length}"

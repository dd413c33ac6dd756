r"""Positions that are learned: a row of a table for each.

$$
PE(p) = E_p
$$

Gehring et al. 2017; as in BERT and GPT. Course slides C and D.
"""

import keras
from keras import ops

from kerasseq.core import arguments, checks
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_shape
from kerasseq.positions.code import PositionCode


@register
class PositionEmbedding(PositionCode):
    """A learned code for each position, up to a longest sequence.

    Takes what `keras_hub.layers.PositionEmbedding` takes, and has its weight.

    Args:
        sequence_length: How many positions there are.
        initializer: Of the table.
        **kwargs: As for any layer.

    Call arguments:
        inputs: `(B, T, D)`: the code has their shape, and nothing else of them.
        start_index: The position of the first token.
        positions: Whole numbers `(B, T)` or `(T,)` to take instead.
        mask: Boolean `(B, T)`, filled in by Keras: positions are counted over what is
            real.

    Returns:
        The code, `(B, T, D)`, to be added to the inputs.

    Raises:
        ValueError: If the sequence is longer than the table.

    Examples:
        >>> layer = PositionEmbedding(sequence_length=13)
        >>> keras.ops.shape(layer(np.zeros((2, 7, 5))))
        (2, 7, 5)
    """

    def __init__(self, sequence_length, initializer="glorot_uniform", **kwargs):
        arguments.check(locals())
        super().__init__(**kwargs)
        self.sequence_length = checks.whole_number("sequence_length", sequence_length)
        self.initializer = arguments.revive("initializer", initializer)

    def build(self, inputs_shape):
        check_shape("inputs", inputs_shape, more=True)
        checks.fits_memory("sequence_length", self.sequence_length, inputs_shape[-1])
        self.position_embeddings = self.add_weight(
            name="embeddings",
            shape=(self.sequence_length, inputs_shape[-1]),
            initializer=self.initializer,
        )
        self.input_spec = keras.InputSpec(min_ndim=2, axes={-1: inputs_shape[-1]})
        self.built = True

    def code(self, p, D):
        E = ops.convert_to_tensor(self.position_embeddings)
        return ops.take(E, ops.cast(p, "int32"), axis=0)

    def limit(self, D):
        return self.sequence_length, f"sequence_length={self.sequence_length}"

    def get_config(self):
        config = {
            "sequence_length": self.sequence_length,
            "initializer": arguments.as_config("initializer", self.initializer),
        }
        return {**super().get_config(), **config}

r"""A token and its place as one vector: the first layer of most Transformers.

$$
x_t = E_{w_t} + P_t
$$

As in GPT and BERT; course slides A and D.
"""

import keras
from keras import ops

from kerasseq.core import arguments, checks
from kerasseq.core.serialization import check_float64, register
from kerasseq.core.shapes import check_shape
from kerasseq.core.sublayers import WithSublayers
from kerasseq.positions.embedding import PositionEmbedding


@register
class TokenAndPositionEmbedding(WithSublayers, keras.layers.Layer):
    """Embed tokens, and add a learned code of their positions.

    Takes what `keras_hub.layers.TokenAndPositionEmbedding` takes, and has its weights.
    `layer.token_embedding(x, reverse=True)` gives the logits of a language model.

    Args:
        vocabulary_size: How many tokens there are.
        sequence_length: How many positions there are.
        embedding_dim: D.
        tie_weights: Whether logits come from the table of the tokens, or from one of
            their own.
        embeddings_initializer: Of all tables.
        mask_zero: Whether token 0 is padding: later layers get a mask, and positions
            are counted over the other tokens.
        **kwargs: As for any layer.

    Call arguments:
        inputs: Ids `(B, T)`.
        start_index: The position of the first token, as in decoding step by step.
        positions: Whole numbers `(B, T)` or `(T,)` to take instead.
        mask: Boolean `(B, T)`, True where a token is real.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If the sequence is longer than there are positions.

    Examples:
        >>> layer = TokenAndPositionEmbedding(11, 7, 5)
        >>> keras.ops.shape(layer(np.array([[1, 2, 3]])))
        (1, 3, 5)
    """

    def __init__(
        self,
        vocabulary_size,
        sequence_length,
        embedding_dim,
        tie_weights=True,
        embeddings_initializer="uniform",
        mask_zero=False,
        **kwargs,
    ):
        arguments.check(locals())
        super().__init__(**kwargs)
        check_float64(self)
        self.supports_masking = True
        self.autocast = False  # ids that come as floats: bfloat16 has no 257
        self.vocabulary_size = checks.whole_number("vocabulary_size", vocabulary_size)
        self.sequence_length = checks.whole_number("sequence_length", sequence_length)
        self.embedding_dim = checks.whole_number("embedding_dim", embedding_dim)
        self.tie_weights, self.mask_zero = bool(tie_weights), bool(mask_zero)
        self.embeddings_initializer = embeddings_initializer
        self.token_embedding = keras.layers.ReversibleEmbedding(
            self.vocabulary_size,
            self.embedding_dim,
            tie_weights=self.tie_weights,
            embeddings_initializer=self._initializer(),
            dtype=self.dtype_policy,
            name="token_embedding",
        )
        self.position_embedding = PositionEmbedding(
            self.sequence_length,
            self._initializer(),
            dtype=self.dtype_policy,
            name="position_embedding",
        )

    def _initializer(self):
        """One for each table: the same would draw the same numbers."""
        return arguments.as_config("initializer", self.embeddings_initializer)

    def build(self, input_shape):
        check_shape("inputs", input_shape, "(batch, time)", more=True)
        self.token_embedding.build(input_shape)
        self.position_embedding.build((*input_shape, self.embedding_dim))
        self.built = True

    def call(self, inputs, start_index=0, positions=None, *, mask=None):
        tokens = self.token_embedding(inputs)
        places = {"start_index": start_index, "positions": positions}
        mask = self.compute_mask(inputs, mask)
        return tokens + self.position_embedding(tokens, mask=mask, **places)

    def compute_mask(self, inputs, mask=None):
        if mask is None and self.mask_zero:
            return ops.not_equal(inputs, 0)
        return mask

    def compute_output_shape(self, input_shape):
        return (*input_shape, self.embedding_dim)

    def get_config(self):
        config = {
            "vocabulary_size": self.vocabulary_size,
            "sequence_length": self.sequence_length,
            "embedding_dim": self.embedding_dim,
            "tie_weights": self.tie_weights,
            "embeddings_initializer": self._initializer(),
            "mask_zero": self.mask_zero,
        }
        return {**super().get_config(), **config}


@register
class PositionalEmbedding(TokenAndPositionEmbedding):
    """`TokenAndPositionEmbedding` by the names and the order of Chollet's book.

    Args:
        sequence_length: How many positions there are.
        input_dim: How many tokens there are.
        output_dim: D.
        tie_weights: Whether logits come from the table of the tokens, or from one of
            their own.
        embeddings_initializer: Of all tables.
        mask_zero: Whether token 0 is padding.
        **kwargs: As for any layer.

    Call arguments:
        inputs: Ids `(B, T)`.
        start_index: The position of the first token, as in decoding step by step.
        positions: Whole numbers `(B, T)` or `(T,)` to take instead.
        mask: Boolean `(B, T)`, True where a token is real.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If the sequence is longer than there are positions.

    Examples:
        >>> layer = PositionalEmbedding(sequence_length=7, input_dim=11, output_dim=5)
        >>> keras.ops.shape(layer(np.array([[1, 2, 3]])))
        (1, 3, 5)
    """

    def __init__(
        self,
        sequence_length,
        input_dim,
        output_dim,
        *,
        tie_weights=True,
        embeddings_initializer="uniform",
        mask_zero=False,
        **kwargs,
    ):
        arguments.check(locals())
        self.input_dim = checks.whole_number("input_dim", input_dim)
        self.output_dim = checks.whole_number("output_dim", output_dim)
        super().__init__(
            input_dim,
            sequence_length,
            output_dim,
            tie_weights,
            embeddings_initializer,
            mask_zero,
            **kwargs,
        )

    def get_config(self):
        config = super().get_config()
        config["input_dim"] = config.pop("vocabulary_size")
        config["output_dim"] = config.pop("embedding_dim")
        return config

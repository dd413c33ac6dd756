r"""Token embedding plus position embedding: the first layer of most Transformers.

$$
x_t = E_{w_t} + P_t
$$

As in GPT and BERT; course slides A and D.
"""

from typing import Any

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import Layer, passes_on
from kerasseq.core.serialization import register
from kerasseq.core.shapes import check_real, check_shape
from kerasseq.core.types import Config, Identifier, Initializer, Shape, Tensor
from kerasseq.positions.embedding import PositionEmbedding


@register
class TokenAndPositionEmbedding(Layer):
    """Sum of token embeddings and learned position embeddings.

    Equivalent to `keras_hub.layers.TokenAndPositionEmbedding`, with the same weights.
    `layer.token_embedding(x, reverse=True)` gives the logits of a language model.

    Args:
        vocabulary_size: Number of tokens.
        sequence_length: Number of positions.
        embedding_dim: D.
        tie_weights: Whether the logits use the token embeddings (weight tying), or have
            a matrix of their own.
        embeddings_initializer: Initializer of all embeddings.
        mask_zero: Whether token 0 is padding: later layers get a mask, and positions
            are counted over the other tokens.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Ids `(B, T)`.
        start_index: Position of the first token, for decoding step by step.
        positions: Integers `(B, T)` or `(T,)` to use instead of counting.
        mask: Boolean `(B, T)`, True at real tokens.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If the sequence is longer than `sequence_length`.

    Examples:
        >>> layer = TokenAndPositionEmbedding(11, 7, 5)
        >>> keras.ops.shape(layer(np.array([[1, 2, 3]])))
        (1, 3, 5)
    """

    token_embedding: keras.layers.ReversibleEmbedding
    embeddings_initializer: Initializer

    @passes_on(Layer)
    def __init__(
        self,
        vocabulary_size: int,
        sequence_length: int,
        embedding_dim: int,
        tie_weights: bool = True,
        embeddings_initializer: Identifier = "uniform",
        mask_zero: bool = False,
        **kwargs: Any,
    ) -> None:
        self.autocast = False  # keeps ids given as floats exact: bfloat16 has no 257
        D = checks.size("embedding_dim", embedding_dim)
        self.embedding_dim: int = D
        self.vocabulary_size: int = checks.size("vocabulary_size", vocabulary_size, D)
        self.sequence_length: int = checks.size("sequence_length", sequence_length, D)
        self.tie_weights: bool = checks.flag("tie_weights", tie_weights)
        self.mask_zero: bool = checks.flag("mask_zero", mask_zero)
        self.token_embedding = keras.layers.ReversibleEmbedding(
            self.vocabulary_size,
            self.embedding_dim,
            tie_weights=self.tie_weights,
            embeddings_initializer=self._initializer_config(),
            dtype=self.dtype_policy,
            name="token_embedding",
        )
        self.position_embedding: PositionEmbedding = PositionEmbedding(
            self.sequence_length,
            self._initializer_config(),
            dtype=self.dtype_policy,
            name="position_embedding",
        )

    def _initializer_config(self):
        """Returns a config, as one initializer would draw the same numbers twice."""
        return keras.initializers.serialize(self.embeddings_initializer)

    def build(self, input_shape: Shape) -> None:
        check_shape("inputs", input_shape, "(batch, time)", more=True)
        self.token_embedding.build(input_shape)
        self.position_embedding.build((*input_shape, self.embedding_dim))
        self.built = True

    def call(
        self,
        inputs: Tensor,
        start_index: int | Tensor = 0,
        positions: Tensor | None = None,
        *,
        mask: Tensor | None = None,
    ) -> Tensor:
        check_real("inputs", inputs)
        E = self.token_embedding(inputs)
        mask = self.compute_mask(inputs, mask)
        P = self.position_embedding(
            E, start_index=start_index, positions=positions, mask=mask
        )
        return E + P

    def compute_mask(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor | None:
        if mask is None and self.mask_zero:
            return ops.not_equal(inputs, 0)
        return mask

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape, self.embedding_dim)


@register
class PositionalEmbedding(TokenAndPositionEmbedding):
    """`TokenAndPositionEmbedding` with the argument names of Chollet's book.

    Args:
        sequence_length: Number of positions.
        input_dim: Number of tokens.
        output_dim: D.
        tie_weights: Whether the logits use the token embeddings (weight tying), or have
            a matrix of their own.
        embeddings_initializer: Initializer of all embeddings.
        mask_zero: Whether token 0 is padding.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Ids `(B, T)`.
        start_index: Position of the first token, for decoding step by step.
        positions: Integers `(B, T)` or `(T,)` to use instead of counting.
        mask: Boolean `(B, T)`, True at real tokens.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: If the sequence is longer than `sequence_length`.

    Examples:
        >>> layer = PositionalEmbedding(sequence_length=7, input_dim=11, output_dim=5)
        >>> keras.ops.shape(layer(np.array([[1, 2, 3]])))
        (1, 3, 5)
    """

    def __init__(
        self,
        sequence_length: int,
        input_dim: int,
        output_dim: int,
        *,
        tie_weights: bool = True,
        embeddings_initializer: Identifier = "uniform",
        mask_zero: bool = False,
        **kwargs: Any,
    ) -> None:
        self.output_dim: int = checks.size("output_dim", output_dim)
        self.input_dim: int = checks.size("input_dim", input_dim, self.output_dim)
        super().__init__(
            input_dim,
            sequence_length,
            output_dim,
            tie_weights,
            embeddings_initializer,
            mask_zero,
            **kwargs,
        )

    def get_config(self) -> Config:
        config = super().get_config()
        config["input_dim"] = config.pop("vocabulary_size")
        config["output_dim"] = config.pop("embedding_dim")
        return config

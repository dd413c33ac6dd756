r"""The layers of BERT from ids to vectors, below every head.

$$
x_0 = \mathrm{LayerNorm}(E_w + P + S), \qquad x_l = \mathrm{Block}_l(x_{l-1})
$$

Devlin et al. 2019. Course slides A, C.
"""

import dataclasses
from typing import Any

import keras
from keras import ops

from kerasseq.core.arguments import drawn_seed
from kerasseq.language.bert_heads import initializer
from kerasseq.language.bert_layers import FirstStep
from kerasseq.positions.embedding import PositionEmbedding
from kerasseq.positions.segments import SegmentEmbedding
from kerasseq.transformer.encoder import TransformerEncoder
from kerasseq.transformer.norms import LayerNormalization


@dataclasses.dataclass
class Trunk:
    """What a head stands on.

    Attributes:
        sequence: The vectors of the tokens, `(B, T, D)`.
        real: Boolean `(B, T)`, False at padding.
        embedding: The layer that knows the vectors of all tokens.
        dropout: Fraction dropped in training.
        positions: Where tokens are asked for, `(B, P)`, or None.
        activation: Name of the activation.
        epsilon: Of the norms.
    """

    sequence: Any
    real: Any
    embedding: Any
    dropout: float
    positions: Any = None
    activation: str = "gelu"
    epsilon: float = 1e-12

    def pooled(self):
        """One vector for all, `(B, D)`."""
        first = FirstStep(name="first")(self.sequence, self.real)
        return keras.layers.Dense(
            first.shape[-1],
            activation="tanh",
            kernel_initializer=initializer(),
            name="pooler",
        )(first)

    def drop(self, name):
        """A layer of dropout."""
        return keras.layers.Dropout(
            self.dropout, seed=drawn_seed(self.dropout), name=name
        )


def build(
    inputs,
    size,
    padding,
    *,
    num_layers,
    num_heads,
    hidden_dim,
    intermediate_dim,
    max_sequence_length,
    num_segments,
    dropout,
    activation,
    layer_norm_epsilon,
) -> Trunk:
    """From ids and segments to the vectors of the tokens."""
    options = {"embeddings_initializer": initializer(), "name": "embedding"}
    embedding = keras.layers.ReversibleEmbedding(size, hidden_dim, **options)
    position = PositionEmbedding(
        max_sequence_length, initializer(), name="position_embedding"
    )
    segment = SegmentEmbedding(
        num_segments, initializer=initializer(), name="segment_embedding"
    )
    real = ops.not_equal(inputs["ids"], padding)
    x = embedding(inputs["ids"])
    x = x + position(x, mask=real) + segment(x, inputs["segments"])
    x = LayerNormalization(epsilon=layer_norm_epsilon, name="embedding_norm")(x)
    x = keras.layers.Dropout(dropout, seed=drawn_seed(dropout), name="dropout")(x)
    for n in range(num_layers):
        x = TransformerEncoder(
            intermediate_dim,
            num_heads,
            dropout,
            feed_forward=activation,
            layer_norm_epsilon=layer_norm_epsilon,
            kernel_initializer=initializer(),
            name=f"block_{n}",
        )(x, padding_mask=real)
    return Trunk(
        sequence=x,
        real=real,
        embedding=embedding,
        dropout=dropout,
        positions=inputs.get("positions"),
        activation=activation,
        epsilon=layer_norm_epsilon,
    )

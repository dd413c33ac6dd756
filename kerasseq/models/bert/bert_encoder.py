"""The layers between the ids of a BERT and its head."""

import keras
from keras import ops

from kerasseq.core.arguments import drawn_seed
from kerasseq.core.types import Config, Tensor
from kerasseq.models.bert.bert_heads import Features, initializer
from kerasseq.positions.embedding import PositionEmbedding
from kerasseq.positions.segments import SegmentEmbedding
from kerasseq.transformer.encoder import TransformerEncoder
from kerasseq.transformer.global_tokens import GlobalTokens, most
from kerasseq.transformer.norms import LayerNormalization


def hidden_states(
    inputs: dict[str, Tensor], size: int, padding: int, arguments: Config
) -> Features:
    """Returns the hidden states of tokens.

    Args:
        inputs: "ids" and "segments", `(B, T)`, and of some heads "positions".
        size: Number of ids.
        padding: The id of padding.
        arguments: Those of the `BERT`.
    """
    a = arguments
    dropout, epsilon = a["dropout"], a["layer_norm_epsilon"]
    longest = a["max_sequence_length"]
    options = {"embeddings_initializer": initializer(), "name": "embedding"}
    embedding = keras.layers.ReversibleEmbedding(size, a["hidden_dim"], **options)
    position = PositionEmbedding(longest, initializer(), name="position_embedding")
    segment = SegmentEmbedding(
        a["num_segments"], initializer=initializer(), name="segment_embedding"
    )
    ids = inputs["ids"]
    real = ops.not_equal(ids, padding)
    embedded = x = embedding(ids)
    x = x + position(x, mask=real) + segment(x, inputs["segments"])
    x = LayerNormalization(epsilon=epsilon, name="embedding_norm")(x)
    x = keras.layers.Dropout(dropout, seed=drawn_seed(dropout), name="dropout")(x)
    tokens, chosen = a["global_tokens"], {}
    if tokens is not None:
        found = GlobalTokens(tokens, name="global_tokens")(real, ids)
        chosen["global_mask"] = found
    for n in range(a["num_layers"]):
        x = TransformerEncoder(
            a["intermediate_dim"] or 4 * a["hidden_dim"],
            a["num_heads"],
            dropout,
            feed_forward=a["activation"],
            layer_norm_epsilon=epsilon,
            kernel_initializer=initializer(),
            name=f"block_{n}",
            attention=a["attention"],
            sliding_window=a["sliding_window"],
            max_length=longest,
            max_global_tokens=most(tokens, longest),
        )(x, padding_mask=real, **chosen)
    return Features(
        sequence=x,
        real=real,
        embedding=embedding,
        embedded=embedded,
        dropout=dropout,
        positions=inputs.get("positions"),
        activation=a["activation"],
        epsilon=epsilon,
    )

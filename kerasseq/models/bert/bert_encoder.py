"""The layers between the ids of a BERT and its head."""

from typing import Any

import keras
from keras import ops

from kerasseq.attention.projections import check_input_biases
from kerasseq.core import checks
from kerasseq.core.arguments import drawn_seed
from kerasseq.core.types import Config, Tensor
from kerasseq.models.bert.bert_heads import Features, initializer
from kerasseq.positions.base import AttentionPosition, check_position
from kerasseq.positions.disentangled import DisentangledPosition
from kerasseq.positions.embedding import PositionEmbedding
from kerasseq.positions.segments import SegmentEmbedding
from kerasseq.transformer.encoder import TransformerEncoder
from kerasseq.transformer.global_tokens import GlobalTokens, most
from kerasseq.transformer.norms import LayerNormalization


def check_positions(
    position: Any,
    embed_positions: bool,
    use_query_key_value_bias: bool | str,
    convolution_size: int | None,
    hidden_dim: int,
) -> Config:
    """Checks the arguments of a `BERT` by which a DeBERTa differs; returns them."""
    check_input_biases(use_query_key_value_bias)
    if convolution_size is not None:
        checks.size("convolution_size", convolution_size, hidden_dim**2)
    return {
        "position": own_position(position),
        "embed_positions": checks.flag("embed_positions", embed_positions),
        "use_query_key_value_bias": use_query_key_value_bias,
        "convolution_size": convolution_size,
    }


def own_position(position: Any) -> AttentionPosition | None:
    """Checks a position encoding; returns a copy of one with a table for all blocks."""
    position = check_position(position)
    if not isinstance(position, DisentangledPosition):
        return position
    copy = DisentangledPosition.from_config(position.get_config())
    return copy.for_layer()  # has a table, also where none was given


def positions_of_blocks(arguments: Config) -> list[AttentionPosition | None]:
    """Returns the position encoding in each block; several share a table."""
    position, count = arguments["position"], arguments["num_layers"]
    if not isinstance(position, DisentangledPosition):
        return [position] * count
    positions = [position.for_layer(name="position") for _ in range(count)]
    if not position.table.built:
        position.table.build((None, None, arguments["hidden_dim"]))
    return positions


def convolve(first: Tensor, x: Tensor, real: Tensor, arguments: Config) -> Tensor:
    """Adds a convolution over the embeddings to the output of the first block.

    Args:
        first: The embeddings, `(B, T, D)`.
        x: The output, `(B, T, D)`.
        real: True at real tokens, `(B, T)`.
        arguments: Those of the `BERT`.
    """
    a = arguments
    is_real = ops.cast(real, x.dtype)[..., None]
    y = keras.layers.Conv1D(
        a["hidden_dim"],
        a["convolution_size"],
        padding="same",
        kernel_initializer=initializer(),
        name="convolution",
    )(first * is_real)
    dropout = {"seed": drawn_seed(a["dropout"]), "name": "convolution_dropout"}
    y = keras.layers.Dropout(a["dropout"], **dropout)(y * is_real)
    y = keras.activations.gelu(y, approximate=a["activation"] == "gelu_tanh")
    epsilon = a["layer_norm_epsilon"]
    return LayerNormalization(epsilon=epsilon, name="convolution_norm")(x + y)


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
    ids = inputs["ids"]
    real = ops.not_equal(ids, padding)
    embedded = x = embedding(ids)
    if a["embed_positions"]:
        position = PositionEmbedding(longest, initializer(), name="position_embedding")
        x = x + position(embedded, mask=real)
    if a["num_segments"]:
        segment = SegmentEmbedding(
            a["num_segments"], initializer=initializer(), name="segment_embedding"
        )
        x = x + segment(embedded, inputs["segments"])
    x = LayerNormalization(epsilon=epsilon, name="embedding_norm")(x)
    x = keras.layers.Dropout(dropout, seed=drawn_seed(dropout), name="dropout")(x)
    tokens, chosen = a["global_tokens"], {}
    if tokens is not None:
        global_mask = GlobalTokens(tokens, name="global_tokens")(real, ids)
        chosen["global_mask"] = global_mask
    positions = positions_of_blocks(a)
    first = x
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
            position=positions[n],
            use_query_key_value_bias=a["use_query_key_value_bias"],
        )(x, padding_mask=real, **chosen)
        if n == 0 and a["convolution_size"]:
            x = convolve(first, x, real, a)
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

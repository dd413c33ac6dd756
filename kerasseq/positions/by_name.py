"""Position encodings by name, as the models' argument `position` takes them."""

from typing import Any

from kerasseq.positions.alibi import AlibiBias
from kerasseq.positions.base import AttentionPosition, PositionEncoding
from kerasseq.positions.embedding import PositionEmbedding
from kerasseq.positions.relative import RelativePositionBias
from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.positions.sine import SinePositionEncoding
from kerasseq.positions.transformer_xl import TransformerXLBiases, TransformerXLPosition

EMBEDDING_POSITIONS = ("learned", "sinusoidal")  # added to the token embeddings
ATTENTION_POSITIONS = ("rope", "alibi", "relative")  # applied inside the attention
POSITIONS = (*EMBEDDING_POSITIONS, *ATTENTION_POSITIONS, None)
DECODER_POSITIONS = (
    *EMBEDDING_POSITIONS,
    *ATTENTION_POSITIONS,
    "transformer_xl",
    None,
)


def make_embedding_position(
    position: str | AttentionPosition | None,
    length: int | None,
    name: str = "position",
    **options: Any,
) -> PositionEncoding | None:
    """Creates the layer whose encoding is added to the token embeddings, or None.

    Args:
        position: A name, an object, or None.
        length: Number of learned positions.
        name: First word of the layer's name.
        **options: Arguments of `PositionEmbedding`, such as `initializer`.

    Examples:
        >>> make_embedding_position("learned", 7).sequence_length
        7
    """
    if position == "learned":
        return PositionEmbedding(length, name=f"{name}_embedding", **options)
    if position == "sinusoidal":
        return SinePositionEncoding(name=f"{name}_encoding")
    return None


def make_attention_position(
    position: str | AttentionPosition | None, causal: bool = True
) -> AttentionPosition | None:
    """Creates the position encoding inside the attention, or None.

    Args:
        position: A name; an object or None is returned as it is.
        causal: Whether the attention is causal.

    Examples:
        >>> make_attention_position("relative", causal=False).bidirectional
        True
    """
    if position == "rope":
        return RotaryEmbedding()
    if position == "alibi":
        return AlibiBias()
    if position == "relative":
        return RelativePositionBias(bidirectional=not causal)
    return None if isinstance(position, str) else position


def make_decoder_positions(
    position: str | AttentionPosition | None, num_layers: int, hidden_dim: int
) -> list[AttentionPosition | None]:
    """Creates the position encodings inside the attentions of a decoder, a list.

    All layers share one, as in T5. With "transformer_xl" each layer has its own, and
    they share the biases u and v.

    Args:
        position: A name, an object, or None.
        num_layers: Number of layers.
        hidden_dim: D, the width of their inputs.

    Examples:
        >>> first, second = make_decoder_positions("transformer_xl", 2, 12)
        >>> first is second, first.biases is second.biases, first.code_dim
        (False, True, 12)
    """
    if position != "transformer_xl":
        return [make_attention_position(position)] * num_layers
    biases = TransformerXLBiases()
    return [TransformerXLPosition(hidden_dim, biases) for _ in range(num_layers)]

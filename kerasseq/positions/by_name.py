"""Positions by name: a code that is added to the tokens, or an object of attention."""

from kerasseq.positions.alibi import AlibiBias
from kerasseq.positions.embedding import PositionEmbedding
from kerasseq.positions.relative import RelativePositionBias
from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.positions.sine import SinePositionEncoding
from kerasseq.positions.transformer_xl import TransformerXLBiases, TransformerXLPosition

ADDED = ("learned", "sinusoidal")
INSIDE = ("rope", "alibi", "relative")
POSITIONS = (*ADDED, *INSIDE, None)
OF_DECODERS = (*ADDED, *INSIDE, "transformer_xl", None)


def added_position(position, length, name="position", **options):
    """The layer whose code is added to the vectors of tokens, or None.

    Args:
        position: A name, an object, or None.
        length: How many positions have a learned code.
        name: The first word of the layer's name.
        **options: Of a learned code, such as its `initializer`.

    Examples:
        >>> added_position("learned", 7).sequence_length
        7
    """
    if position == "learned":
        return PositionEmbedding(length, name=f"{name}_embedding", **options)
    if position == "sinusoidal":
        return SinePositionEncoding(name=f"{name}_encoding")
    return None


def inner_position(position, causal=True):
    """The position object of the attentions, or None; an object as it is.

    Examples:
        >>> inner_position("relative", causal=False).bidirectional
        True
    """
    if not isinstance(position, str):
        return position
    return {
        "rope": RotaryEmbedding,
        "alibi": AlibiBias,
        "relative": lambda: RelativePositionBias(bidirectional=not causal),
    }.get(position, lambda: None)()


def of_layers(position, number, width):
    """The position objects of the layers of a decoder, a list.

    All have one, as in T5, but of "transformer_xl" each has its own, which shares two
    vectors of each head with the others.

    Args:
        position: A name, an object, or None.
        number: How many layers there are.
        width: D, of their inputs.

    Examples:
        >>> one, other = of_layers("transformer_xl", 2, 12)
        >>> one is other, one.biases is other.biases, one.code_dim
        (False, True, 12)
    """
    if position != "transformer_xl":
        return [inner_position(position)] * number
    biases = TransformerXLBiases()
    return [TransformerXLPosition(width, biases) for _ in range(number)]

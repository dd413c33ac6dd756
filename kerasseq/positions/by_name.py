"""Positions by name: a code that is added to the tokens, or an object of attention."""

from kerasseq.positions.alibi import AlibiBias
from kerasseq.positions.embedding import PositionEmbedding
from kerasseq.positions.relative import RelativePositionBias
from kerasseq.positions.rotary import RotaryEmbedding
from kerasseq.positions.sine import SinePositionEncoding

ADDED = ("learned", "sinusoidal")
INSIDE = ("rope", "alibi", "relative")
POSITIONS = (*ADDED, *INSIDE, None)


def added_position(position, length, name="position"):
    """The layer whose code is added to the vectors of tokens, or None.

    Examples:
        >>> added_position("learned", 7).sequence_length
        7
    """
    if position == "learned":
        return PositionEmbedding(length, name=f"{name}_embedding")
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

r"""The simplest encoding: the position itself, as an amplitude.

$$
PE(p) = a\, (p, p, \dots, p)^T
$$

All features are equal, and for late positions they are much larger than the token
embedding. Course slides A discuss it and reject it.
"""

from typing import Any

from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor
from kerasseq.positions.base import PositionEncoding


@register
class AmplitudePosition(PositionEncoding):
    """Position encoding that grows linearly with the position, to compare with.

    Args:
        scale: a, the increase from one position to the next.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(B, T, D)`. Only the shape is used.
        start_index: Position of the first token.
        positions: Integers `(B, T)` or `(T,)` to use instead of counting.
        mask: Boolean `(B, T)`, set by Keras. Positions are counted over real tokens.

    Returns:
        The encoding `(B, T, D)`, to be added to the inputs.

    Examples:
        >>> encoding = AmplitudePosition()(np.zeros((1, 3, 2)))
        >>> keras.ops.convert_to_numpy(encoding)[0].tolist()
        [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    """

    @passes_on(PositionEncoding)
    def __init__(self, scale: float = 1.0, **kwargs: Any) -> None:
        self.scale: float = float(checks.finite("scale", scale))
        self.built = True

    def encode(self, p: Tensor, D: int) -> Tensor:
        a = self.scale
        return ops.repeat(a * ops.cast(p, "float32")[..., None], D, axis=-1)

r"""The binary digits of the position as features.

$$
p = \sum_{i=1}^{D} 2^{D-i}\, PE(p)_i, \qquad PE(p)_i \in \{0, 1\}
$$

The features are bounded but not smooth: from position 7 to 8 the last four change, from
8 to 9 one. Course slides A discuss it and reject it.
"""

from typing import Any

import numpy as np
from keras import ops

from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor
from kerasseq.positions.base import PositionEncoding


@register
class BinaryPosition(PositionEncoding):
    """Encodes a position by its binary digits, the highest first, to compare with.

    Args:
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(B, T, D)`. Only the shape is used.
        start_index: Position of the first token.
        positions: Integers `(B, T)` or `(T,)` to use instead of counting.
        mask: Boolean `(B, T)`, set by Keras. Positions are counted over real tokens.

    Returns:
        The encoding `(B, T, D)`, to be added to the inputs.

    Raises:
        ValueError: If the sequence is longer than the 2 ** D positions of D digits.

    Examples:
        >>> encoding = BinaryPosition()(np.zeros((1, 4, 4)))
        >>> keras.ops.convert_to_numpy(encoding)[0, 3].tolist()
        [0.0, 0.0, 1.0, 1.0]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.built = True

    def encode(self, p: Tensor, D: int) -> Tensor:
        # int32 has no digits above the 31st.
        digits = np.minimum(np.arange(D - 1, -1, -1, dtype="int32"), 31)
        return ops.right_shift(ops.cast(p, "int32")[..., None], digits) % 2

    def max_positions(self, D: int) -> tuple[int, str]:
        return 2**D, f"as its width is {D}"

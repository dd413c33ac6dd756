r"""The second idea: the binary digits of the position.

$$
p = \sum_{i=1}^{D} 2^{D-i}\, PE(p)_i, \qquad PE(p)_i \in \{0, 1\}
$$

Its numbers stay small, but they jump: from 7 to 8 all of the last four change, from 8
to 9 one. Course slides A, which turn it down.
"""

import numpy as np
from keras import ops

from kerasseq.core.serialization import register
from kerasseq.positions.code import PositionCode


@register
class BinaryPosition(PositionCode):
    """The digits of the position, the highest first; to be seen failing.

    Args:
        **kwargs: As for any layer.

    Call arguments:
        inputs: `(B, T, D)`: the code has their shape, and nothing else of them.
        start_index: The position of the first token.
        positions: Whole numbers `(B, T)` or `(T,)` to take instead.
        mask: Boolean `(B, T)`, filled in by Keras: positions are counted over what is
            real.

    Returns:
        The code, `(B, T, D)`, to be added to the inputs.

    Raises:
        ValueError: If the sequence is longer than the 2 ** D positions that D digits
            tell apart.

    Examples:
        >>> code = BinaryPosition()(np.zeros((1, 4, 4)))
        >>> keras.ops.convert_to_numpy(code)[0, 3].tolist()
        [0.0, 0.0, 1.0, 1.0]
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.built = True

    def code(self, p, D):
        # int32 has no digits above the 31st.
        places = np.minimum(np.arange(D - 1, -1, -1, dtype="int32"), 31)
        return ops.right_shift(ops.cast(p, "int32")[..., None], places) % 2

    def limit(self, D):
        return 2**D, f"as its width is {D}"

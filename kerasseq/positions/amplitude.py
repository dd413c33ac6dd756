r"""The first idea: the position itself, as how large the code is.

$$
PE(p) = a\, (p, p, \dots, p)^T
$$

All its numbers say the same, and far from the start they drown the token. Course
slides A, which turn it down.
"""

from keras import ops

from kerasseq.core import arguments
from kerasseq.core.serialization import register
from kerasseq.positions.code import PositionCode


@register
class AmplitudePosition(PositionCode):
    """A code that grows with the position; to be seen failing.

    Args:
        scale: a, by how much it grows with each position.
        **kwargs: As for any layer.

    Call arguments:
        inputs: `(B, T, D)`: the code has their shape, and nothing else of them.
        start_index: The position of the first token.
        positions: Whole numbers `(B, T)` or `(T,)` to take instead.
        mask: Boolean `(B, T)`, filled in by Keras: positions are counted over what is
            real.

    Returns:
        The code, `(B, T, D)`, to be added to the inputs.

    Examples:
        >>> code = AmplitudePosition()(np.zeros((1, 3, 2)))
        >>> keras.ops.convert_to_numpy(code)[0].tolist()
        [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    """

    def __init__(self, scale=1.0, **kwargs):
        arguments.check(locals())
        super().__init__(**kwargs)
        self.scale = float(scale)
        self.built = True

    def code(self, p, D):
        a = self.scale
        return ops.repeat(a * ops.cast(p, "float32")[..., None], D, axis=-1)

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}

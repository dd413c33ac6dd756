r"""Sines and cosines of many wavelengths, which need not be learned.

$$
PE(p, 2i) = \sin(\omega_i p), \qquad PE(p, 2i+1) = \cos(\omega_i p), \qquad
\omega_i = \lambda^{-2i/D}
$$

$PE(p) \cdot PE(p + k)$ depends on k alone: a step of k is the same rotation everywhere.
Vaswani et al. 2017; course slides A, and C with the cosine first.
"""

from keras import ops

from kerasseq.core import arguments
from kerasseq.core.serialization import register
from kerasseq.positions.code import PositionCode
from kerasseq.positions.frequencies import angles, check_wavelength, frequencies


@register
class SinePositionEncoding(PositionCode):
    """Sine and cosine in turns, as `keras_hub.layers.SinePositionEncoding` has them.

    It returns the code and does not add it. Angles are float32 in mixed precision, too.

    Args:
        max_wavelength: λ: the slowest wave takes nearly 2πλ positions.
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
        ValueError: If the wavelength is not above 0.

    Examples:
        >>> code = SinePositionEncoding()(np.zeros((1, 2, 4)))
        >>> print(keras.ops.convert_to_numpy(code)[0].round(2))
        [[0.   1.   0.   1.  ]
         [0.84 0.54 0.01 1.  ]]
    """

    def __init__(self, max_wavelength=10000, **kwargs):
        arguments.check(locals())
        super().__init__(**kwargs)
        self.max_wavelength = check_wavelength(max_wavelength)
        self.built = True

    def code(self, p, D):
        at = angles(p, frequencies(D, self.max_wavelength))  # (B, T, D / 2)
        pairs = ops.stack([ops.sin(at), ops.cos(at)], -1)
        code = ops.reshape(pairs, (*ops.shape(at)[:-1], 2 * at.shape[-1]))
        return code[..., :D]  # of an odd width: the last sine has no cosine

    def get_config(self):
        return {**super().get_config(), "max_wavelength": self.max_wavelength}

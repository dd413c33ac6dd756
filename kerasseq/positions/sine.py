r"""Sinusoidal position encoding: sines and cosines of many wavelengths, not learned.

$$
PE(p, 2i) = \sin(\omega_i p), \qquad PE(p, 2i+1) = \cos(\omega_i p), \qquad
\omega_i = \lambda^{-2i/D}
$$

$PE(p) \cdot PE(p + k)$ depends on k only: a shift by k is the same rotation at every
position. Vaswani et al. 2017; course slides A, and C with the cosine first.
"""

from typing import Any

from keras import ops

from kerasseq.core import checks
from kerasseq.core.constructors import passes_on
from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor
from kerasseq.positions.base import PositionEncoding
from kerasseq.positions.frequencies import angles, frequencies


@register
class SinePositionEncoding(PositionEncoding):
    """Sinusoidal position encoding, with sine and cosine in alternating features.

    Equivalent to `keras_hub.layers.SinePositionEncoding`: it returns the encoding and
    does not add it. Angles are computed in float32 in mixed precision as well.

    Args:
        max_wavelength: λ. The longest wavelength is nearly 2πλ positions.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(B, T, D)`. Only the shape is used.
        start_index: Position of the first token.
        positions: Integers `(B, T)` or `(T,)` to use instead of counting.
        mask: Boolean `(B, T)`, set by Keras. Positions are counted over real tokens.

    Returns:
        The encoding `(B, T, D)`, to be added to the inputs.

    Raises:
        ValueError: If `max_wavelength` is not positive.

    Examples:
        >>> encoding = SinePositionEncoding()(np.zeros((1, 2, 4)))
        >>> print(keras.ops.convert_to_numpy(encoding)[0].round(2))
        [[0.   1.   0.   1.  ]
         [0.84 0.54 0.01 1.  ]]
    """

    @passes_on(PositionEncoding)
    def __init__(self, max_wavelength: float = 10000, **kwargs: Any) -> None:
        self.max_wavelength: float = checks.positive("max_wavelength", max_wavelength)
        self.built = True

    def encode(self, p: Tensor, D: int) -> Tensor:
        theta = angles(p, frequencies(D, self.max_wavelength))  # (B, T, D / 2)
        pairs = ops.stack([ops.sin(theta), ops.cos(theta)], -1)
        shape = (*ops.shape(theta)[:-1], 2 * theta.shape[-1])
        return ops.reshape(pairs, shape)[..., :D]  # an odd D has no last cosine

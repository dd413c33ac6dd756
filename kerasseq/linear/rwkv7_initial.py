"""Initial values and default sizes of RWKV-7, as in the code of its authors.

The kernels are left to `kernel_initializer`: with the zeros of that code, half of the
weights would have no gradient in the first step.
"""

from collections.abc import Callable

import numpy as np
from keras import ops

from kerasseq.core.types import DType, Shape, Tensor

MIX_POWERS = {  # of the channel's index, in the mixes of the first block
    "receptance": 0.2,
    "decay": 0.9,
    "key": 0.7,
    "value": 0.7,
    "rate": 0.9,
    "gate": 0.2,
}


def ranks(width: int) -> dict[str, int]:
    """Returns the widths between the matrices of low rank, by the model's width.

    Examples:
        >>> ranks(768)
        {'decay': 64, 'rate': 64, 'value': 32, 'gate': 128}
        >>> ranks(2560)
        {'decay': 96, 'rate': 96, 'value': 64, 'gate': 320}
    """
    root = width**0.5
    sizes = {
        "decay": 1.8 * root,
        "rate": 1.8 * root,
        "value": 1.3 * root,
        "gate": 0.6 * width**0.8,
    }
    return {name: max(32, 32 * round(size / 32)) for name, size in sizes.items()}


def biases(
    num_heads: int, key_dim: int, start: float
) -> dict[str, Callable[[Shape, DType], Tensor]]:
    """Returns the initializers of the biases of decay, rate and value.

    Args:
        num_heads: N.
        key_dim: K.
        start: Place of the block in the stack, from 0 to 1.

    Examples:
        >>> b = keras.ops.convert_to_numpy(biases(2, 3, 0.0)["decay"]((6,), "float32"))
        >>> print(np.round(b, 1))
        [-8.  -4.3 -0.6 -4.4 -0.7  3. ]
    """
    A = num_heads * key_dim
    place = np.arange(A) / max(A - 1, 1)  # of a channel, from 0 to 1
    zigzag = np.tile(np.linspace(-1, 1, key_dim), num_heads)  # of one in its head
    zigzag = zigzag * np.abs(zigzag) if key_dim > 1 else 0 * zigzag
    values = {
        "decay": 6 * place ** (1 + start**0.3) - 5.5 + 2.5 * zigzag,
        "rate": 0.3 * zigzag + 0.4 * (place - 0.5) - 0.19,
        "value": 0.73 - 0.4 * (place - 0.5),
    }
    return {name: _fixed(value) for name, value in values.items()}


def _fixed(values):
    """Returns an initializer with these values."""

    def initial(shape: Shape, dtype: DType | None = None) -> Tensor:
        return ops.convert_to_tensor(values, dtype or "float32")

    return initial

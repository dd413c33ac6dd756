"""Activations whose derivative can be computed from their output, by name."""

from collections.abc import Callable

import keras
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.reference.precision import precise

# Each gives φ'(x) from y = φ(x).
_SLOPES = {
    "tanh": lambda y: 1 - y * y,
    "sigmoid": lambda y: y * (1 - y),
    "relu": lambda y: ops.cast(y > 0, y.dtype),
    "linear": ops.ones_like,
    "softsign": lambda y: (1 - ops.abs(y)) ** 2,
    "softplus": lambda y: 1 - ops.exp(-y),
    "exponential": lambda y: y,
    "elu": lambda y: ops.where(y > 0, ops.ones_like(y), y + 1),
    "hard_sigmoid": lambda y: ops.cast((y > 0) & (y < 1), y.dtype) / 6,
    "hard_tanh": lambda y: ops.cast(ops.abs(y) < 1, y.dtype),
    "relu6": lambda y: ops.cast((y > 0) & (y < 6), y.dtype),
}


def name_of(activation: Callable[[Tensor], Tensor]) -> str | None:
    """Returns the name of an activation whose derivative is known, else None.

    Examples:
        >>> name_of(keras.activations.tanh)
        'tanh'
        >>> name_of(keras.activations.gelu) is None
        True
    """
    names = (n for n in _SLOPES if getattr(keras.activations, n) is activation)
    return next(names, None)


def apply(name: str, x: Tensor) -> Tensor:
    r"""$y = \phi(x)$."""
    return precise(getattr(keras.activations, name))(x)


def slope(name: str, y: Tensor) -> Tensor:
    r"""$\phi'(x)$, from $y = \phi(x)$."""
    return _SLOPES[name](y)

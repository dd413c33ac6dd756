"""Two operations that Keras computes in float32 where float64 is asked for.

`keras.ops.matmul` on PyTorch and `keras.ops.tanh` on JAX compute float64 in float32,
since Keras takes 64 bits to be switched off there.
"""

from collections.abc import Callable

import keras
from keras import ops

from kerasseq.core.types import Tensor


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Computes `keras.ops.matmul`, in the dtype of the arguments.

    Examples:
        >>> product = matmul(np.ones((2, 5), "float32"), np.ones((5, 3), "float32"))
        >>> keras.ops.shape(product)
        (2, 3)
    """
    if is_float64(x):
        return x @ ops.convert_to_tensor(y)
    if len(x.shape) > 2 and len(y.shape) == 2:
        # Keras' own product of such shapes on TensorFlow transposes by values that XLA
        # does not know in the gradient of a loop.
        rows = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), y)
        return ops.reshape(rows, (*ops.shape(x)[:-1], y.shape[-1]))
    return ops.matmul(x, y)


def precise(activation: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Returns the activation, computed in the dtype of its argument.

    Examples:
        >>> precise(keras.activations.relu) is keras.activations.relu
        True
        >>> float(precise(keras.activations.tanh)(np.float32(0)))
        0.0
    """
    return tanh if activation is keras.activations.tanh else activation


def tanh(x: Tensor) -> Tensor:
    """Computes `keras.ops.tanh`; in float64 from the sigmoid."""
    return 2 * ops.sigmoid(2 * x) - 1 if is_float64(x) else ops.tanh(x)


def is_float64(x: Tensor) -> bool:
    """Whether `x` is of dtype float64."""
    return keras.backend.standardize_dtype(x.dtype) == "float64"

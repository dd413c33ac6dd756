"""Convolution over time of each channel by itself."""

import keras
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.operations import backend_module


def depthwise_convolution(x: Tensor, kernel: Tensor) -> Tensor:
    r"""Computes $y_{t,d} = \sum_j x_{t+j,d}\, w_{j,d}$ for each channel d.

    On a CPU with 31 taps, XLA's depthwise convolution takes 5 to 20 times as long as a
    sum over the taps, which XLA fuses; without XLA, the convolutions of TensorFlow and
    PyTorch are 2 to 20 times as fast as that sum.

    Args:
        x: `(B, T + k - 1, D)`.
        kernel: w, `(k, D)`.

    Returns:
        `(B, T, D)`.

    Examples:
        >>> x = keras.ops.reshape(keras.ops.arange(5, dtype="float32"), (1, 5, 1))
        >>> y = depthwise_convolution(x, keras.ops.array([[1.0], [0.0], [-1.0]]))
        >>> keras.ops.convert_to_numpy(y)[0, :, 0].tolist()
        [-2.0, -2.0, -2.0]
    """
    no_rows = 0 in x.shape  # for which TensorFlow returns another shape
    if not (no_rows or _compiles_with_xla()):
        return ops.depthwise_conv(x, kernel[:, :, None], padding="valid")
    last = kernel.shape[0] - 1
    return sum(x[:, j : (j - last) or None] * kernel[j] for j in range(last + 1))


def _compiles_with_xla():
    if keras.backend.backend() == "tensorflow":
        return backend_module("private").for_xla()
    return keras.backend.backend() == "jax"

"""The recurrences of cuDNN and its layout of weights, the same on every backend.

cuDNN has the LSTM without peepholes, the GRU that resets after the product and the
Elman network, and projects the inputs itself. The gate order of its GRU differs from
Keras'; each matrix is transposed, and there are two biases. On PyTorch,
`torch/native.py` chooses its kernels.
"""

from typing import TYPE_CHECKING, NoReturn

import keras
from keras import ops

if TYPE_CHECKING:  # its module imports those of the backends, which import this one
    from kerasseq.kernels.recurrence import Native

from kerasseq.core.types import Tensor

BUILT_FOR = {  # the equations that each backend passes to cuDNN
    "jax": ("lstm",),
    "tensorflow": ("gru", "lstm"),
    "torch": ("rnn_tanh", "rnn_relu", "gru", "lstm"),
}


def refuse(reason: str) -> NoReturn:
    """Raises the error of `use_cudnn=True` where cuDNN cannot run the recurrence."""
    raise ValueError(
        f"`use_cudnn=True` needs a recurrence that cuDNN can run: {reason}. "
        'Use "auto", which runs anywhere'
    )


def why_no_cudnn(name: str, x: Tensor) -> str | None:
    """Returns why cuDNN cannot run it on TensorFlow or JAX; None if it can."""
    if name not in BUILT_FOR[keras.backend.backend()]:
        return "the kernel does not have this equation"
    if x.dtype != "float32":
        return f"inputs are of {x.dtype}, not float32"
    return None


def is_best(name: str, x: Tensor, use_cudnn: bool | str) -> bool:
    """Returns False: on TensorFlow and JAX, XLA compiles the derived loop.

    It cannot compile cuDNN's operation on TensorFlow.
    """
    return False


def flat_weights(name: str, native: "Native") -> Tensor:
    """Returns all weights as one vector: of inputs, of states, and both biases."""
    W, U = native.kernel, native.recurrent_kernel
    zeros = ops.zeros_like(U[0])
    biases = native.bias, native.recurrent_bias
    b_x, b_h = (zeros if b is None else b for b in biases)
    if name == "gru":
        W, U, b_x, b_h = (reset_first(w) for w in (W, U, b_x, b_h))
    parts = [ops.transpose(W), ops.transpose(U), b_x, b_h]
    return ops.concatenate([ops.reshape(part, (-1,)) for part in parts])


def reset_first(w: Tensor) -> Tensor:
    """Reorders the gates z, r, h of a GRU to r, z, h, along the last axis."""
    z, r, h = ops.split(w, 3, axis=-1)
    return ops.concatenate([r, z, h], axis=-1)

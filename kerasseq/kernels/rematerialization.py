"""Computes a part of a model again in the backward pass, instead of keeping it.

`tensorflow/rematerialization.py`, `jax/rematerialization.py` and
`torch/rematerialization.py` implement `rematerialized`.

Chen et al. 2016 (arXiv 1604.06174).
"""

from collections.abc import Callable

from kerasseq.core.types import Tensor
from kerasseq.kernels.operations import backend_module

FULL, ACTIVATIONS = "full", "activations"
MODES = (FULL, ACTIVATIONS)
Parts = tuple[list[Tensor], list[Tensor]]
Function = Callable[[list[Tensor], list[Tensor]], Parts]


def rematerialized(function: Function, mode: str) -> Function:
    """Returns a function of which the backward pass keeps less.

    Args:
        function: Function of two lists of tensors, the inputs and floating weights,
            that returns two lists: floating tensors, and tensors without a gradient. It
            has no side effects, and computes the same when it is called again. Other
            tensors that it reads get no gradient; in a loop it reads none of a step.
        mode: "full": the arguments alone are kept. "activations": the products of a
            matrix without batch axes, as a kernel, with its inputs are kept as well; on
            TensorFlow those of `kernels.matmul`.

    Examples:
        >>> import keras, numpy as np
        >>> def squares(inputs, weights):
        ...     return [keras.ops.sum(inputs[0] ** 2 * weights[0])], []
        >>> x = keras.ops.convert_to_tensor(np.ones(3, "float32"))
        >>> (total,), _ = rematerialized(squares, "full")([x], [x])
        >>> float(total)
        3.0
    """
    return backend_module("rematerialization").rematerialized(function, mode)

"""The recurrences of cuDNN and its layout of weights, the same on every backend.

cuDNN has the LSTM without peepholes, the GRU that resets after the product and the
Elman network, and projects the inputs itself. The gate order of its GRU differs from
Keras'; each matrix is transposed, and there are two biases.
"""

from typing import TYPE_CHECKING, NoReturn

from keras import ops

if TYPE_CHECKING:  # its module imports those of the backends, which import this one
    from kerasseq.kernels.recurrence import Recurrence

from kerasseq.core.types import Tensor

BUILT_FOR = {  # the equations that each backend passes to cuDNN
    "jax": ("lstm",),
    "tensorflow": ("gru", "lstm"),
    "torch": ("elman", "gru", "lstm"),
}


def refuse(reason: str) -> NoReturn:
    """Raises the error of `use_cudnn=True` where cuDNN cannot run the recurrence."""
    raise ValueError(
        f"`use_cudnn=True` needs a recurrence that cuDNN can run: {reason}. "
        'Use "auto", which runs anywhere'
    )


def check(cell: "Recurrence", mask: Tensor | None, backend: str) -> None:
    """Raises an error if `use_cudnn=True` cannot be satisfied on TensorFlow or JAX.

    "auto" uses the loop of the backend there: XLA compiles it into one kernel, and
    cannot compile cuDNN's operation on TensorFlow.

    Raises:
        ValueError: If cuDNN cannot run the recurrence.
    """
    reason = cell.why_not_native(mask, BUILT_FOR[backend])
    if reason is None and cell.inputs.dtype != "float32":
        reason = f"inputs are of {cell.inputs.dtype}, not float32"
    if reason is not None:
        refuse(reason)


def two_biases(cell: "Recurrence") -> tuple[Tensor, Tensor]:
    """Returns the biases of the inputs and of the state, zeros if there is none."""
    U = cell.weights["U"]
    zeros = ops.zeros_like(U[0])
    bias = zeros if cell.bias is None else cell.bias
    return bias, cell.weights.get("b", zeros)


def flat_weights(cell: "Recurrence") -> Tensor:
    """Returns all weights as one vector: of inputs, of states, and both biases."""
    W, U, (b_x, b_h) = cell.kernel, cell.weights["U"], two_biases(cell)
    if cell.equation.name == "gru":
        W, U, b_x, b_h = (reset_first(w) for w in (W, U, b_x, b_h))
    parts = [ops.transpose(W), ops.transpose(U), b_x, b_h]
    return ops.concatenate([ops.reshape(part, (-1,)) for part in parts])


def reset_first(w: Tensor) -> Tensor:
    """Reorders the gates z, r, h of a GRU to r, z, h, along the last axis."""
    z, r, h = ops.split(w, 3, axis=-1)
    return ops.concatenate([r, z, h], axis=-1)

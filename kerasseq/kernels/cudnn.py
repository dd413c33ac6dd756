"""What cuDNN computes, and how it lays out weights: the same on every backend.

cuDNN knows the plain LSTM, the GRU whose reset gate acts after the product and the
Elman network, and projects the inputs by itself. Of its gates, the GRU's come in
another order than Keras'; each matrix is transposed, and there are two biases.
"""

from keras import ops

BUILT_FOR = {  # what each backend hands to cuDNN
    "jax": ("lstm",),
    "tensorflow": ("gru", "lstm"),
    "torch": ("elman", "gru", "lstm"),
}


def why_not(cell, mask, names) -> str | None:
    """Why a native kernel does not compute a recurrence; None if it does.

    Args:
        cell: A `Recurrence`.
        mask: As given to `recurrence`.
        names: Names of the equations that the kernel has.
    """
    equation = cell.equation
    plain = equation.peephole is None and not equation.coupled
    squashed = (equation.sigma, equation.phi) == ("sigmoid", "tanh")
    fits = {
        "elman": equation.phi in ("tanh", "relu"),
        "gru": equation.reset_after and equation.update == "keep" and squashed,
        "lstm": plain and squashed,
    }
    if equation.name not in names or not fits.get(equation.name):
        return "its equation is none of those that the kernel has"
    if mask is not None:
        return "there is a mask"
    if cell.weights.get("dropout") is not None or cell.kernel is None:
        return "recurrent_dropout is on"
    return None


def refuse(reason):
    """Raise what `use_cudnn=True` promises where it cannot be met."""
    raise ValueError(f'use_cudnn=True cannot be met: {reason}. "auto" runs anywhere')


def asked_for(cell, mask, backend) -> bool:
    """Whether `use_cudnn=True` was said; an error if it cannot be met.

    "auto" takes the backend's own loop on TensorFlow and JAX, where compilers make one
    kernel of it, and where cuDNN would keep XLA out.

    Raises:
        ValueError: If cuDNN is asked for and does not compute this.
    """
    if cell.cudnn is not True:
        return False
    reason = why_not(cell, mask, BUILT_FOR[backend])
    if reason is None and cell.inputs.dtype != "float32":
        reason = f"inputs are of {cell.inputs.dtype}, not float32"
    if reason is not None:
        refuse(reason)
    return True


def two_biases(cell):
    """The bias of the inputs and that of the state, zeros where there is none."""
    U = cell.weights["U"]
    nothing = ops.zeros_like(U[0])
    bias = nothing if cell.bias is None else cell.bias
    return bias, cell.weights.get("b", nothing)


def flat_weights(cell):
    """All weights in one row: those of inputs, of states, and both biases."""
    W, U, (b_x, b_h) = cell.kernel, cell.weights["U"], two_biases(cell)
    if cell.equation.name == "gru":
        W, U, b_x, b_h = (reset_first(w) for w in (W, U, b_x, b_h))
    parts = [ops.transpose(W), ops.transpose(U), b_x, b_h]
    return ops.concatenate([ops.reshape(part, (-1,)) for part in parts])


def reset_first(w):
    """A GRU's blocks z, r, h as r, z, h, along the last axis."""
    z, r, h = ops.split(w, 3, axis=-1)
    return ops.concatenate([r, z, h], axis=-1)

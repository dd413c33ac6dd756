r"""The selective state space model of Mamba as one operation.

`reference/selective_scan.py` is the definition. It has the decays and the states of all
steps in arrays of E N numbers a step, and runs in pieces of the sequence. On JAX a loop
computes the decays of one step at a time: they stay in the cache of the CPU, and only
training keeps an array of this size, that of the states.
"""

import keras
from keras import ops

from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.kernels.operations import backend_module
from kerasseq.kernels.reference import selective_scan as reference
from kerasseq.kernels.scan import in_pieces


def selective_scan(
    step: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    u: Tensor,
    initial_state: Tensor | None = None,
    *,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Returns a linear recurrence whose decays and maps depend on the input.

    $$
    h_t = e^{\Delta_t A} \odot h_{t-1} + (\Delta_t u_t)\, B_t^T, \qquad y_t = h_t C_t
    $$

    Args:
        step: The step sizes $\Delta$, `(batch, T, E)`.
        A: Negative rates, `(E, N)`.
        B: How an input is written, `(batch, T, N)`.
        C: How a state is read, `(batch, T, N)`.
        u: The inputs, `(batch, T, E)`.
        initial_state: $h_0$, `(batch, E, N)`; zeros if None.
        mask: Boolean `(batch, T)`, False at padding. A masked step leaves the state as
            it is.

    Returns:
        The outputs y `(batch, T, E)`, and the last state `(batch, E, N)`.

    Examples:
        >>> one = keras.ops.ones((1, 3, 1))
        >>> y, h = selective_scan(one, keras.ops.zeros((1, 1)), one, one, one)
        >>> keras.ops.convert_to_numpy(y).ravel().tolist()
        [1.0, 2.0, 3.0]
    """
    step, A, B, C, u = (ops.convert_to_tensor(x) for x in (step, A, B, C, u))
    # Without a step the decay is 1, and nothing is written.
    step, u = masks.zero_masked(step, mask), masks.zero_masked(u, mask)
    if initial_state is None:
        initial_state = ops.zeros_like(u[:, 0, :, None] * A)
    if keras.backend.backend() == "jax":
        return backend_module("selective_scan").run(step, A, B, C, u, initial_state)

    def run(h, inputs):
        step, B, C, u = inputs
        y, h = reference.run(step, A, B, C, u, h)
        return h, y

    h, y = in_pieces(run, initial_state, (step, B, C, u))
    return y, h

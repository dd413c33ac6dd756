r"""Sums over all paths through a row of states, in log space.

The states $s$ have an order. From a step to the next a path stays in its state,
advances by one, or by two states where $k_s = 0$; $k_s = -\infty$ forbids that:

$$
\alpha_t(s) = e_t(s) + \log \left(e^{\alpha_{t-1}(s)} + e^{\alpha_{t-1}(s-1)} +
e^{\alpha_{t-1}(s-2) + k_s}\right)
$$

A large negative number stands for $-\infty$, as $-\infty - (-\infty)$ is NaN. The
gradient is not computed here, but by the caller, from a second call over the reversed
states and steps: see `training/ctc_paths.py`.
"""

import keras
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.operations import backend_module
from kerasseq.kernels.reference import path_sums as reference

NEVER = reference.NEVER


def path_sums(e: Tensor, first: Tensor, skip: Tensor, mask: Tensor) -> Tensor:
    r"""Computes $\alpha$ after each step.

    Args:
        e: The scores of the states, `(T, B, S)`; at least `NEVER`.
        first: $\alpha_0$, `(B, S)`.
        skip: k, `(B, S)`: 0, or `NEVER` where no path advances by two states.
        mask: Boolean `(T, B)`; a masked step leaves α unchanged.

    Returns:
        `(T, B, S)`, without a gradient.

    Examples:
        >>> e, first = np.zeros((2, 1, 3)), np.array([[0.0, NEVER, NEVER]])
        >>> skip, mask = np.full((1, 3), NEVER), np.ones((2, 1), bool)
        >>> alpha = path_sums(*(x.astype("float32") for x in (e, first, skip)), mask)
        >>> keras.ops.convert_to_numpy(keras.ops.exp(alpha[-1])).round(2).tolist()
        [[1.0, 2.0, 1.0]]
    """
    e, first, skip, mask = map(ops.convert_to_tensor, (e, first, skip, mask))
    if keras.backend.backend() == "torch":
        return backend_module("path_sums").run(e, first, skip, mask)
    return reference.run(e, first, skip, mask)

r"""A function of each row with the weights of the experts that the row chose.

$$
y_r = \sum_j g_{rj}\, f(x_r;\, W_{e_{rj}})
$$

Each expert sees its own rows only. Rows are sorted by expert. PyTorch runs the function
once for each expert, on as many rows as it has. Compiled programs need sizes that do
not depend on values: there the rows of an expert are padded to whole blocks, and the
function runs on all blocks at once, each with the weights of its expert.

Gale et al. 2022 (blocks).
"""

from collections.abc import Callable, Sequence

import keras
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.kernels.operations import backend_module, take_rows

Function = Callable[..., Tensor]


def mixture(
    function: Function,
    x: Tensor,
    gates: Tensor,
    chosen: Tensor,
    weights: Sequence[Tensor],
) -> Tensor:
    """Returns the gated sums of what the chosen experts compute of each row.

    Args:
        function: f, of rows `(..., L, D)` and weights `(..., *shape)` of one expert, or
            of one for each of the leading axes; returns `(..., L, V)`.
        x: `(R, D)`.
        gates: g, `(R, k)`.
        chosen: Integers e, `(R, k)`, from 0 to E - 1; E where no expert is chosen.
        weights: W, tensors `(E, *shape)`.

    Returns:
        `(R, V)`; zeros for rows without an expert.

    Examples:
        >>> x, gates = np.ones((3, 2)), np.ones((3, 1))
        >>> doubled_or_not = np.array([[[1.0]], [[2.0]]])
        >>> chosen = np.array([[0], [1], [2]])
        >>> y = mixture(lambda x, w: x * w, x, gates, chosen, [doubled_or_not])
        >>> keras.ops.convert_to_numpy(y)[:, 0].tolist()
        [1.0, 2.0, 0.0]
    """
    x, gates = ops.convert_to_tensor(x), ops.convert_to_tensor(gates)
    chosen = ops.cast(chosen, "int32")
    weights = [ops.convert_to_tensor(w) for w in weights]
    count, E = _count(chosen), weights[0].shape[0]
    if isinstance(count, int) and count <= 2 * E:
        y = _of_pairs(function, x, chosen, weights)
    elif keras.backend.backend() == "torch" and backend_module("mixture").runs_now(x):
        return backend_module("mixture").run(function, x, gates, chosen, weights)
    else:
        y = _in_blocks(function, x, chosen, weights)
    read = chosen < E
    gates = ops.where(read, gates, ops.zeros_like(gates))
    y = ops.where(read[..., None], y, ops.zeros_like(y))
    return ops.sum(ops.cast(gates, y.dtype)[..., None] * y, axis=1)


def _count(chosen):
    """Returns the number of pairs of a row and an expert, R k."""
    R, k = ops.shape(chosen)
    return R * k


def _of_each(w, experts):
    """Returns the weights of several experts, one after the other."""
    if keras.backend.backend() == "tensorflow":
        return backend_module("mixture").take(w, experts)
    return take_rows(w, experts)


def _of_pairs(function, x, chosen, weights):
    """Returns the outputs `(R, k, V)`, with a copy of the weights for each pair."""
    R, k = ops.shape(chosen)
    experts = ops.minimum(ops.reshape(chosen, (-1,)), weights[0].shape[0] - 1)
    rows = ops.repeat(x, k, axis=0)[:, None]
    y = function(rows, *(_of_each(w, experts) for w in weights))
    return ops.reshape(y, (R, k, y.shape[-1]))


def _in_blocks(function, x, chosen, weights):
    """Returns the outputs `(R, k, V)`, with the rows of each expert in blocks."""
    E, count = weights[0].shape[0], _count(chosen)
    R, k = ops.shape(chosen)
    L = (count + 2 * E - 1) // (2 * E)  # twice as many blocks as experts, if all full
    C = 3 * E  # and at most one block of each expert that is not
    flat = ops.reshape(chosen, (-1,))
    order = ops.argsort(flat)
    experts = ops.arange(E, dtype="int32")
    counts = ops.sum(ops.cast(flat[:, None] == experts, "int32"), axis=0)
    sizes = (counts + L - 1) // L * L
    ends = ops.cumsum(sizes)
    starts, firsts = ends - sizes, ops.cumsum(counts) - counts
    # What is in each place of each block: the expert, and which of its rows.
    begins = ops.arange(C, dtype="int32") * L
    passed = ops.sum(ops.cast(begins[:, None] >= ends, "int32"), axis=1)
    of_block = ops.minimum(passed, E - 1)
    places = begins[:, None] + ops.arange(L, dtype="int32")
    nth = places - ops.take(starts, of_block)[:, None]
    source = ops.take(firsts, of_block)[:, None] + nth
    source = ops.clip(source, 0, count - 1)  # padding repeats some row
    rows = take_rows(x, ops.take(order, source) // k)  # (C, L, D)
    y = function(rows, *(_of_each(w, of_block) for w in weights))
    # Back to pairs: where in the order, and so in which place, each of them is.
    at = ops.argsort(order)
    own = ops.minimum(flat, E - 1)
    place = ops.take(starts, own) + ops.cast(at, "int32") - ops.take(firsts, own)
    place = ops.clip(place, 0, C * L - 1)
    V = y.shape[-1]
    y = take_rows(ops.reshape(y, (C * L, V)), place)
    return ops.reshape(y, (R, k, V))

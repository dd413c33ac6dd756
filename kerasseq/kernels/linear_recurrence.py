r"""The linear recurrence $h_t = a_t \odot h_{t-1} + b_t$ as one operation.

`reference/linear_recurrence.py` is the definition. The fast paths in `jax/`,
`tensorflow/` and `torch/` are loops of one multiplication and one addition, with a
backward pass by hand: it is the same recurrence from the last step to the first.

Parallel algorithms such as `keras.ops.associative_scan` are not used. On a CPU a loop
is an order of magnitude faster, since it reads each number once; it never divides by a
product of decays, which underflows; and `associative_scan` fails in TensorFlow models
with an unknown batch size.

Reference: Martin and Cundy, "Parallelizing linear recurrent neural nets over sequence
length", ICLR 2018, arXiv:1709.04057.
"""

from keras import ops
from keras.backend import standardize_dtype

from kerasseq.core.types import DType, Shape, Tensor
from kerasseq.kernels.functions import has_convertible_loops
from kerasseq.kernels.operations import backend_module
from kerasseq.kernels.reference import linear_recurrence as reference


def linear_recurrence(
    a: Tensor,
    b: Tensor,
    initial_state: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    segment_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Computes $h_t = a_t \odot h_{t-1} + b_t$ at all steps.

    Args:
        a: The decays, `(B, T, D)`, real or complex.
        b: What is written, `(B, T, D)`, of the dtype of `a`.
        initial_state: $h_0$, `(B, D)`. Zeros if None.
        mask: Boolean `(B, T)`, True where a step is real; a masked step leaves the
            state unchanged. None if all steps are real.
        segment_ids: Integers `(B, T)` for sequences that are packed into one row: the
            state is reset to zeros where the id differs from that of the last real
            step before. `initial_state` belongs to the first segment. Ids of masked
            steps are not read.

    Returns:
        The states at all steps, `(B, T, D)`, and the last one, `(B, D)`. Their dtype is
        that of `b`, or float32 in place of float16 and bfloat16.

    Raises:
        ValueError: If the shapes do not fit together, or if there are no steps.

    Examples:
        >>> a, b = np.full((1, 3, 1), 0.5), np.ones((1, 3, 1))
        >>> path, last = linear_recurrence(a.astype("float32"), b.astype("float32"))
        >>> keras.ops.convert_to_numpy(path).ravel().tolist()
        [1.0, 1.5, 1.75]
    """
    a, b = ops.convert_to_tensor(a), ops.convert_to_tensor(b)
    dtype = state_dtype(b.dtype)
    a, b = _cast(a, dtype), _cast(b, dtype)
    _check_shapes(a, b, initial_state)
    if initial_state is None:
        initial_state = ops.zeros_like(b[:, 0])
    if segment_ids is not None:
        a = _select(_starts(ops.cast(segment_ids, "int32"), mask), 0, a)
    if mask is not None:
        mask = ops.cast(mask, "bool")
        a, b = _select(mask, a, 1), _select(mask, b, 0)
    run = backend_module("linear_recurrence").run
    if has_convertible_loops():
        run = reference.run
    return run(a, b, _cast(ops.convert_to_tensor(initial_state), dtype))


def state_dtype(dtype: DType) -> str:
    """Returns the dtype of a state: float32 in place of float16 and bfloat16.

    Half precision has 8 or 11 bits: a state that is the sum of 1000 numbers would stop
    to grow, and a decay of 0.999 would be 1.

    Examples:
        >>> state_dtype("bfloat16"), state_dtype("float64")
        ('float32', 'float64')
    """
    dtype = standardize_dtype(dtype)
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def _cast(x, dtype):
    return x if standardize_dtype(x.dtype) == dtype else ops.cast(x, dtype)


def _select(condition, x, y):
    """Selects x in the steps `(B, T)` where the condition holds, else y."""
    like = x if hasattr(x, "shape") else y
    x, y = (v if hasattr(v, "shape") else ops.full_like(like, v) for v in (x, y))
    return ops.where(condition[:, :, None], x, y)


def _starts(ids, mask):
    """Returns whether a step is the first real one of a segment after the first."""
    if mask is None:
        return ids != ops.concatenate([ids[:, :1], ids[:, :-1]], axis=1)
    real = ops.cast(mask, "bool")
    time = ops.shape(ids)[1]
    steps = ops.arange(time, dtype="int32")
    order = ops.sort(ops.where(real, steps, steps + time), axis=1)  # real steps first
    rank = ops.cumsum(ops.cast(real, "int32"), axis=1) - 1  # of a real step in it
    before = ops.take_along_axis(order, ops.maximum(rank - 1, 0), axis=1)
    before = ops.minimum(before, time - 1)  # in a row without real steps
    changed = ids != ops.take_along_axis(ids, before, axis=1)
    return ops.logical_and(real, changed)


def _check_shapes(a, b, initial_state):
    if len(b.shape) != 3 or not fits(a.shape, b.shape):
        raise ValueError(
            "`a` and `b` must have one shape (batch, time, features), received "
            f"{tuple(a.shape)} and {tuple(b.shape)}. Broadcast the smaller one"
        )
    if b.shape[1] == 0:
        raise ValueError("expected at least one time step, received a length of 0")
    if initial_state is None:
        return
    expected = (b.shape[0], b.shape[2])
    if not fits(initial_state.shape, expected):
        raise ValueError(
            f"`initial_state` must have the shape (batch, features), {expected}, "
            f"received {tuple(initial_state.shape)}. Pass one state for each sequence"
        )


def fits(shape: Shape, expected: Shape, *, broadcasts: bool = False) -> bool:
    """Returns whether a shape is the expected one, as far as both are known."""
    return len(shape) == len(expected) and all(
        x == y or (broadcasts and x == 1)
        for x, y in zip(shape, expected, strict=True)
        if isinstance(x, int) and isinstance(y, int)
    )

"""Masks. Boolean everywhere: True = may be attended to, or is a real token."""

import keras
from keras import ops
from keras.backend import standardize_dtype

from kerasseq.core.shapes import check_steps
from kerasseq.core.types import DType, Tensor


def causal(
    query_time: int | Tensor, key_time: int | Tensor, start: int | Tensor = 0
) -> Tensor:
    """Returns a causal mask: a query attends to its own and earlier positions.

    Args:
        query_time: Number of queries, $T_q$.
        key_time: Number of keys, $T_k$.
        start: Index of the first query among the keys; an integer, or one for each
            sequence of the batch, `(B,)`.

    Returns:
        Boolean `(1, T_q, T_k)`, or `(B, T_q, T_k)` if `start` is `(B,)`.

    Examples:
        >>> print(keras.ops.convert_to_numpy(causal(2, 3))[0])
        [[ True False False]
         [ True  True False]]
    """
    queries, keys = _indices(query_time, key_time, start)
    return keys <= queries


def window(
    query_time: int | Tensor,
    key_time: int | Tensor,
    width: int,
    start: int | Tensor = 0,
) -> Tensor:
    """Returns a sliding-window mask: queries attend to keys nearer than `width`.

    Args:
        query_time: Number of queries, $T_q$.
        key_time: Number of keys, $T_k$.
        width: Largest distance to either side, plus one.
        start: Index of the first query among the keys, as for `causal`.

    Returns:
        Boolean `(1, T_q, T_k)`, or `(B, T_q, T_k)` if `start` is `(B,)`.

    Examples:
        >>> print(keras.ops.convert_to_numpy(window(3, 3, width=2))[0].astype(int))
        [[1 1 0]
         [1 1 1]
         [0 1 1]]
    """
    queries, keys = _indices(query_time, key_time, start)
    return ops.abs(queries - keys) < width


def _indices(
    query_time: int | Tensor, key_time: int | Tensor, start: int | Tensor
) -> tuple[Tensor, Tensor]:
    """Indices of the queries, `(1, T_q, 1)`, and of the keys, `(1, 1, T_k)`."""
    if len(getattr(start, "shape", ())) == 1:  # one start for each sequence
        start = ops.cast(start, "int32")[:, None, None]
    queries = ops.arange(query_time, dtype="int32")[None, :, None] + start
    return queries, ops.arange(key_time, dtype="int32")[None, None, :]


def combine_masks(
    mask: Tensor | None = None,
    query_mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    *others: Tensor | None,
) -> Tensor | None:
    """Combines padding masks and attention masks into one attention mask.

    Args:
        mask: `(B, T_k)` or `(B, T_q, T_k)`, or None.
        query_mask: `(B, T_q)`, or None.
        key_mask: `(B, T_k)`, or None.
        *others: Further attention masks, such as those of `causal`, or None.

    Returns:
        Boolean `(B, T_q, T_k)`, where any axis may be 1; None if all masks are None.
    """
    masks = list(others)
    if mask is not None:
        masks.append(ops.cast(mask[:, None] if len(mask.shape) == 2 else mask, "bool"))
    if query_mask is not None:
        masks.append(ops.cast(query_mask, "bool")[:, :, None])
    if key_mask is not None:
        masks.append(ops.cast(key_mask, "bool")[:, None, :])
    return intersect(*masks)


def first_given(*masks: Tensor | None) -> Tensor | None:
    """Returns the first mask that is not None, or None."""
    return next((mask for mask in masks if mask is not None), None)


def zero_masked(x: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """Sets the features of masked steps to zero.

    NaN or infinity at a masked step then affects neither results nor gradients. It must
    happen before the first matrix product: zero times NaN is NaN, in the product and in
    its gradient.

    Args:
        x: `(B, T, ...)`, or None.
        mask: `(B, T)`, False at masked steps, or None for no mask.

    Returns:
        A tensor with the shape and type of x.

    Examples:
        >>> x = np.array([[1.0, np.nan]])[..., None]
        >>> x = zero_masked(x, np.array([[True, False]]))
        >>> print(keras.ops.convert_to_numpy(x).ravel())
        [1. 0.]
    """
    if mask is None or x is None:
        return x
    x, mask = ops.convert_to_tensor(x), ops.cast(mask, "bool")
    for _ in range(len(x.shape) - len(mask.shape)):
        mask = mask[..., None]
    return ops.where(mask, x, ops.zeros((), x.dtype))


def reachable(
    mask: Tensor | None, axes: int = 1
) -> tuple[Tensor | None, Tensor | None]:
    """Returns which queries attend to any key, and which keys any query attends to.

    Args:
        mask: Attention mask `(T_q, T_k)` or `(B, ..., T_q, T_k)`, or None.
        axes: Number of axes of T_q, and of T_k.

    Returns:
        Boolean `(B, T_q)` and `(B, T_k)`, with axes of 1 where the mask has them; two
        None if there is no mask.

    Examples:
        >>> mask = np.array([[[True, False], [False, False]]])
        >>> queries, keys = reachable(mask)
        >>> print(keras.ops.convert_to_numpy(queries), keras.ops.convert_to_numpy(keys))
        [[ True False]] [[ True False]]
    """
    if mask is None:
        return None, None
    mask = ops.cast(mask, "bool")
    mask = mask[None] if len(mask.shape) == 2 * axes else mask
    heads = tuple(range(1, len(mask.shape) - 2 * axes))
    mask = ops.any(mask, axis=heads) if heads else mask
    key_axes, query_axes = tuple(range(-axes, 0)), tuple(range(-2 * axes, -axes))
    return ops.any(mask, axis=key_axes), ops.any(mask, axis=query_axes)


def intersect(*masks: Tensor | None) -> Tensor | None:
    """Computes the logical and of all masks that are not None; None if all are."""
    result = None
    for mask in masks:
        if mask is not None:
            mask = ops.cast(mask, "bool")
            result = mask if result is None else ops.logical_and(result, mask)
    return result


def add_head_axis(mask: Tensor | None) -> Tensor | None:
    """Returns an attention mask as `(B, N, T_q, T_k)`, where B and N may be 1.

    Args:
        mask: `(T_q, T_k)`, `(B, T_q, T_k)`, `(B, N, T_q, T_k)`, or None.

    Examples:
        >>> keras.ops.shape(add_head_axis(np.ones((2, 3, 3), bool)))
        (2, 1, 3, 3)
    """
    if mask is None or len(mask.shape) == 4:
        return mask
    mask = ops.convert_to_tensor(mask)
    return mask[None, None] if len(mask.shape) == 2 else mask[:, None]


def softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    r"""Computes a masked softmax over the last axis; a fully masked row gives zeros.

    Args:
        scores: `(..., T_k)`.
        mask: Boolean, broadcastable to the shape of the scores, or None.

    Returns:
        Weights of the shape of the scores, exactly 0 where the mask is False.

    Examples:
        >>> scores = keras.ops.zeros((2, 2))
        >>> mask = np.array([[True, False], [False, False]])
        >>> print(keras.ops.convert_to_numpy(softmax(scores, mask)))
        [[1. 0.]
         [0. 0.]]
    """
    if mask is not None:
        scores = ops.where(mask, scores, lowest(scores.dtype))
    highest = ops.stop_gradient(largest(scores, axis=-1, keepdims=True))
    powers = ops.exp(scores - highest)
    if mask is not None:
        powers = ops.where(mask, powers, ops.zeros_like(powers))
    total = ops.sum(powers, axis=-1, keepdims=True)
    # The highest score adds 1 to the sum, so that only a fully masked row sums to 0.
    # ops.maximum would compute float64 in float32 on PyTorch.
    return powers / ops.where(total > 0, total, ops.ones_like(total))


def largest(x: Tensor, axis: int, *, keepdims: bool = False) -> Tensor:
    """Computes the largest values along an axis, also of a batch of 0 rows.

    Args:
        x: The values.
        axis: The axis, not empty.
        keepdims: Whether the result has this axis, of size 1.

    Examples:
        >>> keras.ops.shape(largest(np.ones((0, 3)), axis=1))
        (0,)
    """
    if 0 in x.shape:  # on TensorFlow an error
        return ops.sum(x, axis=axis, keepdims=keepdims)
    return ops.amax(x, axis=axis, keepdims=keepdims)  # torch.compile cannot trace max


def lowest(dtype: DType) -> Tensor:
    """Returns the score of a masked key: finite, as infinity minus infinity is NaN.

    It is below any real score, even where a masked key holds numbers as large as 1e30.

    Examples:
        >>> float(lowest("float16"))
        -30000.0
    """
    # float16 ends at 65504: a bias may be added to -3e4 without an overflow.
    return ops.cast(-3e4 if standardize_dtype(dtype) == "float16" else -1e38, dtype)


def positions(
    mask: Tensor | None,
    time: int | Tensor,
    start: int | Tensor = 0,
    given: Tensor | None = None,
) -> Tensor:
    """Returns the positions of the tokens of a sequence, counted over real tokens.

    Args:
        mask: `(B, T)`, True at real tokens, or None if there is no padding.
        time: T.
        start: Position of the first token; an integer, or one for each sequence,
            `(B,)`.
        given: Positions `(B, T)` or `(T,)` to use instead of counting.

    Returns:
        int32, `(B, T)` or `(1, T)`; floats if `given` holds floats.

    Examples:
        >>> print(keras.ops.convert_to_numpy(positions(np.array([[0, 1, 1]]), 3)))
        [[0 0 1]]
    """
    if given is not None:
        given = ops.convert_to_tensor(given)
        if not keras.backend.is_float_dtype(given.dtype):
            given = ops.cast(given, "int32")
        check_steps("positions", given, time)
        return given[None] if len(given.shape) == 1 else given
    if len(getattr(start, "shape", ())) == 1:  # one start for each sequence
        start = ops.cast(start, "int32")[:, None]
    if mask is None:
        return ops.arange(time, dtype="int32")[None] + start
    counted = ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1
    return ops.maximum(counted, 0) + start


class _Mask(keras.layers.Layer):
    """Returns the mask that Keras passes beside the input."""

    supports_masking = True

    def call(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return ops.ones(ops.shape(x)[:-1], "bool") if mask is None else mask


class _MaskProbe(keras.layers.Layer):
    """Notes whether Keras passes a mask beside the input."""

    supports_masking = True
    is_masked = False

    def call(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self.is_masked = mask is not None
        return x


def has_mask(x: keras.KerasTensor) -> bool:
    """Returns whether Keras attaches a mask to a symbolic tensor.

    Examples:
        >>> x = keras.Input((3, 2))
        >>> has_mask(x), has_mask(keras.layers.Masking()(x))
        (False, True)
    """
    probe = _MaskProbe(name="mask", autocast=False)
    probe(x)
    return probe.is_masked


# One for all, as it has no state: to make it takes longer than many a training step.
_READER = _Mask(name="mask", autocast=False)


def attached_mask(x: Tensor) -> Tensor:
    """Returns the mask that Keras has attached to the output of a layer.

    On JAX it is no attribute of the tensor; only the call of a layer receives it.

    Args:
        x: `(B, T, D)`, or `(B, D)`.

    Returns:
        Boolean `(B, T)`, or `(B,)`; all True if there is no mask.

    Examples:
        >>> x = keras.layers.Masking()(np.array([[[1.0], [0.0]]]))
        >>> keras.ops.convert_to_numpy(attached_mask(x)).tolist()
        [[True, False]]
    """
    return ops.cast(_READER(x), "bool")

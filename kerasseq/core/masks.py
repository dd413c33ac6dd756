"""Every mask is built here. Boolean, True = may be attended to, or is real."""

import keras
from keras import ops
from keras.backend import standardize_dtype

from kerasseq.core.shapes import check_steps


def causal(query_time, key_time, start=0):
    """What a position may attend to if it sees no future: itself and what is before.

    Args:
        query_time: Number of queries, $T_q$.
        key_time: Number of keys, $T_k$.
        start: Place of the first query among the keys, or of each row `(B,)`.

    Returns:
        `(1, T_q, T_k)`.

    Examples:
        >>> print(keras.ops.convert_to_numpy(causal(2, 3))[0])
        [[ True False False]
         [ True  True False]]
    """
    queries, keys = _places(query_time, key_time, start)
    return keys <= queries


def window(query_time, key_time, width, start=0):
    """What lies fewer than `width` places away, on either side.

    Args:
        query_time: Number of queries, $T_q$.
        key_time: Number of keys, $T_k$.
        width: Places, the query's own included.
        start: Place of the first query among the keys, or of each row `(B,)`.

    Returns:
        `(1, T_q, T_k)`.

    Examples:
        >>> print(keras.ops.convert_to_numpy(window(3, 3, width=2))[0].astype(int))
        [[1 1 0]
         [1 1 1]
         [0 1 1]]
    """
    queries, keys = _places(query_time, key_time, start)
    return ops.abs(queries - keys) < width


def _places(query_time, key_time, start):
    if len(getattr(start, "shape", ())) == 1:  # a place per row
        start = ops.cast(start, "int32")[:, None, None]
    queries = ops.arange(query_time, dtype="int32")[None, :, None] + start
    return queries, ops.arange(key_time, dtype="int32")[None, None, :]


def of_pairs(mask=None, query_mask=None, key_mask=None, *others):
    """Which query may attend to which key, from all masks that there are.

    Args:
        mask: `(B, T_k)` or `(B, T_q, T_k)`, or None.
        query_mask: `(B, T_q)`, or None.
        key_mask: `(B, T_k)`, or None.
        *others: What `causal` or `window` give, or None.

    Returns:
        `(B, T_q, T_k)`, where an axis may be 1; None if there is no mask at all.
    """
    masks = list(others)
    if mask is not None:
        masks.append(ops.cast(mask[:, None] if len(mask.shape) == 2 else mask, "bool"))
    if query_mask is not None:
        masks.append(ops.cast(query_mask, "bool")[:, :, None])
    if key_mask is not None:
        masks.append(ops.cast(key_mask, "bool")[:, None, :])
    return all_of(*masks)


def first(*masks):
    """The first mask that there is, or None."""
    return next((mask for mask in masks if mask is not None), None)


def hide(x, mask):
    """Zeros at the steps that the mask hides.

    Whatever stands there, NaN and infinity included, then reaches no result and no
    gradient. Done before the first product: zero times NaN is NaN, in the product and
    in its gradient.

    Args:
        x: `(B, T, ...)`, or None.
        mask: `(B, T)`, False where a step is hidden, or None: none is.

    Returns:
        A tensor like x.

    Examples:
        >>> x = np.array([[1.0, np.nan]])[..., None]
        >>> x = hide(x, np.array([[True, False]]))
        >>> print(keras.ops.convert_to_numpy(x).ravel())
        [1. 0.]
    """
    if mask is None or x is None:
        return x
    x, mask = ops.convert_to_tensor(x), ops.cast(mask, "bool")
    for _ in range(len(x.shape) - len(mask.shape)):
        mask = mask[..., None]
    return ops.where(mask, x, ops.zeros((), x.dtype))


def seen(mask, axes=1):
    """Which queries see a key at all, and which keys are seen by a query at all.

    Args:
        mask: `(T_q, T_k)` or `(B, ..., T_q, T_k)`, or None.
        axes: How many axes T_q and T_k have each.

    Returns:
        Boolean `(B, T_q)` and `(B, T_k)`, with axes of 1 where the mask has them; None
        twice if there is no mask.

    Examples:
        >>> queries, keys = seen(np.array([[[True, False], [False, False]]]))
        >>> print(keras.ops.convert_to_numpy(queries), keras.ops.convert_to_numpy(keys))
        [[ True False]] [[ True False]]
    """
    if mask is None:
        return None, None
    mask = ops.cast(mask, "bool")
    mask = mask[None] if len(mask.shape) == 2 * axes else mask
    between = tuple(range(1, len(mask.shape) - 2 * axes))
    mask = ops.any(mask, axis=between) if between else mask
    of_keys, of_queries = tuple(range(-axes, 0)), tuple(range(-2 * axes, -axes))
    return ops.any(mask, axis=of_keys), ops.any(mask, axis=of_queries)


def all_of(*masks):
    """One mask that is True where all are; those that are None do not count."""
    found = None
    for mask in masks:
        if mask is not None:
            mask = ops.cast(mask, "bool")
            found = mask if found is None else ops.logical_and(found, mask)
    return found


def softmax(scores, mask=None):
    r"""$\mathrm{softmax}$ over the last axis, over what the mask lets through.

    A row in which nothing is let through is all zeros.

    Args:
        scores: `(..., T_k)`.
        mask: Boolean, of a shape that broadcasts to that of the scores, or None.

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
    highest = ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True))
    powers = ops.exp(scores - highest)
    if mask is not None:
        powers = ops.where(mask, powers, ops.zeros_like(powers))
    total = ops.sum(powers, axis=-1, keepdims=True)
    # The highest adds 1 to the sum, unless nothing is let through. ops.maximum would
    # compute float64 in float32 on PyTorch.
    return powers / ops.where(total > 0, total, ops.ones_like(total))


def lowest(dtype):
    """The score of what is masked: not minus infinity, which less itself is no number.

    Far below any score, also below those of hidden keys as large as 1e30.

    Examples:
        >>> float(lowest("float16"))
        -30000.0
    """
    return ops.cast(-3e4 if standardize_dtype(dtype) == "float16" else -1e38, dtype)


def positions(mask, time, start=0, given=None):
    """The places of tokens, counted over real ones.

    Args:
        mask: `(B, T)`, True where a token is real, or None: all are.
        time: T.
        start: The place of the first; or of each row `(B,)`.
        given: The places if they are known, `(B, T)` or `(T,)`; then nothing is
            counted.

    Returns:
        int32, `(B, T)` or `(1, T)`; floats if such were given.

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
    if len(getattr(start, "shape", ())) == 1:  # a place per row
        start = ops.cast(start, "int32")[:, None]
    if mask is None:
        return ops.arange(time, dtype="int32")[None] + start
    counted = ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1
    return ops.maximum(counted, 0) + start

"""Every mask is built here. Boolean, True = may be attended to, or is real."""

from keras import ops


def causal(query_time, key_time):
    """What a position may attend to if it sees no future: itself and what is before.

    Args:
        query_time: Number of queries, $T_q$.
        key_time: Number of keys, $T_k$. The last query stands at the last key.

    Returns:
        `(1, T_q, T_k)`.

    Examples:
        >>> print(keras.ops.convert_to_numpy(causal(2, 3))[0])
        [[ True  True False]
         [ True  True  True]]
    """
    queries = ops.arange(query_time)[:, None] + (key_time - query_time)
    return (ops.arange(key_time)[None, :] <= queries)[None]


def of_pairs(mask=None, query_mask=None, key_mask=None, sees_future=None):
    """Which query may attend to which key, from all masks that there are.

    Args:
        mask: `(B, T_k)` or `(B, T_q, T_k)`, or None.
        query_mask: `(B, T_q)`, or None.
        key_mask: `(B, T_k)`, or None.
        sees_future: What `causal` gives, or None.

    Returns:
        `(B, T_q, T_k)`, where an axis may be 1; None if there is no mask at all.
    """
    masks = [sees_future]
    if mask is not None:
        masks.append(ops.cast(mask[:, None] if len(mask.shape) == 2 else mask, "bool"))
    if query_mask is not None:
        masks.append(ops.cast(query_mask, "bool")[:, :, None])
    if key_mask is not None:
        masks.append(ops.cast(key_mask, "bool")[:, None, :])
    found = None
    for one in masks:
        if one is not None:
            found = one if found is None else ops.logical_and(found, one)
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
        # Not minus infinity, less which minus infinity is no number.
        lowest = -3e4 if scores.dtype == "float16" else -1e9
        scores = ops.where(mask, scores, ops.cast(lowest, scores.dtype))
    highest = ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True))
    powers = ops.exp(scores - highest)
    if mask is not None:
        powers = ops.where(mask, powers, ops.zeros_like(powers))
    # The highest adds 1 to the sum, unless nothing is let through.
    return powers / ops.maximum(ops.sum(powers, axis=-1, keepdims=True), 1)

"""Where new keys and values go in a cache, and which positions they have."""

from keras import ops

from kerasseq.core import masks


def put(old, new, index):
    """The cache with new entries from a place on.

    Args:
        old: `(B, S, ...)`.
        new: `(B, T, ...)`, or `(1, T, ...)` for all rows.
        index: The place of the first: a number for all rows, or one per row `(B,)`.

    Returns:
        `(B, S, ...)`.

    Examples:
        >>> old, new = np.zeros((2, 3), "float32"), np.ones((2, 1), "float32")
        >>> print(keras.ops.convert_to_numpy(put(old, new, np.array([0, 2]))))
        [[1. 0. 0.]
         [0. 0. 1.]]
    """
    new = ops.cast(new, old.dtype)
    rest = old.shape[2:]
    B, T = ops.shape(old)[0], ops.shape(new)[1]
    new = ops.broadcast_to(new, (B, T, *rest))
    if len(getattr(index, "shape", ())) == 0:
        return ops.slice_update(old, (0, index, *[0] * len(rest)), new)
    place = ops.add(index[:, None], ops.arange(T, dtype="int32"))  # (B, T)
    row = ops.broadcast_to(ops.arange(B, dtype="int32")[:, None], (B, T))
    at = ops.reshape(ops.stack([row, ops.cast(place, "int32")], -1), (-1, 2))
    return ops.scatter_update(old, at, ops.reshape(new, (-1, *rest)))


def new(of_all, time, index):
    """Of what is known of all places of a cache, that of the new ones.

    Args:
        of_all: `(B, S)`, such as which places are real, or None.
        time: T, how many are new.
        index: Where they go, as for `put`.

    Returns:
        `(B, T)`, or None.

    Examples:
        >>> real = np.array([[0, 1, 1, 0]])
        >>> keras.ops.convert_to_numpy(new(real, 2, index=2)).tolist()
        [[1, 0]]
    """
    if of_all is None:
        return None
    place = masks.positions(None, time, index)  # (B, T) or (1, T)
    place = ops.broadcast_to(place, (ops.shape(of_all)[0], time))
    return ops.take_along_axis(of_all, place, axis=1)


def positions(mask, time, index=None, given=None, cached_mask=None):
    """The positions of what is new.

    Args:
        mask: `(B, T)`, True where what is new is real, or None.
        time: T.
        index: Where it goes in a cache, as for `put`; None without a cache.
        given: The positions, if they are known.
        cached_mask: `(B, S)`, True where a place of the cache is real: positions are
            counted over them.

    Returns:
        `(B, T)` or `(1, T)`.

    Examples:
        >>> real = np.array([[0, 1, 1]])
        >>> at = positions(None, 1, index=2, cached_mask=real)
        >>> keras.ops.convert_to_numpy(at).tolist()
        [[1]]
    """
    if given is not None or cached_mask is None or index is None:
        return masks.positions(mask, time, 0 if index is None else index, given)
    of_all = masks.positions(cached_mask, ops.shape(cached_mask)[1])
    return new(of_all, time, index)

"""Keys and values of steps before, as KerasHub's layers keep them and as ours do.

Ours is a dictionary of "key" and "value", each `(B, S, N, K)`; KerasHub's is both as
one tensor, `(B, 2, S, N, K)`. A block takes either, and gives back what it took.
"""

from keras import ops

from kerasseq.attention import places
from kerasseq.core import masks

SIDES = {"self": "decoder", "cross": "encoder"}


def attend(
    kind, attention, sequences, padding, cached, use_causal_mask=False, **options
):
    """Attend with a cache or without.

    Args:
        kind: "self" or "cross".
        attention: The layer.
        sequences: Queries `(B, T, D)`, and values: the same, or those of an encoder, or
            None if a cache stands for them.
        padding: The padding mask that was given, of all values or of all places of the
            cache, and that of Keras, of the values alone; either may be None.
        cached: The cache in either form, and where the values go in it, or None twice.
        use_causal_mask: Whether a query sees no future.
        **options: As for the layer.

    Returns:
        List of the output, the weights if asked for, and the cache if there is one.
    """
    query, value = sequences
    cache, index = cached
    if cache is None or (kind == "cross" and index is None):
        padding = (masks.first(*padding), None)  # that of Keras is of all values, too
    if cache is None:
        options["value_mask"] = padding[0]
        if kind == "self":
            options["query_mask"] = padding[0]  # positions are counted over it
    else:
        known = opened(f"{kind}_attention_cache", cache, attention, query.shape[0])
        real = real_places(f"{SIDES[kind]}_padding_mask", *padding, known, index)
        options["cache"] = with_positions(known, attention, real)
        options["cache_update_index"], options["cached_mask"] = index, real
        options["causal_cache"] = False  # use_causal_mask says it
    options["use_causal_mask"] = use_causal_mask
    found = attention(query, query if value is None else value, **options)
    found = list(found) if isinstance(found, tuple) else [found]
    if cache is not None:
        found[-1] = closed(found[-1], cache)
    return found


def opened(name, cache, attention, batch=None):
    """The dictionary, from either form.

    Args:
        name: Of the argument, for messages.
        cache: In either form.
        attention: The layer that it is for.
        batch: B, if known.

    Raises:
        ValueError: If its shape is not that of the heads.
    """
    N, K = attention.key_value_heads, attention.key_dim
    if not isinstance(cache, dict):
        if len(cache.shape) != 5 or cache.shape[1] != 2:
            raise ValueError(
                f"{name} has shape {tuple(cache.shape)}; it must be (batch, 2, places, "
                f"{N}, {K}), or what make_cache or project_memory give"
            )
        cache = {"key": cache[:, 0], "value": cache[:, 1]}
    elif cache.keys() - {"position"} != {"key", "value"}:
        raise ValueError(
            f'{name} must have "key" and "value", got {", ".join(map(repr, cache))}'
        )
    for part in (cache["key"], cache["value"]):
        if tuple(part.shape[-2:]) != (N, K):
            raise ValueError(
                f"{name} holds {part.shape[-2]} heads of width {part.shape[-1]}; this "
                f"layer has {N} of width {K}"
            )
        if None not in (batch, part.shape[0]) and part.shape[0] != batch:
            raise ValueError(
                f"{name} is for a batch of {part.shape[0]}, but there are {batch} rows"
            )
    return cache


def with_positions(cache, attention, real=None):
    """The cache with the positions of its places, where a bias asks for them."""
    if "position" in cache or not hasattr(attention.position, "bias"):
        return cache
    B, S = ops.shape(cache["key"])[:2]
    at = ops.broadcast_to(masks.positions(real, S), (B, S))
    return {**cache, "position": at}


def closed(cache, like):
    """The dictionary in the form of `like`.

    Examples:
        >>> cache = {"key": np.zeros((2, 5, 3, 4)), "value": np.ones((2, 5, 3, 4))}
        >>> keras.ops.shape(closed(cache, like=np.zeros((2, 2, 5, 3, 4))))
        (2, 2, 5, 3, 4)
    """
    if isinstance(like, dict):
        return {name: cache[name] for name in like}
    return ops.stack((cache["key"], cache["value"]), axis=1)


def real_places(name, padding_mask, new_mask, cache, index):
    """Which places of a cache are real.

    Args:
        name: Of the first mask, for messages.
        padding_mask: Boolean `(B, S)`, of all places, or None.
        new_mask: Boolean `(B, T)`, of those that are put into it now, or None. What was
            there before counts as real.
        cache: Dictionary.
        index: Where the new ones go; None if there are none.

    Returns:
        Boolean `(B, S)`, or None if all are.
    """
    if padding_mask is not None:
        found, S = padding_mask.shape[-1], cache["key"].shape[1]
        if None not in (found, S) and found != S:
            raise ValueError(
                f"{name} is for {found} places, but the cache has {S}: with a cache it "
                "must be for all of them"
            )
        return ops.cast(padding_mask, "bool")
    if new_mask is None or index is None:
        return None
    before = ops.ones(ops.shape(cache["key"])[:2], "bool")
    return places.put(before, ops.cast(new_mask, "bool"), index)

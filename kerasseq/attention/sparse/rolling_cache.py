"""Rolling caches: the last tokens of a text, for attention that reads no others.

A rolling cache has the keys of other caches, with a length C of its own; "real"
`(B, C)`, True at tokens that may be read; and "count" `(B,)`, the number of tokens so
far. Calls continue a text: the first of them begins with the first token, and
`cache_update_index` is the number of tokens before. Its first tokens may be ones that
are never dropped.
"""

import math
from typing import TYPE_CHECKING

from keras import ops

from kerasseq.attention.cache import Cache, read_cache
from kerasseq.core import masks
from kerasseq.core.types import Tensor
from kerasseq.kernels import is_concrete, take_steps

if TYPE_CHECKING:
    from kerasseq.attention.multi_head import MultiHeadAttention


def roll(cache: Cache) -> Cache:
    """Returns an empty cache as a rolling one.

    Examples:
        >>> sorted(roll({"key": np.zeros((2, 5, 3, 4))}))
        ['count', 'key', 'real']
    """
    B, C = ops.shape(cache["key"])[:2]
    count = ops.zeros((B,), "int32")
    return {**cache, "real": ops.zeros((B, C), "bool"), "count": count}


def new_tokens(
    name: str,
    given_masks: tuple[Tensor | None, ...],
    caching: tuple[Cache, int | Tensor | None, Tensor | None],
    length: int | Tensor,
) -> Tensor | None:
    """Checks a call with a rolling cache, and returns which new tokens are real.

    Args:
        name: Name of the class of the layer.
        given_masks: `attention_mask`, `query_mask`, `value_mask` and `key_mask`.
        caching: `cache`, `cache_update_index` and `cached_mask`.
        length: T.

    Returns:
        Boolean `(B, T)`; None if all are.

    Raises:
        ValueError: If the call does not continue the text, or has a mask of pairs.
    """
    cache, index, cached_mask = caching
    if given_masks[0] is not None:
        raise ValueError(
            f"attention_mask must be None with the cache of {name}, which holds the "
            "last tokens only, received one. Pass padding masks"
        )
    if index is None:
        raise ValueError(
            f"cache_update_index must be the number of tokens before, with the cache "
            f"of {name}, received None. Pass it"
        )
    if isinstance(index, int) and index and is_concrete(cache["count"]):
        count = ops.convert_to_numpy(cache["count"])
        if (count != index).any():
            raise ValueError(
                f"cache_update_index must be the number of tokens that the cache of "
                f"{name} has read, {count.tolist()}, received {index}. Continue the "
                "text, or begin with a new cache"
            )
    if cached_mask is not None:
        return read_cache(ops.cast(cached_mask, "bool"), length, index)
    return masks.intersect(*given_masks[2:])


def begin(
    layer: "MultiHeadAttention",
    inputs: tuple[Tensor | None, ...],
    given_masks: tuple[Tensor | None, ...],
    caching: tuple[Cache, int | Tensor | None, Tensor | None],
) -> tuple[tuple[Tensor | None, ...], Cache, Tensor | None]:
    """Returns what a call with a rolling cache runs on.

    Args:
        layer: The layer.
        inputs: Query, value and key.
        given_masks: As for `new_tokens`.
        caching: As for `new_tokens`.

    Returns:
        The inputs without padding; the cache with "real" `(B, C + T)` of its tokens and
        the new ones; and which new tokens are real, or None.
    """
    cache = caching[0]
    B, T = ops.shape(inputs[0])[:2]
    real = new_tokens(type(layer).__name__, given_masks, caching, T)
    inputs = tuple(masks.zero_masked(x, real) for x in inputs)
    new = ops.ones((B, T), "bool") if real is None else ops.cast(real, "bool")
    both = ops.concatenate([cache["real"], new], axis=1)
    return inputs, {**cache, "real": both}, real


def append(cache: Cache, new: Cache) -> Cache:
    """Returns the tokens of a cache, from `begin`, and the new ones: `(B, C + T, ...)`.

    Examples:
        >>> cache = roll({"key": np.zeros((2, 5, 3, 4), "float32")})
        >>> longer = append(cache, {"key": np.ones((2, 7, 3, 4), "float32")})
        >>> keras.ops.shape(longer["key"])
        (2, 12, 3, 4)
    """
    joined = {name: cache[name] for name in ("real", "count")}
    for name in cache.keys() - joined.keys():
        old, x = cache[name], ops.cast(new[name], cache[name].dtype)
        x = ops.broadcast_to(x, (ops.shape(old)[0], *ops.shape(x)[1:]))
        joined[name] = ops.concatenate([old, x], axis=1)
    return joined


def drop_oldest(
    memory: Cache,
    new: int | Tensor,
    *,
    length: int,
    index: int | Tensor,
    overwritten: Tensor | None = None,
    by_position: bool = False,
) -> Cache:
    """Returns the cache after a call: its last tokens.

    Args:
        memory: From `append`.
        new: T.
        length: C.
        index: The number of tokens before the call.
        overwritten: Boolean `(B, T)`, False at padding at the end, in whose place the
            next call continues; None if it continues after all new tokens.
        by_position: Whether padding takes no place in the cache, as distances are
            counted in real tokens.

    Examples:
        >>> memory = {"count": np.zeros(1, "int32"), "real": np.ones((1, 5), bool)}
        >>> memory["key"] = np.arange(5.0)[None]
        >>> after = drop_oldest(memory, 3, length=2, index=0)
        >>> keras.ops.convert_to_numpy(after["key"]).tolist()
        [[3.0, 4.0]]
    """
    memory = dict(memory)
    count = ops.zeros_like(memory.pop("count")) + ops.cast(index, "int32")
    if overwritten is None and not by_position:
        last = {name: x[:, -length:] for name, x in memory.items()}
        return {**last, "count": count + new}
    read = ops.cast(new, "int32")
    if overwritten is not None:
        steps = ops.arange(new, dtype="int32") + 1
        read = ops.max(ops.where(overwritten, steps, 0), axis=1)
    if by_position:
        places = ops.arange(ops.shape(memory["real"])[1], dtype="int32")
        at = ops.sort(ops.where(memory["real"], places, -1), axis=1)[:, -length:]
        real, at = at >= 0, ops.maximum(at, 0)
        last = {name: take_steps(x, at) for name, x in memory.items()}
        return {**last, "real": real, "count": count + read}
    at = read[:, None] + ops.arange(length, dtype="int32")
    last = {name: take_steps(x, at) for name, x in memory.items()}
    return {**last, "count": count + read}


def nan_unless(holds: Tensor, x: Tensor) -> Tensor:
    """Returns x `(B, ...)`, with NaN in the sequences where something does not hold."""
    shape = (-1, *[1] * (len(x.shape) - 1))
    return ops.where(ops.reshape(holds, shape), x, ops.cast(math.nan, x.dtype))

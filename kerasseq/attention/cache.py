"""Key-value caches of attention: writing to them, and the positions of their tokens.

A cache is a dictionary of "key" `(B, S, M, K)` and "value" `(B, S, M, V)`, and of
"position" `(B, S)` if the scores have a bias by position. S is its capacity: the tokens
from `index` on are written at each step. A rolling cache keeps the last tokens alone,
and has their "count" as well: see `sparse/rolling_cache.py`. KerasHub keeps keys and
values in one tensor, `(B, 2, S, M, K)`; `to_dict_cache` and `restore_cache_format`
convert between the two.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from keras import ops

from kerasseq.core import checks, masks
from kerasseq.core.shapes import check_shape
from kerasseq.core.types import Tensor

if TYPE_CHECKING:
    from kerasseq.attention.multi_head import MultiHeadAttention

CACHED = "(batch, length, heads, width)"
NAMES = {"key", "value", "position", "real", "count"}
NAMES |= {"global", "global_key", "global_value"}
Cache: TypeAlias = dict[str, Tensor]  # "key", "value" and "position", as above


class WithoutCache:
    """A mixin for attention that reads whole sequences at once."""

    never_causal: str  # why

    def make_cache(self, batch: int, length: int) -> Cache:
        """Raises: the layer has no cache."""
        raise ValueError(
            f"{type(self).__name__} {self.never_causal}, and has no cache. Call it on "
            "whole sequences"
        )

    def project_memory(
        self, value: Tensor, key: Tensor | None = None, value_mask: Tensor | None = None
    ) -> Cache:
        """Raises: the layer has no cache."""
        return self.make_cache(1, 1)


def is_rolling(cache: Cache | Tensor | None) -> bool:
    """Returns whether a cache holds the last tokens of a text only.

    Examples:
        >>> is_rolling({"key": 0, "value": 0})
        False
    """
    return isinstance(cache, dict) and "count" in cache


def update_cache(old: Tensor, new: Tensor, index: int | Tensor) -> Tensor:
    """Writes the entries of new tokens into a cache.

    Args:
        old: `(B, S, ...)`.
        new: `(B, T, ...)`, or `(1, T, ...)` for all sequences.
        index: Where the first new token goes: an integer, or one for each sequence,
            `(B,)`.

    Returns:
        `(B, S, ...)`.

    Examples:
        >>> old, new = np.zeros((2, 3), "float32"), np.ones((2, 1), "float32")
        >>> print(keras.ops.convert_to_numpy(update_cache(old, new, np.array([0, 2]))))
        [[1. 0. 0.]
         [0. 0. 1.]]
    """
    new = ops.cast(new, old.dtype)
    rest = old.shape[2:]
    B, T = ops.shape(old)[0], ops.shape(new)[1]
    new = ops.broadcast_to(new, (B, T, *rest))
    if len(getattr(index, "shape", ())) == 0:
        return ops.slice_update(old, (0, index, *[0] * len(rest)), new)
    column = ops.add(index[:, None], ops.arange(T, dtype="int32"))  # (B, T)
    row = ops.broadcast_to(ops.arange(B, dtype="int32")[:, None], (B, T))
    at = ops.reshape(ops.stack([row, ops.cast(column, "int32")], -1), (-1, 2))
    return ops.scatter_update(old, at, ops.reshape(new, (-1, *rest)))


def read_cache(
    values: Tensor | None, time: int | Tensor, index: int | Tensor
) -> Tensor | None:
    """Reads the entries of the new tokens from a tensor that covers the whole cache.

    Args:
        values: `(B, S)`, such as a mask of the cache, or None.
        time: T, the number of new tokens.
        index: Where they start, as for `update_cache`.

    Returns:
        `(B, T)`, or None.

    Examples:
        >>> cached_mask = np.array([[0, 1, 1, 0]])
        >>> keras.ops.convert_to_numpy(read_cache(cached_mask, 2, index=2)).tolist()
        [[1, 0]]
    """
    if values is None:
        return None
    column = masks.positions(None, time, index)  # (B, T) or (1, T)
    column = ops.broadcast_to(column, (ops.shape(values)[0], time))
    return ops.take_along_axis(values, column, axis=1)


def token_positions(
    mask: Tensor | None,
    time: int | Tensor,
    index: int | Tensor | None = None,
    given: Tensor | None = None,
    cached_mask: Tensor | None = None,
) -> Tensor:
    """Returns the positions of the new tokens, counted over real tokens.

    Args:
        mask: `(B, T)`, True where a new token is real, or None.
        time: T.
        index: Where the new tokens go in a cache, as for `update_cache`; None without a
            cache.
        given: Positions `(B, T)` or `(T,)` to use instead of counting, or None.
        cached_mask: `(B, S)`, True at the real tokens of the cache; positions are
            counted over it.

    Returns:
        `(B, T)` or `(1, T)`.

    Examples:
        >>> cached_mask = np.array([[0, 1, 1]])
        >>> p = token_positions(None, 1, index=2, cached_mask=cached_mask)
        >>> keras.ops.convert_to_numpy(p).tolist()
        [[1]]
    """
    if given is not None or cached_mask is None or index is None:
        return masks.positions(mask, time, 0 if index is None else index, given)
    of_cache = masks.positions(cached_mask, ops.shape(cached_mask)[1])
    return read_cache(of_cache, time, index)


def to_dict_cache(
    name: str,
    cache: Cache | Tensor,
    attention: "MultiHeadAttention",
    batch: int | None = None,
) -> Cache:
    """Converts a cache of either format to a dictionary, and checks its shape.

    Args:
        name: Name of the argument, for messages.
        cache: A dictionary, or KerasHub's tensor `(B, 2, S, M, K)`.
        attention: The `MultiHeadAttention` that uses it.
        batch: B, if known.

    Raises:
        TypeError: If it is not a cache, or does not hold tensors.
        ValueError: If the cache does not fit the heads or the batch.
    """
    M, K = attention.key_value_heads, attention.key_dim
    if not isinstance(cache, dict):
        if not hasattr(cache, "shape"):
            raise TypeError(
                f"{name} must be a cache of keys and values, received "
                f"{checks.short(cache)}. Create it with make_cache or project_memory"
            )
        if len(cache.shape) != 5 or cache.shape[1] != 2:
            raise ValueError(
                f"{name} must have shape (batch, 2, length, {M}, {K}), received shape "
                f"{tuple(cache.shape)}. Create it with make_cache or project_memory"
            )
        cache = {"key": cache[:, 0], "value": cache[:, 1]}
    elif not {"key", "value"} <= cache.keys() <= NAMES:
        raise ValueError(
            f'{name} must have the keys "key" and "value", received '
            f"{', '.join(map(repr, cache))}. Create it with make_cache or "
            "project_memory"
        )
    for part in (cache["key"], cache["value"]):
        check_shape(name, getattr(part, "shape", None), CACHED, received=part)
        if tuple(part.shape[-2:]) != (M, K):
            raise ValueError(
                f"{name} must hold {M} heads of width {K}, received "
                f"{part.shape[-2]} heads of width {part.shape[-1]}. Create it with the "
                "layer that uses it"
            )
        if None not in (batch, part.shape[0]) and part.shape[0] != batch:
            raise ValueError(
                f"{name} must have the batch size of the inputs, {batch}, received "
                f"{part.shape[0]}. Create it with make_cache(batch={batch}, ...)"
            )
    return cache


def restore_cache_format(cache: Cache, like: Cache | Tensor) -> Cache | Tensor:
    """Converts a dictionary to the format of another cache.

    Args:
        cache: The dictionary.
        like: The cache whose format to use.

    Examples:
        >>> cache = {"key": np.zeros((2, 5, 3, 4)), "value": np.ones((2, 5, 3, 4))}
        >>> tensor = restore_cache_format(cache, like=np.zeros((2, 2, 5, 3, 4)))
        >>> keras.ops.shape(tensor)
        (2, 2, 5, 3, 4)
    """
    if isinstance(like, dict):
        return {name: cache[name] for name in like}
    return ops.stack((cache["key"], cache["value"]), axis=1)


def with_cache_format(outputs: Tensor | tuple, like: Cache | Tensor | None) -> list:
    """Returns outputs as a list, the last one, a cache, in the format of another.

    Args:
        outputs: What an attention returned.
        like: The cache whose format to use; None if there is no cache.

    Examples:
        >>> with_cache_format(np.ones(2), None)
        [array([1., 1.])]
    """
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    if like is not None:
        outputs[-1] = restore_cache_format(outputs[-1], like)
    return outputs


def add_positions(
    cache: Cache, attention: "MultiHeadAttention", cached_mask: Tensor | None = None
) -> Cache:
    """Adds "position" to a cache that lacks it, if the attention biases its scores."""
    if "position" in cache or not attention.biases_scores:
        return cache
    B, S = ops.shape(cache["key"])[:2]
    at = ops.broadcast_to(masks.positions(cached_mask, S), (B, S))
    return {**cache, "position": at}


def mask_of_cache(
    name: str,
    padding_mask: Tensor | None,
    new_mask: Tensor | None,
    cache: Cache,
    index: int | Tensor | None,
) -> Tensor | None:
    """Returns the mask of all tokens of a cache.

    Args:
        name: Name of the padding mask, for messages.
        padding_mask: Boolean `(B, S)` for the whole cache, or None.
        new_mask: Boolean `(B, T)` for the new tokens, or None. Earlier tokens then
            count as real.
        cache: Dictionary.
        index: Where the new tokens start; None if no token is new.

    Returns:
        Boolean `(B, S)`, or None if all tokens are real. A rolling cache knows which of
        its tokens are real: it is `padding_mask`, of the whole text.
    """
    if is_rolling(cache):
        return padding_mask
    if padding_mask is not None:
        length, S = padding_mask.shape[-1], cache["key"].shape[1]
        if None not in (length, S) and length != S:
            raise ValueError(
                f"{name} must cover the whole cache, {S} tokens, received a mask of "
                f"{length}. Pass one value for each token of the cache"
            )
        return ops.cast(padding_mask, "bool")
    if new_mask is None or index is None:
        return None
    earlier = ops.ones(ops.shape(cache["key"])[:2], "bool")
    return update_cache(earlier, ops.cast(new_mask, "bool"), index)


def call_options(
    attention: "MultiHeadAttention",
    names: tuple[str, str],
    cache: Cache | Tensor,
    index: int | Tensor | None,
    padding_masks: tuple[Tensor | None, Tensor | None],
    batch: int | None,
) -> dict[str, Any]:
    """Returns the arguments of a call of an attention with a cache.

    Args:
        attention: The attention layer.
        names: Names of the cache and of its mask, for messages.
        cache: Its cache, in either format.
        index: Where new keys go in the cache; None if they are in it.
        padding_masks: Of the whole cache and of the new tokens, see `mask_of_cache`.
        batch: B, if known.
    """
    known = to_dict_cache(names[0], cache, attention, batch)
    mask = mask_of_cache(names[1], *padding_masks, known, index)
    new = {}
    if is_rolling(known) and mask is None:
        new = dict.fromkeys(("query_mask", "value_mask"), padding_masks[1])
    return {
        **new,
        "cache": add_positions(known, attention, mask),
        "cache_update_index": index,
        "cached_mask": mask,
        "causal_cache": False,  # `use_causal_mask` decides
    }

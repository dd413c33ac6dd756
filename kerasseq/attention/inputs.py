"""Inputs of attention layers: checks, and zeros where the masks are False."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from keras import ops

from kerasseq.attention.cache import Cache, read_cache
from kerasseq.core import checks, masks
from kerasseq.core.shapes import (
    check_batches,
    check_mask,
    check_numbers,
    check_shape,
    check_width,
)
from kerasseq.core.types import Shape, Tensor

if TYPE_CHECKING:
    from kerasseq.attention.multi_head import MultiHeadAttention

Inputs: TypeAlias = tuple[Tensor, Tensor, Tensor | None]  # query, value and key
# `attention_mask`, `query_mask`, `value_mask` and `key_mask`.
Masks: TypeAlias = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def check_ranks(query: Shape, value: Shape, key: Shape | None = None) -> None:
    """Raises unless key and value have as many axes as the query, and equal lengths.

    Args:
        query: Shape of the query.
        value: Shape of the value.
        key: Shape of the key; that of the value if None.
    """
    if len(query) != len(value):
        raise ValueError(
            "query and value must have the same number of axes, received shapes "
            f"{tuple(query)} and {tuple(value)}. Reshape one of them"
        )
    key = value if key is None else key
    pairs = zip(value[1:-1], key[1:-1], strict=False)
    if len(value) != len(key) or any(None not in p and p[0] != p[1] for p in pairs):
        raise ValueError(
            "value and key must have the same sizes except the last, received shapes "
            f"{tuple(value)} and {tuple(key)}. Pass one value for each key"
        )


def check_build_shapes(
    query: Shape, value: Shape, key: Shape, *, more: bool = False
) -> tuple[int | None, ...]:
    """Raises unless a layer can be built for these shapes; returns their widths.

    Args:
        query: Shape of the query.
        value: Shape of the value.
        key: Shape of the key.
        more: Whether there may be more than one axis between batch and features.
    """
    shapes = {"query": query, "value": value, "key": key}
    for name, shape in shapes.items():
        check_shape(name, shape, more=more)
    if more:
        check_ranks(**shapes)
    return tuple(shape[-1] for shape in shapes.values())


def check_multi_head_inputs(
    layer: "MultiHeadAttention",
    inputs: Inputs,
    given_masks: Masks,
    cache: Cache | None,
    index: int | Tensor | None,
    cached_mask: Tensor | None,
) -> None:
    """Raises unless inputs, masks and cache fit each other and a `MultiHeadAttention`.

    Args:
        layer: The layer, built.
        inputs: Query, value and key.
        given_masks: `attention_mask`, `query_mask`, `value_mask` and `key_mask`.
        cache: The dictionary, or None.
        index: Where the new tokens go in the cache, or None.
        cached_mask: Mask of the cache, or None.
    """
    # A complete cache has the keys and values already.
    used = (True, *(cache is None or index is not None,) * 2)
    shapes = _checked_shapes(inputs, layer.input_widths, used, more=True)
    check_ranks(**shapes)
    if len(shapes["query"]) != layer.input_rank:
        raise ValueError(
            f"query must have the {layer.input_rank} axes that {layer.name} was built "
            f"for, received shape {shapes['query']}. Create another layer"
        )
    (B, T, *_), new = shapes["query"], shapes["value"][1]
    S = new if cache is None else cache["key"].shape[1]
    if cache is not None and "count" in cache:  # rolling: a text has any length
        S = None
    if isinstance(index, int) and None not in (new, S) and index + new > S:
        raise ValueError(
            f"cache_update_index must leave room for {new} new tokens in a cache of "
            f"length {S}, received {index}. Create a longer cache with make_cache"
        )
    if layer.input_rank > 3:
        return  # a mask may cover some of the axes
    attention_mask, query_mask, value_mask, key_mask = given_masks
    check_attention_mask(attention_mask, B, T, S)
    check_mask("query_mask", query_mask, ("batch", "time"), (B, T))
    check_mask("value_mask", value_mask, ("batch", "time"), (B, new))
    check_mask("key_mask", key_mask, ("batch", "time"), (B, new))
    check_mask("cached_mask", cached_mask, ("batch", "length"), (B, S))


def _checked_shapes(inputs, widths, used, more=False):
    """Returns the shapes of inputs by name, and checks the widths of those used."""
    shapes = {}
    names = ("query", "value", "key")
    for name, x, width, is_used in zip(names, inputs, widths, used, strict=True):
        if x is not None:
            check_numbers(name, x, more=more)
            shapes[name] = tuple(x.shape)
            check_width(name, x.shape, width if is_used else None)
    check_batches(**shapes)
    return shapes


def zero_masked_inputs(
    inputs: Inputs,
    given_masks: Masks,
    cache: Cache | None,
    index: int | Tensor | None,
    cached_mask: Tensor | None,
    attended_axes: tuple[int, ...],
) -> Inputs:
    """Zeros the inputs that no mask lets through, as NaN there would spread.

    Arguments are those of `check_multi_head_inputs`, and the axes to attend over.
    """
    query, value, key = inputs
    attention_mask, query_mask, value_mask, key_mask = given_masks
    count = len(query.shape) - 2
    if count > 1:  # masks set by Keras are for one axis
        query_mask = value_mask = key_mask = None
        if attended_axes != tuple(range(1, count + 1)):
            return inputs
    if cache is not None:  # the given masks cover the cache, not these inputs
        attention_mask = query_mask = value_mask = key_mask = None
        if index is not None:
            value_mask = read_cache(cached_mask, ops.shape(value)[1], index)
            query_mask = value_mask if query is value else None
    queries, keys = masks.reachable(attention_mask, count)
    keys = masks.intersect(value_mask, key_mask, keys)
    zeroed = masks.zero_masked(value, keys)
    if key is not None:
        key = zeroed if key is value else masks.zero_masked(key, keys)
    same_mask = query_mask is value_mask and key_mask is None and queries is None
    if query is value and same_mask:  # self-attention needs this once
        return zeroed, zeroed, key
    query = masks.zero_masked(query, masks.intersect(query_mask, queries))
    return query, zeroed, key


def check_attention_mask(
    mask: Tensor | None, B: int | None, T: int | None, S: int | None
) -> None:
    """Raises unless a mask has shape `(T, S)`, `(B, T, S)` or `(B, N, T, S)`."""
    rank = 3 if mask is None else len(getattr(mask, "shape", (0, 0, 0)))
    if rank == 2:
        check_mask("attention_mask", mask, ("query_time", "key_time"), (T, S))
    elif rank == 4:
        axes = ("batch", "heads", "query_time", "key_time")
        check_mask("attention_mask", mask, axes, (B, None, T, S))
    else:
        axes = ("batch", "query_time", "key_time")
        check_mask("attention_mask", mask, axes, (B, T, S))


def check_bias(bias: Tensor, num_heads: int) -> None:
    """Raises unless a bias by position is for all heads, or for each of them."""
    if bias.shape[1] not in (1, num_heads):
        raise ValueError(
            f"position must give a bias for {num_heads} heads, received one for "
            f"{bias.shape[1]}. Attentions that share a position need equally many heads"
        )


def combine_masks(
    layer: "MultiHeadAttention",
    given_masks: Masks,
    sizes: tuple[int | Tensor, int | Tensor],
    causal: bool,
    start: int | Tensor | None,
) -> tuple[Tensor | None, bool]:
    """Returns all masks as one `(B, N or 1, T, S)` or None, and whether to be causal.

    A causal mask alone is left to the backend, which needs no mask for it.

    Args:
        layer: The layer, built.
        given_masks: As for `check_multi_head_inputs`.
        sizes: T and S.
        causal: Whether a query attends to its own and earlier positions only.
        start: Index of the first query among the keys; None for 0.
    """
    attention_mask, query_mask, value_mask, key_mask = given_masks
    sliding_window = layer.sliding_window
    alone = sliding_window is None and all(m is None for m in given_masks)
    if causal and alone and start is None:
        return None, True
    start = 0 if start is None else start
    extra = [masks.causal(*sizes, start)] if causal else []
    if sliding_window is not None:
        extra.append(masks.window(*sizes, sliding_window, start))
    if key_mask is not None:
        extra.append(ops.cast(key_mask, "bool")[:, None])
    mask = masks.combine_masks(None, query_mask, value_mask, *extra)
    mask = masks.add_head_axis(mask)  # (B, 1, T, S)
    return masks.intersect(masks.add_head_axis(attention_mask), mask), False


def check_single_head_inputs(
    widths: Sequence[int | None],
    query: Tensor,
    value: Tensor,
    key: Tensor | None,
    projected: bool,
) -> None:
    """Raises unless the inputs of a single-head attention fit each other.

    Args:
        widths: Widths of query, value and key that the layer was built for.
        query: `(B, T_q, D_q)`.
        value: `(B, T_k, D_v)`.
        key: `(B, T_k, D_k)`, or None.
        projected: Whether the key comes from `project_keys`.
    """
    used = True, True, not projected
    shapes = _checked_shapes((query, value, key), widths, used)
    T, S = shapes["value"][1], shapes.get("key", shapes["value"])[1]
    if None not in (T, S) and T != S:
        raise ValueError(
            "value and key must have the same length, received shapes "
            f"{shapes['value']} and {shapes['key']}. Pass one value for each key"
        )


def check_single_head_masks(
    query: Tensor,
    value: Tensor,
    mask: Tensor | None,
    query_mask: Tensor | None,
    value_mask: Tensor | None,
) -> None:
    """Raises unless the masks of a single-head attention fit its inputs."""
    B, T_q, T_k = query.shape[0], query.shape[1], value.shape[1]
    if len(getattr(mask, "shape", ())) == 3:
        check_mask("mask", mask, ("batch", "query_time", "key_time"), (B, T_q, T_k))
    else:
        check_mask("mask", mask, ("batch", "key_time"), (B, T_k))
    check_mask("query_mask", query_mask, ("batch", "time"), (B, T_q))
    check_mask("value_mask", value_mask, ("batch", "time"), (B, T_k))


def check_head_groups(num_heads: int, key_value_heads: int) -> None:
    """Raises unless each key-value head is shared by equally many query heads."""
    if num_heads % key_value_heads:
        raise ValueError(
            f"num_key_value_heads must divide num_heads={num_heads}, received "
            f"num_key_value_heads={key_value_heads}. Choose a divisor"
        )


def check_flash_attention(flash_attention: bool | None, dropout: float) -> None:
    """Raises if flash attention is required with dropout, which it does not have."""
    if flash_attention and dropout:
        raise ValueError(
            "flash_attention must be None or False with dropout, received "
            f"flash_attention={flash_attention} and dropout={dropout}. Leave one of "
            "them out"
        )


def check_output_shape(value: int | Sequence[int] | None) -> int | list[int] | None:
    """Returns `output_shape` if it is None, a width, or one to three widths.

    Examples:
        >>> check_output_shape(1.5)
        Traceback (most recent call last):
        ...
        TypeError: output_shape must be a whole number, received 1.5
    """
    if isinstance(value, list | tuple):
        if not 1 <= len(value) <= 3:
            raise ValueError(
                f"output_shape must be one to three widths, received {value!r}. "
                "Pass None for the width of the query"
            )
        return [checks.size("output_shape", width) for width in value]
    return checks.optional(checks.size, "output_shape", value)


def as_separate_arguments(
    inputs: Sequence[Any], options: Mapping[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of Keras' call `layer([query, value, key], mask=[…])`.

    Args:
        inputs: Query, value and, optionally, key.
        options: The other arguments. A list as `mask` has the masks of the query and
            of the value, each of which may be None.

    Returns:
        The query, the other inputs, and the options with a mask for each.

    Raises:
        ValueError: If there are fewer or more.

    Examples:
        >>> as_separate_arguments(["q", "v"], {"mask": [None, "m"]})
        ('q', ('v',), {'query_mask': None, 'value_mask': 'm'})
    """
    if not 2 <= len(inputs) <= 3:
        raise ValueError(
            "a list of inputs must be [query, value] or [query, value, key], received "
            f"{len(inputs)} inputs"
        )
    options = dict(options)
    if isinstance(options.get("mask"), (list, tuple)):
        mask = options.pop("mask")
        if len(mask) not in (2, len(inputs)):  # Keras does not read that of the key
            raise ValueError(
                "mask must be a tensor, or the list [query_mask, value_mask], received "
                f"a list of {len(mask)}"
            )
        options |= {"query_mask": mask[0], "value_mask": mask[1]}
    return inputs[0], tuple(inputs[1:]), options

"""Keys and values of steps before, as KerasHub's layers keep them and as ours do.

Ours is a dictionary of "key" and "value", each `(B, S, N, K)`; KerasHub's is both as
one tensor, `(B, 2, S, N, K)`. A block takes either, and gives back what it took.
"""

from kerasseq.attention.cache import (
    add_positions,
    mask_of_cache,
    restore_cache_format,
    to_dict_cache,
)
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
        padding = (
            masks.first_given(*padding),
            None,
        )  # that of Keras is of all values, too
    if cache is None:
        options["value_mask"] = padding[0]
        if kind == "self":
            options["query_mask"] = padding[0]  # positions are counted over it
    else:
        known = to_dict_cache(
            f"{kind}_attention_cache", cache, attention, query.shape[0]
        )
        real = mask_of_cache(f"{SIDES[kind]}_padding_mask", *padding, known, index)
        options["cache"] = add_positions(known, attention, real)
        options["cache_update_index"], options["cached_mask"] = index, real
        options["causal_cache"] = False  # use_causal_mask says it
    options["use_causal_mask"] = use_causal_mask
    found = attention(query, query if value is None else value, **options)
    found = list(found) if isinstance(found, tuple) else [found]
    if cache is not None:
        found[-1] = restore_cache_format(found[-1], cache)
    return found

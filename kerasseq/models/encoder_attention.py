"""The attention of encoder models: by name, with a window, and with global tokens."""

from collections.abc import Sequence
from typing import Any

from keras import ops

from kerasseq.attention.sparse.longformer import LongformerAttention
from kerasseq.core import checks
from kerasseq.core.arguments import drawn_seed
from kerasseq.core.types import Config, Initializer, Tensor
from kerasseq.transformer.mixers import OF_PAIRS

FIRST = "first"  # the name of the first real token, as [CLS] or the class token


def check_attention(
    attention: str,
    sliding_window: int | None,
    global_tokens: str | Sequence[int] | None,
    vocabulary_size: int | None,
) -> Config:
    """Returns the three arguments, checked.

    Args:
        attention: A name from `mixers.OF_PAIRS`.
        sliding_window: Width of the window, or None.
        global_tokens: "first", or ids of a text; None for no global tokens.
        vocabulary_size: Number of ids; None if the model reads no ids.

    Raises:
        TypeError: If `global_tokens` are not ids.
        ValueError: If a name is unknown, a number is out of range, or global tokens are
            given to an attention without them.

    Examples:
        >>> check_attention("longformer", 5, "first", None)["global_tokens"]
        'first'
    """
    checks.one_of("attention", attention, tuple(OF_PAIRS))
    if global_tokens is not None:
        if attention != "longformer":
            raise ValueError(
                'global_tokens need attention="longformer", received attention='
                f'"{attention}". Leave them out'
            )
        if isinstance(global_tokens, str) or vocabulary_size is None:
            checks.one_of("global_tokens", global_tokens, (FIRST, None))
        else:
            global_tokens = [
                checks.whole_number("an id in global_tokens", i, 0)
                for i in global_tokens
            ]
            if max(global_tokens, default=0) >= vocabulary_size:
                raise ValueError(
                    f"global_tokens must be ids below {vocabulary_size}, received "
                    f"{max(global_tokens)}"
                )
    return {
        "attention": attention,
        "sliding_window": checks.optional(
            checks.size, "sliding_window", sliding_window
        ),
        "global_tokens": global_tokens,
    }


def block_options(
    arguments: Config, max_length: int, kernel_initializer: Initializer | str
) -> Config:
    """Returns the options of a `TransformerEncoder` that make its attention.

    Args:
        arguments: Those of the model, with the three of `check_attention`.
        max_length: The most tokens of a text.
        kernel_initializer: Of the projections.

    Examples:
        >>> given = check_attention("linformer", None, None, 11)
        >>> block_options(given, 7, "ones")
        {'attention': 'linformer', 'sliding_window': None, 'max_length': 7}
    """
    a = arguments
    options = {"attention": a["attention"], "sliding_window": a["sliding_window"]}
    if a["global_tokens"] is None:
        return {**options, "max_length": max_length}
    first = a["global_tokens"] == FIRST
    window = (
        {} if a["sliding_window"] is None else {"sliding_window": a["sliding_window"]}
    )
    layer = LongformerAttention(
        a["num_heads"],
        a.get("head_dim") or a["hidden_dim"] // a["num_heads"],
        num_key_value_heads=a.get("num_key_value_heads"),
        dropout=a["dropout"],
        use_bias=a.get("use_bias", True),
        kernel_initializer=kernel_initializer,
        max_global_tokens=1 if first else max_length,
        seed=drawn_seed(a["dropout"]),
        name="self_attention",
        **window,
    )
    return {"attention": layer}


def global_options(
    global_tokens: str | Sequence[int] | None, real: Tensor, ids: Tensor | None = None
) -> dict[str, Any]:
    """Returns what a block is called with, so that it has its global tokens.

    Args:
        global_tokens: As for `check_attention`.
        real: Boolean `(B, T)`, True at real tokens.
        ids: `(B, T)`, of a model that reads ids.

    Examples:
        >>> real = keras.ops.array([[False, True, True]])
        >>> keras.ops.convert_to_numpy(global_options("first", real)["global_mask"])
        array([[False,  True, False]])
        >>> global_options(None, real)
        {}
    """
    if global_tokens is None:
        return {}
    if global_tokens == FIRST:
        count = ops.cumsum(ops.cast(real, "int32"), axis=1)
        return {"global_mask": ops.logical_and(real, ops.equal(count, 1))}
    chosen = ops.zeros_like(real)
    for i in global_tokens:
        chosen = ops.logical_or(chosen, ops.equal(ids, i))
    return {"global_mask": ops.logical_and(real, chosen)}

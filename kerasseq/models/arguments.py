"""What the arguments that models share must be, each by its name.

The constructors of models list them and are decorated with `checked_arguments`.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras

from kerasseq.core import checks
from kerasseq.core.constructors import Listed, keeps_arguments
from kerasseq.text.tokenizers.conversion import fitted_tokenizer

Check = Callable[[str, Any], Any]
SIZES = (
    *("num_layers", "num_decoder_layers", "num_heads", "num_key_value_heads"),
    *("hidden_dim", "intermediate_dim", "head_dim", "embedding_dim", "code_dim"),
    *("units", "query_dim", "value_dim", "max_sequence_length", "sliding_window"),
    *("channels", "num_experts", "sampling_rate"),
)
FLAGS = (
    *("use_bias", "parallel", "residual", "embedding_norm", "tie_embeddings"),
    *("scale_embeddings", "share_embeddings", "published_ids", "skip"),
    *("bidirectional", "input_feeding", "embed_positions", "multi_label"),
    "include_top",
)

ROWS = (  # of a weight (rows, hidden_dim)
    *("vocabulary_size", "source_vocabulary_size", "target_vocabulary_size"),
    *("intermediate_dim", "head_dim", "max_sequence_length", "max_length"),
    *("num_segments", "channels"),
)
BLOCKS = (  # each has a weight (hidden_dim, intermediate_dim)
    *("num_layers", "num_decoder_layers", "num_experts"),
)


def among(*choices: object) -> Check:
    """Returns a check of an argument that is one of several values.

    Examples:
        >>> among("pre", "post")("norm_placement", "pre")
        'pre'
    """
    return functools.partial(checks.one_of, choices=choices)


def optional(check: Check) -> Check:
    """Returns a check of an argument that may be None, which is not its default.

    Examples:
        >>> optional(checks.size)("num_segments", None) is None
        True
    """
    return functools.partial(checks.optional, check)


def tokenizer(name: str, value: Any) -> Any:
    """Returns the `fitted_tokenizer` that an argument has."""
    return fitted_tokenizer(value, name)


CHECKS: dict[str, Check] = {
    **dict.fromkeys(("tokenizer", "source_tokenizer", "target_tokenizer"), tokenizer),
    **dict.fromkeys(SIZES, checks.size),
    **dict.fromkeys(FLAGS, checks.flag),
    **dict.fromkeys(("layer_norm_epsilon", "embedding_scale"), checks.positive),
    **dict.fromkeys(("logit_soft_cap", "window"), checks.positive),
    "stride": functools.partial(checks.size, others=1),  # of samples
    "dropout": checks.rate,
    "norm_placement": among("pre", "post", "deep"),
}


def checked_arguments(
    **own: Check | None,
) -> Callable[[Callable[Listed, None]], Callable[Listed, None]]:
    """Checks the arguments of a model by their names and keeps them for its config.

    Args:
        **own: Checks of arguments that only this model has, or has in another way;
            None where its constructor checks them.
    """
    each = {**CHECKS, **own}
    return keeps_arguments({name: check for name, check in each.items() if check})


def check_memory(arguments: Mapping[str, Any], **others: int | None) -> None:
    """Raises if a weight of a model with blocks does not fit into memory.

    Args:
        arguments: The arguments by name, of which those of `ROWS` and `BLOCKS` count.
        **others: Values in place of these, such as the vocabulary of a tokenizer.

    Examples:
        >>> sizes = {"hidden_dim": 8, "intermediate_dim": None}
        >>> check_memory(sizes, num_layers=10**12)
        Traceback (most recent call last):
        kerasseq.core.checks.NotEnoughMemory: num_layers must be a size that fits into \
memory, received 1000000000000, which takes at least 1,024,000 GB. Choose a smaller one
    """
    a = {**arguments, **others}
    D = a["hidden_dim"]
    rows = {name: a.get(name) for name in ROWS}
    blocks = {name: a.get(name) for name in BLOCKS}
    check_weights({"hidden_dim": D, **rows}, D)
    check_weights(blocks, D * (a["intermediate_dim"] or 4 * D))


def check_weights(sizes: Mapping[str, int | None], others: int) -> None:
    """Raises if a size times `others` weights do not fit into memory.

    Args:
        sizes: Sizes by the name of their argument; those that are None are skipped.
        others: The weights for each of a size.
    """
    bytes_each = 2 if "16" in keras.config.dtype_policy().variable_dtype else 4
    for name, size in sizes.items():
        if size is not None:
            checks.fits_memory(name, size, others, bytes_each)

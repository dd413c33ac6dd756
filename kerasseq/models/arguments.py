"""What the arguments that models share must be, each by its name.

The constructors of models list them and are decorated with `checked_arguments`.
"""

import functools
from collections.abc import Callable
from typing import Any

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

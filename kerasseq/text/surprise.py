r"""Surprise of each token of a text: the bits that a model needs for it.

$$s_t = -\log_2 p(x_t \mid x_1 \dots x_{t-1})$$

Their mean is the cross-entropy in bits per token. Shannon, "A Mathematical Theory of
Communication", 1948.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Surprise(NamedTuple):
    r"""The bits that a model needs for each token of a text.

    Attributes:
        tokens: The part of the text that each token covers; ids as strings for a model
            without a tokenizer.
        bits: float64 `(tokens,)`, $-\log_2 p$ of each token; NaN where the model has
            no probability for the first one, and infinity where it is 0.
    """

    tokens: list[str]
    bits: np.ndarray


def token_texts(
    tokenizer: Any, source: str | None, ids: Sequence[int] | np.ndarray
) -> list[str]:
    """Returns the text of each token.

    Args:
        tokenizer: The tokenizer of the ids, or None.
        source: The text that was encoded, if it is known.
        ids: The ids.

    Examples:
        >>> from kerasseq.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer().fit("abc")
        >>> token_texts(tokenizer, "cab", tokenizer.encode("cab"))
        ['c', 'a', 'b']
        >>> token_texts(None, None, [7, 3])
        ['7', '3']
    """
    if tokenizer is None:
        return [str(int(each)) for each in ids]
    if isinstance(source, str) and hasattr(tokenizer, "encode_with_offsets"):
        offsets = tokenizer.encode_with_offsets(source).offsets.tolist()
        if len(offsets) == len(ids):
            return [source[start:end] for start, end in offsets]
    return [tokenizer.decode([int(each)]) for each in ids]

"""A target that a model generated, with its score and alignment."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Translation:
    """The target generated for one source; `str(translation)` is its text.

    Attributes:
        text: The target: a string, or an array of ids for a model without tokenizers.
        score: Its log-probability among targets without padding and start, which are
            never written; of a beam with length penalty, the score.
        alignment: Attention weights, an array `(target tokens, source tokens)`, or None
            for a model without attention. The last row is the end token.
        source_tokens: Labels of the columns of the alignment.
        target_tokens: Labels of its rows.
        candidates: The `n_best` of a beam as pairs of text and score, best first.
        unknown: Characters of the source that the tokenizer does not know, with counts.
    """

    text: Any
    score: float
    alignment: np.ndarray | None
    source_tokens: list[str]
    target_tokens: list[str]
    candidates: list[tuple[Any, float]]
    unknown: dict[str, int]

    def __str__(self) -> str:
        return str(self.text)

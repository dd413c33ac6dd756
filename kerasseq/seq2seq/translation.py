"""A translation, with all that is known of it."""

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Translation:
    """What a model makes of one source. `str(translation)` is the text.

    Attributes:
        text: The target: a string, or an array of ids for a model without tokenizers.
        score: Its log-probability; of a beam with length penalty, the score.
        alignment: Array `(target tokens, source tokens)`, what each token of the target
            looked at; None for a model without attention. The last row is the end.
        source_tokens: Labels of the columns of the alignment.
        target_tokens: Labels of its rows.
        candidates: The `n_best` of a beam as pairs of text and score, the best first.
        unknown: What of the source the tokenizer does not know, and how often.
    """

    text: Any
    score: float
    alignment: np.ndarray | None
    source_tokens: list[str]
    target_tokens: list[str]
    candidates: list[tuple[Any, float]]
    unknown: dict[str, int]

    def __str__(self):
        return str(self.text)

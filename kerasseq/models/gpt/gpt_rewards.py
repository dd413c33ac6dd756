r"""The reward head of GPT: a number for a text, trained on preferences.

$$
r = w \cdot h_T, \qquad
L = -\ln \sigma(r_{chosen} - r_{rejected})
$$

with $h_T$ the hidden state of the last token of a text. Only differences of rewards
count, so there is no bias. No special tokens are added: a prompt and its answer are
tokenized apart and joined, as in `generate`.

Christiano et al. 2017; Ouyang et al. 2022, equation 1. Left out: margins between the
answers, and a penalty that centers the rewards.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor
from kerasseq.datasets.preferences import KEYS, Preferences
from kerasseq.models.bert import bert_heads
from kerasseq.models.bert.bert_heads import Features
from kerasseq.models.gpt.gpt_texts import GPTPreprocessor
from kerasseq.tasks import heads
from kerasseq.training.label_batches import Rows
from kerasseq.training.preference_batches import encoded_pairs


class PreferenceIds(list[Any]):
    """Preferences as ids: of each row the prompt, the chosen and the rejected answer.

    Examples:
        >>> PreferenceIds([([3], [5, 2], [7])]).labels().tolist()
        [0]
    """

    def labels(self) -> np.ndarray:
        """Returns the index of the chosen answer of each row, `(rows,)`."""
        return np.zeros(len(self), "int32")


class RewardPreprocessor(GPTPreprocessor):
    """Makes rows of ids of texts, of prompts with answers, and of preferences.

    The arguments are those of `GPTPreprocessor`. "ids" are `(B, K, T)`, with K = 2 for
    preferences and K = 1 for texts.
    """

    has_marks: bool = False
    least_rows: int = 1

    def preferences(self, x: Any) -> PreferenceIds | None:
        """Returns preferences as ids; None for anything else.

        Raises:
            ValueError: If a text is empty or too long, both answers are equal, or an id
                is outside the vocabulary. The message names the row.
        """
        if isinstance(x, PreferenceIds):
            return x
        if not are_preferences(x):
            return None
        pairs = encoded_pairs(x, self._part, self.longest, self.tokenizer)
        return PreferenceIds(pairs)

    def has_labels(self, x: Any) -> bool:
        return are_preferences(x)

    def is_one(self, x: Any) -> bool:
        """Returns whether this is one text, string or ids, or a prompt with an answer.

        Examples:
            >>> reads = RewardPreprocessor(None, 11, None, 3)
            >>> reads.is_one([3, 5]), reads.is_one(("a", "b")), reads.is_one([[3], [5]])
            (True, True, False)
        """
        if are_preferences(x):
            return False
        is_row = isinstance(x, list) or (isinstance(x, np.ndarray) and x.ndim)
        if is_row and len(x):
            return isinstance(x[0], int | np.integer)
        return super().is_one(x)

    def _part(self, text: Any) -> np.ndarray:
        text = text if isinstance(text, str) else np.asarray(text).tolist()
        return np.asarray(self.encode(text), "int32")

    def reward_rows(self, x: Any) -> Rows | None:
        """Returns texts or pairs of prompt and answer, `(B, 1, T)`; or preferences."""
        pairs = self.preferences(x)
        if pairs is not None:
            return Rows(self._packed([_both(*row) for row in pairs]))
        if isinstance(x, Mapping) and x.keys() == {"ids"}:
            x = x["ids"]
        if hasattr(x, "shape") and len(x.shape) == 2:
            x = np.asarray(x)[:, None]
        return self.rows(x)

    def _marked(self, texts: tuple[Any, ...], n: int) -> list[int]:
        """Returns the ids of one row: those of its parts, without marks."""
        row = [token for part in texts for token in self.encode(part)]
        if not row:
            raise ValueError(
                f"text {n} is empty: expected at least one token, received "
                f"{checks.short(texts)}"
            )
        if self.longest is not None and len(row) > self.longest:
            raise ValueError(
                f"text {n} has {len(row)} tokens, but the model reads "
                f"max_sequence_length={self.longest} at most: shorten the text, or "
                "pre-train a model for longer ones"
            )
        return row


def _both(
    prompt: Sequence[int], chosen: Sequence[int], rejected: Sequence[int]
) -> list[tuple[Sequence[int], Sequence[int]]]:
    return [(prompt, chosen), (prompt, rejected)]


def are_preferences(x: Any) -> bool:
    """Returns whether these are rows or columns of preferences, even incomplete.

    Examples:
        >>> are_preferences({"prompt": ["a"]}), are_preferences([("a", "b")])
        (True, False)
    """
    if isinstance(x, Preferences | PreferenceIds):
        return True
    if isinstance(x, Mapping) or hasattr(x, "columns"):
        return any(key in x for key in KEYS)
    is_list = isinstance(x, list | tuple) and len(x) > 0
    return is_list and isinstance(x[0], Mapping)


class Reward(bert_heads.Head):
    """A reward for each text, `(B, K)`, of which the first is the largest."""

    is_new: ClassVar[bool] = True
    multiple_rows: ClassVar[bool] = True
    by_length: ClassVar[bool] = True
    wanted: ClassVar[str] = (
        "expected preferences, rows with prompt, chosen and rejected"
    )

    def outputs(self, features: Features) -> Tensor:
        pooled = features.drop("class_dropout")(features.pooled())  # (B, K, D)
        return self.dense(1, "reward", use_bias=False)(pooled)[..., 0]

    def read(self, preprocessor: Any, x: Any) -> Rows | None:
        return preprocessor.reward_rows(x)

    def targets(
        self, rows: Rows, y: Any, class_weight: Any = None
    ) -> tuple[np.ndarray, None]:
        heads.check_no_class_weight(class_weight)
        count = rows.arrays["ids"].shape[1]
        if count != 2 or np.any(np.asarray(y) != 0):
            raise TypeError(
                f"{self.wanted}, received {count} texts a row with labels y="
                f"{checks.short(y)}. The labels of preferences are 0, the chosen "
                "answer; leave y out"
            )
        return np.asarray(y, "int32"), None

    def loss(self) -> keras.losses.Loss:
        r"""Returns the cross-entropy of two logits: $-\ln \sigma$ of the difference."""
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        )

    def metrics(self) -> list[keras.metrics.Metric]:
        return [PairAccuracy("accuracy")]


@register
class PairAccuracy(keras.metrics.MeanMetricWrapper):
    """The share of the pairs whose first reward is larger than the second.

    Args:
        name: Name of the metric.

    Examples:
        >>> accuracy = PairAccuracy("accuracy")
        >>> accuracy.update_state([0, 0, 0], np.array([[2, 1], [1, 2], [1, 1.0]]))
        >>> round(float(accuracy.result()), 4)
        0.3333
    """

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(_is_ordered, name=name, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype}


def _is_ordered(y: Tensor, rewards: Tensor) -> Tensor:
    return ops.cast(rewards[:, 0] > rewards[:, 1], "float32")

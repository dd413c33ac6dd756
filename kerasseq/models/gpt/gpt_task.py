"""`GPTTask`: a pretrained GPT with a task head, for fine-tuning.

Radford et al. 2018, sections 3.2 and 3.3, figure 1. Course slides C.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks, sublayers
from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor
from kerasseq.models.bert import bert_heads
from kerasseq.models.gpt.gpt_heads import (
    HEADS,
    FlattenChoices,
    GPTFeatures,
    LanguageModelingLoss,
    SpecialTokenEmbedding,
)
from kerasseq.models.gpt.gpt_rewards import PreferenceIds, RewardPreprocessor
from kerasseq.models.gpt.gpt_texts import SPECIAL_TOKENS, GPTPreprocessor
from kerasseq.models.headed_model import (
    HeadedModel,
    can_truncate,
    check_truncate,
    copy_weights,
    plain_labels,
)
from kerasseq.tasks.base import BATCH_SIZE
from kerasseq.tasks.labeled_data import Data, inputs_of
from kerasseq.tasks.labels import Label

if TYPE_CHECKING:  # which imports this module
    from kerasseq.models.gpt.gpt import GPT


@register
class GPTTask(HeadedModel):
    r"""A pretrained GPT with a task head, to be fine-tuned.

    Each example becomes one or several rows of tokens. A linear layer is applied to the
    hidden state of the last token of a row, [extract]. With $\lambda > 0$ the language
    modeling loss is added:

    $$L = L_{task} + \lambda\, L_{language}$$

    | head | texts | outputs |
    |---|---|---|
    | "classify" | `text` | logits `(B, C)` |
    | "entail" | `(premise, hypothesis)` | logits `(B, C)` |
    | "compare" | `(a, b)`, in any order | logits `(B, C)` |
    | "choose" | `(context, [answer, ...])` | logits `(B, K)`, one for each answer |
    | "reward" | `text`, `(prompt, answer)` or preferences | `(B, 1)` or `(B, 2)` |
    | "tag" | `text`, or a list of words | logits `(B, T, C)`, at last tokens |
    | "span" | `text`, or `(question, text)` | logits "start" and "end", `(B, T)` |

    The special tokens [start], [delimiter] and [extract] are new ids, V to V + 2, with
    embeddings of their own; V + 3 is padding. A text may also be a list of ids without
    special tokens. An array "ids" `(B, T)`, or `(B, K, T)` for "compare" and "choose",
    must include them.

    The head "reward" adds no special tokens: prompt and answer are joined, and the
    reward is a linear function of the hidden state of the last token. `fit` and
    `evaluate` take preferences instead of texts and labels: `datasets.Preferences`, or
    rows or columns "prompt", "chosen" and "rejected". The loss is $-\ln
    \sigma(r_{chosen} - r_{rejected})$, and "accuracy" the share of the pairs in the
    right order.

    Args:
        gpt: A `GPT`, whose weights are copied.
        head: One of the names above.
        labels: For heads but "choose", "reward" and "span": the names of the labels;
            their number C, for labels from 0 on; or None: `fit` learns the names.
        multi_label: For "classify", "entail" and "compare": whether an example may have
            several labels, or none.
        language_model_weight: $\lambda$; 0.5 in the paper.
        truncate: Whether texts that are too long are cut, the longest first. They are
            an error otherwise, and always for "tag" and "span".
        dropout: Dropout rate; as in `gpt` if None.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If `gpt` is not a `GPT`, or an argument has the wrong type.
        ValueError: If an argument is out of range.

    Examples:
        >>> import kerasseq
        >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("hello world")
        >>> gpt = kerasseq.models.GPT(tokenizer, num_layers=1, hidden_dim=8)
        >>> task = gpt.with_head("choose", language_model_weight=0.5)
        >>> task.predict([("hello", ["world", "old"])], verbose=0).shape
        (1, 2)

    References:
        Radford et al. 2018, figure 1. Slides C: the GPT architecture.
    """

    heads: dict[str | None, type[bert_heads.Head]] = HEADS
    preprocessor: GPTPreprocessor

    def __init__(
        self,
        gpt: "GPT",
        head: str,
        labels: int | Sequence[Label] | None = None,
        *,
        multi_label: bool = False,
        language_model_weight: float = 0.0,
        truncate: bool = False,
        dropout: float | None = None,
        **kwargs: Any,
    ) -> None:
        if not hasattr(gpt, "stack"):
            raise TypeError(f"gpt must be a kerasseq.models.GPT, received {gpt!r}")
        checks.one_of("head", head, HEADS)
        weight = _weight(language_model_weight)
        if weight and gpt.head is None:
            raise ValueError(
                "language_model_weight must be 0 for a GPT with head=None, which "
                f"predicts no tokens, received {weight}. Leave it out"
            )
        task = HEADS[head](labels, multi_label)
        config = gpt.get_config()
        for name in ("dtype", sublayers.KEY):  # no layer of the new model is frozen
            del config[name]
        config["dropout"] = config["dropout"] if dropout is None else dropout
        own = type(gpt).from_config(config)
        copy_weights(gpt, own)
        size, stack = own.vocabulary_size, own.stack
        if not stack.embedding.tie_weights and not weight:
            stack.embedding.reverse_embeddings.trainable = False  # unused
        reads = RewardPreprocessor if head == "reward" else GPTPreprocessor
        preprocessor = reads(
            own.tokenizer,
            size,
            own.context_length,
            3 if task.multiple_rows else 2,
            check_truncate(truncate, head),
        )
        shape = (None, None) if task.multiple_rows else (None,)
        inputs = {"ids": keras.Input(shape, dtype="int32", name="ids")}
        features = _features(
            inputs["ids"], stack, preprocessor, task, weight, config["dropout"]
        )
        arguments = {
            "gpt": {
                "class_name": type(gpt).__name__,
                "config": config,
                "module": None,
                "registered_name": keras.saving.get_registered_name(type(gpt)),
            },
            "head": head,
            "labels": plain_labels(task.labels),
            "multi_label": task.multi_label,
            "language_model_weight": weight,
            "truncate": truncate,
            "dropout": dropout,
        }
        super().__init__(inputs, features, preprocessor, task, arguments, **kwargs)
        self.vocabulary_size: int = size

    def weighted_inputs(self, x: Any, y: Any, sample_weight: Any) -> Data:
        if isinstance(self.preprocessor, RewardPreprocessor):
            pairs = self.preprocessor.preferences(x)
            if pairs is not None:
                return pairs, pairs.labels() if y is None else y, sample_weight
        return super().weighted_inputs(x, y, sample_weight)

    def rewards(self, x: Any, *, batch_size: int = BATCH_SIZE) -> float | np.ndarray:
        """Computes the reward of texts, for a model with the head "reward".

        Args:
            x: A text, ids without a tokenizer, or a tuple of a prompt and an answer; a
                list of these; or preferences as for `fit`.
            batch_size: Texts, or pairs of answers, that are processed at once.

        Returns:
            A number for one text or tuple, else an array `(texts,)`; for preferences
            `(rows, 2)`, the rewards of the chosen and of the rejected answers.

        Raises:
            ValueError: If the model has another head, or a text is empty or too long.

        Examples:
            >>> import kerasseq
            >>> tokenizer = kerasseq.text.CharacterTokenizer().fit("0123456789:")
            >>> gpt = kerasseq.models.GPT(tokenizer, num_layers=1, hidden_dim=8)
            >>> model = gpt.with_head("reward")
            >>> votes = [{"prompt": "7:", "chosen": "49", "rejected": "4"}] * 2
            >>> history = model.fit(votes, epochs=60, verbose=0)
            >>> model.rewards("7:49") > model.rewards("7:4")
            True
            >>> model.rewards([("7:", "49"), "7:4"]).shape, model.rewards(votes).shape
            ((2,), (2, 2))

        References:
            Ouyang et al. 2022, equation 1. Slides C: preferences.
        """
        self._check_head("rewards", "reward")
        is_one = self.preprocessor.is_one(x)
        x = inputs_of(self, [x] if is_one else x)
        values = self.predict(x, batch_size=batch_size, verbose=0)
        if not isinstance(x, PreferenceIds):
            values = values[:, 0]
        return float(values[0]) if is_one else values

    def language_model(self) -> "GPT":
        """Returns a `GPT` with the current weights."""
        gpt = keras.saving.deserialize_keras_object(self._arguments["gpt"])
        copy_weights(self, gpt)
        return gpt

    def with_head(
        self,
        head: str | None,
        labels: int | Sequence[Label] | None = None,
        *,
        multi_label: bool = False,
        language_model_weight: float | None = None,
        truncate: bool | None = None,
        dropout: float | None = None,
    ) -> "GPTTask | GPT":
        """Replaces the head. Layers of both models keep their weights.

        Args:
            head: As for `GPT.with_head`, or None for a `GPT`.
            labels: Names or number of the labels; None: `fit` learns the names.
            multi_label: Whether an example may have several labels.
            language_model_weight: As before if None.
            truncate: As before if None.
            dropout: As before if None.

        Returns:
            A new model.

        Raises:
            ValueError: If the head is unknown, or `labels` do not fit it.
        """
        gpt = self.language_model()
        if head is None:
            return gpt
        weight = language_model_weight
        if weight is None:
            weight = self._arguments["language_model_weight"]
        if truncate is None:
            truncate = self._arguments["truncate"] and can_truncate(head)
        other = type(self)(
            gpt,
            head,
            labels,
            multi_label=multi_label,
            language_model_weight=weight,
            truncate=truncate,
            dropout=dropout,
        )
        copy_weights(self, other)
        return other


def _features(
    ids: Tensor,
    stack: Any,
    preprocessor: GPTPreprocessor,
    task: bert_heads.Head,
    weight: float,
    dropout: float,
) -> GPTFeatures:
    """Returns the hidden states of all tokens, as `GPTFeatures`."""
    size, rows = preprocessor.vocabulary_size, ids
    if task.multiple_rows:
        ids = FlattenChoices(name="side_by_side")(rows)
    real = ops.not_equal(ids, preprocessor.padding)
    embedded = x = stack.embedding(ops.minimum(ids, size - 1))
    if preprocessor.has_marks:
        x = SpecialTokenEmbedding(
            size,
            len(SPECIAL_TOKENS),
            keras.initializers.RandomNormal(stddev=0.02),
            name="mark_embedding",
        )(x, ids)
    chosen = stack.global_mask(ids, mask=real)
    x, _ = stack.hidden_states(x, mask=real, global_mask=chosen)
    if weight:
        x = LanguageModelingLoss(weight, stack.logits, size, name="language_loss")(
            x, ids
        )
    return GPTFeatures(
        sequence=x,
        real=real,
        embedding=stack.embedding,
        embedded=embedded,
        dropout=dropout,
        rows=rows if task.multiple_rows else None,
        padding=preprocessor.padding,
    )


def _weight(weight: float) -> float:
    """Checks the weight of a loss, and returns it as a float."""
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise TypeError(f"language_model_weight must be a number, received {weight!r}")
    if not 0 <= weight < float("inf"):
        raise ValueError(
            f"language_model_weight must be 0 or more, "
            f"received {weight}. It is 0.5 in the "
            "paper"
        )
    return float(weight)

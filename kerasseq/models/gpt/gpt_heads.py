r"""The task heads of GPT, and how each task becomes rows of tokens.

With $h(\cdot)$ the hidden state of the last token, [extract], of a row:

| head | rows | logits |
|---|---|---|
| "classify" | [start] text [extract] | $W h + b$ |
| "entail" | [start] premise [delimiter] hypothesis [extract] | $W h + b$ |
| "compare" | [start] a [delimiter] b [extract], and b first | $W (h_1 + h_2) + b$ |
| "choose" | each: [start] context [delimiter] answer [extract] | $w h_k + b$ |
| "reward" | text, or prompt and answer in a row | $w h$ |

The heads "tag" and "span" are those of BERT.

Radford et al. 2018, sections 3.2 and 3.3, figure 1. Course slides C.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.types import Identifier, Shape, Tensor
from kerasseq.models.bert import bert_heads
from kerasseq.models.bert.bert_heads import Features, MaskLogits
from kerasseq.models.gpt.gpt_rewards import Reward
from kerasseq.tasks import heads
from kerasseq.tasks.data_checks import as_array
from kerasseq.tasks.labels import plain_list
from kerasseq.tasks.sequence_layers import LastStep
from kerasseq.training.label_batches import Rows


@dataclasses.dataclass
class GPTFeatures(Features):
    """The inputs of a head.

    Attributes:
        rows: The ids `(B, K, T)`, if an example has several rows; else None.
        padding: The id of padding.
    """

    rows: Any = None
    padding: int = 0

    def pooled(self) -> Tensor:
        """Returns hidden states of last tokens, `(B, D)`, or `(B, K, D)`."""
        last = LastStep(name="last")(self.sequence, mask=self.real)
        if self.rows is None:
            return last
        return UnflattenChoices(name="together")(last, self.rows)

    def is_choice(self) -> Tensor:
        """Returns booleans `(B, K)`, False where a row is only padding."""
        return ops.any(ops.not_equal(self.rows, self.padding), axis=-1)


class Classify(bert_heads.Classify):
    """One class per text, logits `(B, C)`."""

    def read(self, preprocessor: Any, x: Any) -> Rows | None:
        return preprocessor.single_rows(x)


class Entail(Classify):
    """One class per ordered pair of texts, logits `(B, C)`."""

    def read(self, preprocessor: Any, x: Any) -> Rows | None:
        return preprocessor.pair_rows(x)


class Compare(Classify):
    """One class per unordered pair of texts, logits `(B, C)`."""

    multiple_rows: ClassVar[bool] = True

    def outputs(self, features: Features) -> Tensor:
        both = ops.sum(features.pooled(), axis=1)
        return self.dense(self.labels.count, "classes")(
            features.drop("class_dropout")(both)
        )

    def read(self, preprocessor: Any, x: Any) -> Rows | None:
        return preprocessor.both_order_rows(x)


class Choose(Classify):
    """Multiple choice, logits `(B, K)` of the answers; missing ones are masked."""

    has_labels: ClassVar[bool] = False
    multiple_rows: ClassVar[bool] = True

    def outputs(self, features: Any) -> Tensor:
        pooled = features.drop("class_dropout")(features.pooled())
        logits = self.dense(1, "choice")(pooled)[..., 0]
        return MaskLogits(name="choices", dtype=scores_dtype())(
            logits, features.is_choice()
        )

    def read(self, preprocessor: Any, x: Any) -> Rows | None:
        return preprocessor.choice_rows(x)

    def targets(
        self, rows: Rows, y: Any, class_weight: Any = None
    ) -> tuple[np.ndarray, None]:
        heads.check_no_class_weight(class_weight)
        given = y
        pairs = zip(plain_list(given), rows.places, strict=True)
        y = as_array([_answer(n, *pair) for n, pair in enumerate(pairs)])
        if y is None or y.size != len(rows.places):
            raise TypeError(
                "y must be one of the answers or its index for each row, received "
                f"{checks.short(given)}"
            )
        counts = np.array([len(answers) for answers in rows.places])
        bert_heads.check_labels(y, counts.max(), "answers")
        for row in np.flatnonzero(y.reshape(-1) >= counts)[:1]:
            raise ValueError(
                f"y[{row}] must be from 0 to {counts[row] - 1}, since row {row} has "
                f"{counts[row]} answers, received y[{row}]={y[row]}"
            )
        return y, None


def _answer(row, label, answers):
    """Returns the index of the right answer, which is given by index or by text."""
    if not isinstance(label, str):
        return label
    if label not in answers:
        raise ValueError(
            f"y[{row}] must be one of the answers {answers} or its index, received "
            f"{label!r}"
        )
    return answers.index(label)


HEADS: dict[str | None, type[bert_heads.Head]] = {
    "classify": Classify,
    "entail": Entail,
    "compare": Compare,
    "choose": Choose,
    "reward": Reward,
    "tag": bert_heads.Tag,
    "span": bert_heads.Span,
}


# Layers


@register
class SpecialTokenEmbedding(ListedConfig, keras.layers.Layer):
    """Embeddings of special tokens that are added to a pretrained vocabulary.

    Args:
        first: The first of their ids.
        count: Number of special tokens.
        embeddings_initializer: Initializer of the embeddings.
        **kwargs: As for any layer.

    Call arguments:
        vectors: Embeddings `(B, T, D)`, which are kept for other ids.
        ids: `(B, T)`.

    Examples:
        >>> layer = SpecialTokenEmbedding(5, 2, embeddings_initializer="ones")
        >>> y = layer(np.zeros((1, 3, 1)), np.array([[4, 5, 6]]))
        >>> keras.ops.convert_to_numpy(y)[0, :, 0].tolist()
        [0.0, 1.0, 1.0]
    """

    def __init__(
        self,
        first: int,
        count: int,
        embeddings_initializer: Identifier = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.first = first
        self.count = count
        self.embeddings_initializer: Callable[..., Tensor] = keras.initializers.get(
            embeddings_initializer
        )

    def build(self, vectors_shape: Shape, ids_shape: Shape | None = None) -> None:
        self.embeddings: keras.Variable = self.add_weight(
            name="embeddings",
            shape=(self.count, vectors_shape[-1]),
            initializer=self.embeddings_initializer,
        )
        self.built = True

    def call(self, vectors: Tensor, ids: Tensor) -> Tensor:
        table = ops.convert_to_tensor(self.embeddings)
        row = ops.clip(ids - self.first, 0, self.count - 1)
        new = ops.take(table, ops.cast(row, "int32"), axis=0)
        return ops.where((ids >= self.first)[..., None], new, vectors)

    def compute_output_shape(
        self, vectors_shape: Shape, ids_shape: Shape | None = None
    ) -> Shape:
        return vectors_shape


@register
class FlattenChoices(keras.layers.Layer):
    """Reshapes the K choices of each example to rows, `(B, K, T)` to `(B K, T)`.

    Examples:
        >>> keras.ops.shape(FlattenChoices()(np.zeros((2, 3, 5))))
        (6, 5)
    """

    def call(self, rows: Tensor) -> Tensor:
        return ops.reshape(rows, (-1, ops.shape(rows)[-1]))

    def compute_output_shape(self, rows_shape: Shape) -> Shape:
        return None, rows_shape[-1]


@register
class UnflattenChoices(keras.layers.Layer):
    """The inverse of `FlattenChoices`: `(B K, D)` to `(B, K, D)`.

    Examples:
        >>> keras.ops.shape(UnflattenChoices()(np.zeros((6, 7)), np.zeros((2, 3, 5))))
        (2, 3, 7)
    """

    def call(self, vectors: Tensor, rows: Tensor) -> Tensor:
        return ops.reshape(vectors, (-1, ops.shape(rows)[1], vectors.shape[-1]))

    def compute_output_shape(self, vectors_shape: Shape, rows_shape: Shape) -> Shape:
        return (*rows_shape[:2], vectors_shape[-1])


class LanguageModelingLoss(keras.layers.Layer):
    r"""Adds the language modeling loss of the same texts in training.

    $$L = L_{task} + \lambda\, \frac1n \sum_t -\ln p(w_{t+1} \mid w_{\le t})$$

    over the n tokens of the texts in the batch; special tokens are not predicted.

    Args:
        weight: $\lambda$.
        scores: Function from hidden states `(B, T, D)` to logits `(B, T, V)`.
        size: V.

    Call arguments:
        sequence: Hidden states `(B, T, D)`, which are returned unchanged.
        ids: `(B, T)`.
        training: Whether to add the loss.
    """

    def __init__(
        self,
        weight: float,
        scores: Callable[[Tensor], Tensor],
        size: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.weight = weight
        self.scores = scores
        self.size = size

    def call(
        self, sequence: Tensor, ids: Tensor, training: bool | None = None
    ) -> Tensor:
        if training:
            target = ids[:, 1:]
            counts = target < self.size
            losses = ops.sparse_categorical_crossentropy(
                ops.where(counts, target, 0),
                self.scores(sequence[:, :-1]),
                from_logits=True,
            )
            counts = ops.cast(counts, losses.dtype)
            number = ops.maximum(ops.sum(counts), 1)
            self.add_loss(self.weight * ops.sum(losses * counts) / number)
        return sequence

    def compute_output_shape(
        self, sequence_shape: Shape, ids_shape: Shape | None = None
    ) -> Shape:
        return sequence_shape

    def get_config(self) -> NoReturn:
        raise NotImplementedError(
            "the language modeling loss shares the layers of its model and cannot be "
            "copied alone. Copy the whole model: "
            "type(model).from_config(model.get_config())"
        )

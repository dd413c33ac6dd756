r"""Fine-tuning of GPT: task heads, and how each task becomes rows of tokens.

With $h(\cdot)$ the hidden state of the last token, [extract], of a row:

| head | rows | logits |
|---|---|---|
| "classify" | [start] text [extract] | $W h + b$ |
| "entail" | [start] premise [delimiter] hypothesis [extract] | $W h + b$ |
| "compare" | [start] a [delimiter] b [extract], and b first | $W (h_1 + h_2) + b$ |
| "choose" | each: [start] context [delimiter] answer [extract] | $w h_k + b$ |

The heads "tag" and "span" are those of BERT.

Radford et al. 2018, sections 3.2 and 3.3, figure 1. Course slides D.
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks, sublayers
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Identifier, Shape, Tensor
from kerasseq.language import bert_heads
from kerasseq.language.bert_heads import Features, MaskLogits
from kerasseq.language.bert_texts import Rows
from kerasseq.language.fine_tuning import FineTuningMixin, copy_weights
from kerasseq.language.gpt_texts import SPECIAL_TOKENS, GPTTextReader
from kerasseq.tasks.architectures import LastStep
from kerasseq.tasks.base import TaskModel
from kerasseq.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # which imports this module
    from kerasseq.language.gpt import GPT


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
        """Hidden state of the last token, `(B, D)`, or `(B, K, D)` for several rows."""
        last = LastStep(name="last")(self.sequence, mask=self.real)
        if self.rows is None:
            return last
        return UnflattenChoices(name="together")(last, self.rows)

    def is_choice(self) -> Tensor:
        """Boolean `(B, K)`, False where a row is only padding."""
        return ops.any(ops.not_equal(self.rows, self.padding), axis=-1)


class Classify(bert_heads.Classify):
    """One class per text, logits `(B, C)`."""

    def read(self, reader: GPTTextReader, x: Any) -> Rows | None:
        return reader.read_texts(x)


class Entail(Classify):
    """One class per ordered pair of texts, logits `(B, C)`."""

    def read(self, reader: GPTTextReader, x: Any) -> Rows | None:
        return reader.read_pairs(x)


class Compare(Classify):
    """One class per unordered pair of texts, logits `(B, C)`."""

    multiple_rows = True

    def outputs(self, features: Features) -> Tensor:
        both = ops.sum(features.pooled(), axis=1)
        return self.dense(self.num_classes, "classes")(
            features.drop("class_dropout")(both)
        )

    def read(self, reader: GPTTextReader, x: Any) -> Rows | None:
        return reader.read_both_orders(x)


class Choose(Classify):
    """Multiple choice, logits `(B, K)` of the answers; missing ones are masked."""

    classes = False
    multiple_rows = True

    def outputs(self, features: Any) -> Tensor:
        pooled = features.drop("class_dropout")(features.pooled())
        logits = self.dense(1, "choice")(pooled)[..., 0]
        return MaskLogits(name="choices", dtype="float32")(logits, features.is_choice())

    def read(self, reader: GPTTextReader, x: Any) -> Rows | None:
        return reader.read_choices(x)

    def targets(self, rows: Rows, y: Any) -> tuple[np.ndarray, None]:
        y, answers = np.asarray(y), np.array(rows.places)
        bert_heads.check_labels(y, answers.max(), "answers")
        for row in np.flatnonzero(y.reshape(-1) >= answers)[:1]:
            raise ValueError(
                f"y[{row}] must be from 0 to {answers[row] - 1}, since row {row} has "
                f"{answers[row]} answers, received y[{row}]={y[row]}"
            )
        return y, None


HEADS: dict[str | None, type[bert_heads.Head]] = {
    "classify": Classify,
    "entail": Entail,
    "compare": Compare,
    "choose": Choose,
    "tag": bert_heads.Tag,
    "span": bert_heads.Span,
}


@register
class GPTTask(FineTuningMixin, TaskModel):
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
    | "tag" | `text`, or a list of words | logits `(B, T, C)`, at last tokens |
    | "span" | `text`, or `(question, text)` | logits "start" and "end", `(B, T)` |

    The special tokens [start], [delimiter] and [extract] are new ids, V to V + 2, with
    embeddings of their own; V + 3 is padding. A text may also be a list of ids without
    special tokens. An array "ids" `(B, T)`, or `(B, K, T)` for "compare" and "choose",
    must include them. A text longer than the positions is an error.

    Args:
        gpt: A `GPT`, whose weights are copied.
        head: One of the names above.
        num_classes: C, for heads with classes.
        language_model_weight: $\lambda$; 0.5 in the paper.
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
        Radford et al. 2018, figure 1. Slides D: the GPT architecture.
    """

    heads: dict[str | None, type[bert_heads.Head]] = HEADS

    def __init__(
        self,
        gpt: "GPT",
        head: str,
        *,
        num_classes: int | None = None,
        language_model_weight: float = 0.0,
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
        task = HEADS[head](num_classes)
        config = gpt.get_config()
        for name in ("dtype", sublayers.KEY):  # no layer of the new model is frozen
            del config[name]
        config["dropout"] = config["dropout"] if dropout is None else dropout
        own = type(gpt).from_config(config)
        copy_weights(gpt, own)
        size, stack = own.vocabulary_size, own.stack
        if not stack.embedding.tie_weights and not weight:
            stack.embedding.reverse_embeddings.trainable = False  # unused
        reader = GPTTextReader(
            own.tokenizer, size, own.context_length, 3 if task.multiple_rows else 2
        )
        shape = (None, None) if task.multiple_rows else (None,)
        inputs = {"ids": keras.Input(shape, dtype="int32", name="ids")}
        features = _features(
            inputs["ids"], stack, reader, task, weight, config["dropout"]
        )
        arguments = {
            "gpt": {
                "class_name": type(gpt).__name__,
                "config": config,
                "module": None,
                "registered_name": keras.saving.get_registered_name(type(gpt)),
            },
            "head": head,
            "num_classes": num_classes,
            "language_model_weight": weight,
            "dropout": dropout,
        }
        super().__init__(inputs, task.outputs(features), arguments, **kwargs)
        self.reader: GPTTextReader = reader
        self.head = head
        self.tokenizer: Tokenizer | None = own.tokenizer
        self.vocabulary_size: int = size

    def language_model(self) -> "GPT":
        """Returns a `GPT` with the current weights."""
        gpt = keras.saving.deserialize_keras_object(self._arguments["gpt"])
        copy_weights(self, gpt)
        return gpt

    def with_head(
        self,
        head: str | None,
        *,
        num_classes: int | None = None,
        language_model_weight: float | None = None,
        dropout: float | None = None,
    ) -> "GPTTask | GPT":
        """Replaces the head. Layers of both models keep their weights.

        Args:
            head: As for `GPT.with_head`, or None for a `GPT`.
            num_classes: Number of classes, for heads with classes.
            language_model_weight: As before if None.
            dropout: As before if None.

        Returns:
            A new model.

        Raises:
            ValueError: If the head is unknown, or `num_classes` does not fit it.
        """
        gpt = self.language_model()
        if head is None:
            return gpt
        weight = language_model_weight
        if weight is None:
            weight = self._arguments["language_model_weight"]
        other = type(self)(
            gpt,
            head,
            num_classes=num_classes,
            language_model_weight=weight,
            dropout=dropout,
        )
        copy_weights(self, other)
        return other


def _features(
    ids: Tensor,
    stack: Any,
    reader: GPTTextReader,
    task: bert_heads.Head,
    weight: float,
    dropout: float,
) -> GPTFeatures:
    """The hidden states of all tokens, as `GPTFeatures`."""
    size, rows = reader.vocabulary_size, ids
    if task.multiple_rows:
        ids = FlattenChoices(name="side_by_side")(rows)
    real = ops.not_equal(ids, reader.padding)
    x = stack.embedding(ops.minimum(ids, size - 1))
    x = SpecialTokenEmbedding(
        size,
        len(SPECIAL_TOKENS),
        keras.initializers.RandomNormal(stddev=0.02),
        name="mark_embedding",
    )(x, ids)
    x, _ = stack.hidden_states(x, mask=real)
    if weight:
        x = LanguageModelingLoss(weight, stack.logits, size, name="language_loss")(
            x, ids
        )
    return GPTFeatures(
        sequence=x,
        real=real,
        embedding=stack.embedding,
        dropout=dropout,
        rows=rows if task.multiple_rows else None,
        padding=reader.padding,
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


@register
class SpecialTokenEmbedding(keras.layers.Layer):
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

    def get_config(self) -> Config:
        config = {
            "first": self.first,
            "count": self.count,
            "embeddings_initializer": keras.initializers.serialize(
                self.embeddings_initializer
            ),
        }
        return {**super().get_config(), **config}


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

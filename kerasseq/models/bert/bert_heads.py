r"""The task heads of BERT: outputs, loss and labels of each task, and their layers.

With $h_t$ the hidden states of the tokens and $c = \tanh(W h_{[CLS]} + b)$:

$$
p(w_t) = \mathrm{softmax}(E\,\mathrm{LayerNorm}(\mathrm{gelu}(W_m h_t + b_m)) + b),
\qquad
p(\mathrm{next}) = \mathrm{softmax}(W_n c + b_n)
$$

for pretraining; $W c + b$ for classes, $W h_t + b$ for tags, and two logits per token
for the start and the end of an answer in a text.

Devlin et al. 2019. Course slides A, D.
"""

import dataclasses
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.arguments import drawn_seed
from kerasseq.core.dense import Dense
from kerasseq.core.masks import lowest
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.types import Shape, Tensor
from kerasseq.tasks import heads
from kerasseq.tasks.data_checks import as_array
from kerasseq.tasks.heads import MultiLabelF1, class_loss
from kerasseq.training.label_batches import Rows
from kerasseq.training.metrics import PerStep
from kerasseq.transformer.feed_forward import FEED_FORWARDS
from kerasseq.transformer.norms import LayerNormalization

NAMES = ("tokens", "pretraining", "classify", "tag", "span", "sequence", None)


def initializer() -> keras.initializers.Initializer:
    """Returns BERT's initializer, a truncated normal; a new one for each weight."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


@dataclasses.dataclass
class Features:
    """The inputs of a head.

    Attributes:
        sequence: Hidden states of the tokens, `(B, T, D)`.
        real: Boolean `(B, T)`, False at padding.
        embedding: The token embedding layer.
        embedded: Its output, `(B, T, D)`.
        dropout: Dropout rate.
        positions: Positions of masked tokens, `(B, P)`, or None.
        activation: Name of the activation.
        epsilon: Epsilon of the norms.
    """

    sequence: Any
    real: Any
    embedding: Any
    embedded: Any
    dropout: float
    positions: Any = None
    activation: str = "gelu"
    epsilon: float = 1e-12

    def pooled(self) -> Tensor:
        """Returns the pooled vector of each text, `(B, D)`."""
        first = FirstToken(name="first")(self.sequence, self.real)
        return Dense(
            first.shape[-1],
            activation="tanh",
            kernel_initializer=initializer(),
            name="pooler",
        )(first)

    def drop(self, name: str) -> keras.layers.Dropout:
        """Returns a dropout layer."""
        return keras.layers.Dropout(
            self.dropout, seed=drawn_seed(self.dropout), name=name
        )


class Head(heads.Head):
    """No task: the hidden states, "sequence" `(B, T, D)` and "pooled" `(B, D)`.

    It is the base class of BERT's heads.
    """

    takes_positions: ClassVar[bool] = False  # whether "positions" is an input

    def model_outputs(self, features: Features) -> Tensor | dict[str, Tensor]:
        """Returns the outputs of the model, hidden states until labels are learned."""
        if self.is_waiting:
            return {"sequence": features.sequence}
        return self.outputs(features)

    def outputs(self, features: Features) -> Tensor | dict[str, Tensor]:
        """Returns the outputs of the task."""
        return {"sequence": features.sequence, "pooled": features.pooled()}

    def dense(self, units: int, name: str, **options: Any) -> keras.layers.Dense:
        """Returns a dense output layer, in float32."""
        return Dense(
            units,
            kernel_initializer=initializer(),
            dtype=scores_dtype(),
            name=name,
            **options,
        )


class Sequence(Head):
    """No task, and no pooler: the hidden states, "sequence" `(B, T, D)`."""

    def outputs(self, features: Features) -> dict[str, Tensor]:
        return {"sequence": features.sequence}


class Tokens(Head):
    """Masked language modeling, "tokens" `(B, P, V)`."""

    takes_positions: ClassVar[bool] = True
    needs_targets: ClassVar[bool] = True
    wanted: ClassVar[str] = (
        'expected y, the ids at "positions", {"tokens": (rows, positions)}, with '
        'head="pretraining" also "next" (rows,); or documents and head="pretraining"'
    )

    def outputs(self, features: Features) -> dict[str, Tensor]:
        h = GatherPositions(name="asked")(features.sequence, features.positions)
        h = Dense(
            h.shape[-1],
            activation=FEED_FORWARDS[features.activation][0],
            kernel_initializer=initializer(),
            name="token_dense",
        )(h)
        h = LayerNormalization(epsilon=features.epsilon, name="token_norm")(h)
        logits = features.embedding(h, reverse=True)
        return {"tokens": Bias(name="tokens", dtype=scores_dtype())(logits)}

    def targets(
        self, rows: Rows, y: Any, class_weight: Any = None
    ) -> tuple[dict[str, Any], None]:
        heads.check_no_class_weight(class_weight)
        names = sorted(self.loss())
        array = as_array(y)
        if names != ["tokens"] or array is None or array.ndim < 2:
            raise ValueError(
                f"y must be a dictionary of arrays of {names}, received "
                f"{checks.short(y)}"
            )
        return {"tokens": y}, None

    def loss(self) -> dict[str, keras.losses.Loss]:
        return {"tokens": _cross_entropy()}

    def metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        return {"tokens": [PerStep(_accuracy())]}


class Pretraining(Tokens):
    """Masked language modeling, and next sentence prediction, "next" `(B, 2)`."""

    def outputs(self, features: Features) -> dict[str, Tensor]:
        tokens = super().outputs(features)
        return {**tokens, "next": self.dense(2, "next")(features.pooled())}

    def loss(self) -> dict[str, keras.losses.Loss]:
        return {**super().loss(), "next": _cross_entropy()}

    def metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        return {**super().metrics(), "next": [_accuracy()]}


class Classify(heads.ClassHead, Head):
    """The class of a text or pair, or several, logits `(B, C)`."""

    weighs_metrics: ClassVar[bool] = True

    def outputs(self, features: Features) -> Tensor:
        pooled = features.drop("class_dropout")(features.pooled())
        return self.dense(self.labels.count, "classes")(pooled)

    def loss(self) -> keras.losses.Loss:
        return class_loss(self.multi_label, reduction="mean_with_sample_weight")

    def metrics(self) -> list[keras.metrics.Metric]:
        if self.multi_label:
            return [MultiLabelF1(from_logits=True)]
        return [_accuracy()]


class Tag(heads.TagHead, Classify):
    """One class per token, logits `(B, T, C)`; for words, at their first tokens."""

    def outputs(self, features: Features) -> Tensor:
        h = features.drop("tag_dropout")(features.sequence)
        return self.dense(self.labels.count, "tags")(h)


class Span(Head):
    """Start and end of an answer, logits "start" and "end", each `(B, T)`."""

    is_new: ClassVar[bool] = True

    def outputs(self, features: Features) -> dict[str, Tensor]:
        logits = self.dense(2, "span")(features.sequence)
        return {
            name: MaskLogits(name=name)(logits[..., n], features.real)
            for n, name in enumerate(("start", "end"))
        }

    def read(self, preprocessor: Any, x: Any) -> Rows | None:
        return preprocessor.context_rows(x)

    def targets(
        self, rows: Rows, y: Any, class_weight: Any = None
    ) -> tuple[dict[str, np.ndarray], None]:
        heads.check_no_class_weight(class_weight)
        if rows.places is not None:
            y = [
                _tokens(*place, span)
                for place, span in zip(rows.places, y, strict=True)
            ]
        given = y
        y, length = as_array(y), rows.arrays["ids"].shape[-1]
        if y is None or y.shape[1:] != (2,):
            raise ValueError(
                "y must be the first and the last index of each answer, (rows, 2), "
                f"received {checks.short(given)}"
            )
        check_labels(y, length, "the length of a row")
        if np.any(y[:, 0] > y[:, 1]):
            raise ValueError(
                "y must be the first and the last index of each answer, (rows, 2), "
                "received "
                f"{y.tolist()}"
            )
        y = y.astype("int32")
        return {"start": y[:, 0], "end": y[:, 1]}, None

    def loss(self) -> dict[str, keras.losses.Loss]:
        return {"start": _cross_entropy(), "end": _cross_entropy()}

    def metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        return {"start": [_accuracy()], "end": [_accuracy()]}


HEADS: dict[str | None, type[Head]] = dict(
    zip(
        NAMES,
        (Tokens, Pretraining, Classify, Tag, Span, Sequence, Head),
        strict=True,
    )
)


def _cross_entropy() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )


def _accuracy() -> keras.metrics.Metric:
    """Returns the metric as an object: its variables exist before a step is traced."""
    return keras.metrics.SparseCategoricalAccuracy("accuracy")


def check_labels(labels: np.ndarray, size: int, name: str) -> None:
    """Raises unless all labels are integers from 0 to `size - 1`.

    Examples:
        >>> check_labels(np.array([0, 3]), 3, "answers")
        Traceback (most recent call last):
        ...
        ValueError: labels must be from 0 to 2 for answers=3, received 3
    """
    if labels.size and not np.issubdtype(labels.dtype, np.integer):
        raise TypeError(f"labels must be whole numbers, received y of {labels.dtype}")
    if labels.size and not 0 <= labels.min() <= labels.max() < size:
        wrong = labels.min() if labels.min() < 0 else labels.max()
        raise ValueError(
            f"labels must be from 0 to {size - 1} for {name}={size}, received {wrong}"
        )


def _tokens(
    offsets: np.ndarray,
    first: int,
    none: int,
    length: int,
    span: tuple[int, int] | None,
) -> tuple[int, int]:
    """Returns the first and last token of a character span; `none` twice for no answer.

    Examples:
        >>> offsets = np.array([[0, 2], [3, 5], [5, 9]])
        >>> _tokens(offsets, 1, 0, 9, (3, 9)), _tokens(offsets, 1, 0, 9, None)
        ((2, 3), (0, 0))
    """
    if span is None:
        return none, none
    is_pair = isinstance(span, tuple | list | np.ndarray) and len(span) == 2
    if not is_pair or not all(isinstance(at, int | np.integer) for at in span):
        raise TypeError(
            "an answer must be a span (start, end) of its text, or None, received "
            f"{checks.short(span)}"
        )
    start, end = span
    inside = np.flatnonzero((offsets[:, 1] > start) & (offsets[:, 0] < end))
    if not 0 <= start < end <= length or not len(inside):
        raise ValueError(
            f"an answer must be a span (start, end) of its text of {length} characters "
            f"with at least one token, received {span}"
        )
    return first + int(inside[0]), first + int(inside[-1])


@register
class FirstToken(keras.layers.Layer):
    """Selects the first real token, `[CLS]`, `(B, T, D)` to `(B, D)`.

    Examples:
        >>> x = np.arange(6.0).reshape(1, 3, 2)
        >>> y = FirstToken()(x, np.array([[False, True, True]]))
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[2.0, 3.0]]
    """

    def call(self, sequence: Tensor, real: Tensor) -> Tensor:
        first = ops.cast(ops.argmax(ops.cast(real, "int32"), axis=1), "int32")
        return at_positions(sequence, first[:, None])[:, 0]

    def compute_output_shape(
        self, sequence_shape: Shape, real_shape: Shape | None = None
    ) -> Shape:
        return sequence_shape[0], sequence_shape[-1]


@register
class GatherPositions(keras.layers.Layer):
    """Gathers hidden states at the given positions, `(B, T, D)` to `(B, P, D)`.

    Examples:
        >>> x = np.arange(6.0).reshape(1, 3, 2)
        >>> y = GatherPositions()(x, np.array([[2, 0]]))
        >>> keras.ops.convert_to_numpy(y).tolist()
        [[[4.0, 5.0], [0.0, 1.0]]]
    """

    def call(self, sequence: Tensor, positions: Tensor) -> Tensor:
        return at_positions(sequence, positions)

    def compute_output_shape(
        self, sequence_shape: Shape, positions_shape: Shape
    ) -> Shape:
        return (*positions_shape, sequence_shape[-1])


def at_positions(sequence: Tensor, positions: Tensor) -> Tensor:
    """Returns `(B, T, D)` at positions `(B, P)`."""
    return kernels.take_steps(sequence, positions)


@register
class Bias(keras.layers.Layer):
    """Adds a bias to each feature, in float32.

    Examples:
        >>> keras.ops.shape(Bias()(np.zeros((2, 3, 5))))
        (2, 3, 5)
    """

    def build(self, input_shape: Shape) -> None:
        self.bias: keras.Variable = self.add_weight(
            name="bias", shape=(input_shape[-1],), initializer="zeros"
        )
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        return ops.cast(x, self.compute_dtype) + self.bias

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape


@register
class MaskLogits(keras.layers.Layer):
    """Sets masked logits `(B, T)` to the lowest number, so that softmax gives 0.

    Examples:
        >>> y = MaskLogits()(np.ones((1, 2)), np.array([[True, False]]))
        >>> keras.ops.convert_to_numpy(keras.ops.softmax(y)).tolist()
        [[1.0, 0.0]]
    """

    def call(self, logits: Tensor, real: Tensor) -> Tensor:
        return ops.where(real, logits, lowest(logits.dtype))

    def compute_output_shape(
        self, logits_shape: Shape, real_shape: Shape | None = None
    ) -> Shape:
        return logits_shape

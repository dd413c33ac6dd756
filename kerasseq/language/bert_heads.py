r"""What stands on top of BERT: each task has its outputs, its loss, and its labels.

With $h_t$ the vectors of the tokens and $c = \tanh(W h_{[CLS]} + b)$:

$$
p(w_t) = \mathrm{softmax}(E\,\mathrm{LayerNorm}(\mathrm{gelu}(W_m h_t + b_m)) + b),
\qquad
p(\mathrm{next}) = \mathrm{softmax}(W_n c + b_n)
$$

for pre-training; for a class $W c + b$, for tags $W h_t + b$, and for an answer within
a text two logits at each token, whether it begins and whether it ends there.

Devlin et al. 2019. Course slides A, C.
"""

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.language.bert_layers import AtPositions, Bias, OnlyReal
from kerasseq.transformer.feed_forward import FEED_FORWARDS
from kerasseq.transformer.norms import LayerNormalization

NAMES = ("tokens", "pretraining", "classify", "tag", "span", "sequence", None)


def initializer():
    """Of all kernels and tables: normal, cut off, of deviation 0.02; one for each."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


class Head:
    """No task: the vectors themselves, "sequence" `(B, T, D)` and "pooled" `(B, D)`.

    Args:
        num_classes: Number of classes, if the task has any.
    """

    classes = False  # whether there must be a number of them
    asks = False  # whether there is a third input, positions
    several = False  # whether each example is several rows

    def __init__(self, num_classes=None):
        if self.classes:
            checks.whole_number("num_classes", num_classes, at_least=2)
        elif num_classes is not None:
            raise ValueError(
                f'num_classes={num_classes} is for head="classify" or head="tag", for '
                "example: this one has no classes"
            )
        self.num_classes = num_classes

    def outputs(self, trunk):
        """The outputs of the model, from what `BERT` has built below."""
        return {"sequence": trunk.sequence, "pooled": trunk.pooled()}

    def read(self, reader, x):
        """Inputs as `Rows`, or None."""
        return reader.read(x)

    def targets(self, rows, y):
        """Labels and their weights, as Keras takes them."""
        return y, None

    def loss(self):
        return None

    def metrics(self):
        return None

    def dense(self, units, name, **options):
        """A dense layer at the top, which computes in float32."""
        return keras.layers.Dense(
            units,
            kernel_initializer=initializer(),
            dtype="float32",
            name=name,
            **options,
        )


class Sequence(Head):
    """No task, and no pooler: the vectors themselves, "sequence" `(B, T, D)`."""

    def outputs(self, trunk):
        return {"sequence": trunk.sequence}


class Tokens(Head):
    """Masked words, "tokens" `(B, P, V)`."""

    asks = True

    def outputs(self, trunk):
        h = AtPositions(name="asked")(trunk.sequence, trunk.positions)
        h = keras.layers.Dense(
            h.shape[-1],
            activation=FEED_FORWARDS[trunk.activation][0],
            kernel_initializer=initializer(),
            name="token_dense",
        )(h)
        h = LayerNormalization(epsilon=trunk.epsilon, name="token_norm")(h)
        logits = trunk.embedding(h, reverse=True)
        return {"tokens": Bias(name="tokens", dtype="float32")(logits)}

    def loss(self):
        return {"tokens": _cross_entropy()}

    def metrics(self):
        return {"tokens": [_accuracy()]}


class Pretraining(Tokens):
    """Masked words, and next sentence, "next" `(B, 2)`."""

    def outputs(self, trunk):
        tokens = super().outputs(trunk)
        return {**tokens, "next": self.dense(2, "next")(trunk.pooled())}

    def loss(self):
        return {**super().loss(), "next": _cross_entropy()}

    def metrics(self):
        return {**super().metrics(), "next": [_accuracy()]}


class Classify(Head):
    """A class for each text or pair, logits `(B, C)`."""

    classes = True

    def outputs(self, trunk):
        pooled = trunk.drop("class_dropout")(trunk.pooled())
        return self.dense(self.num_classes, "classes")(pooled)

    def targets(self, rows, y):
        y = np.asarray(y)
        check_labels(y, self.num_classes)
        return y, None

    def loss(self):
        return _cross_entropy()

    def metrics(self):
        return [_accuracy()]


class Tag(Classify):
    """A class for each token, logits `(B, T, C)`; for words, at their first pieces."""

    def outputs(self, trunk):
        h = trunk.drop("tag_dropout")(trunk.sequence)
        return self.dense(self.num_classes, "tags")(h)

    def read(self, reader, x):
        return reader.read_words(x)

    def targets(self, rows, y):
        ids = rows.arrays["ids"]
        if rows.places is None:
            y = np.asarray(y)
            check_labels(y[y >= 0], self.num_classes)
            return np.maximum(y, 0), (y >= 0).astype("float32")
        labels, weights = np.zeros(ids.shape, "int32"), np.zeros(ids.shape, "float32")
        for row, (places, tags) in enumerate(zip(rows.places, y, strict=True)):
            if len(places) != len(tags):
                raise ValueError(
                    f"text {row} has {len(places)} words but {len(tags)} tags"
                )
            check_labels(np.asarray(tags), self.num_classes)
            labels[row, places], weights[row, places] = tags, 1
        return labels, weights


class Span(Head):
    """Where an answer begins and ends, logits "start" and "end", each `(B, T)`."""

    def outputs(self, trunk):
        logits = self.dense(2, "span")(trunk.sequence)
        return {
            name: OnlyReal(name=name)(logits[..., n], trunk.real)
            for n, name in enumerate(("start", "end"))
        }

    def read(self, reader, x):
        return reader.read_contexts(x)

    def targets(self, rows, y):
        if rows.places is not None:
            y = [
                _tokens(*place, span)
                for place, span in zip(rows.places, y, strict=True)
            ]
        y, length = np.asarray(y), rows.arrays["ids"].shape[-1]
        check_labels(y, length, "the length of a row")
        if y.shape[1:] != (2,) or np.any(y[:, 0] > y[:, 1]):
            raise ValueError(
                "y must be the first and the last place of each answer, (rows, 2), got "
                f"{y.tolist()}"
            )
        y = y.astype("int32")
        return {"start": y[:, 0], "end": y[:, 1]}, None

    def loss(self):
        return {"start": _cross_entropy(), "end": _cross_entropy()}

    def metrics(self):
        return {"start": [_accuracy()], "end": [_accuracy()]}


HEADS = dict(
    zip(
        NAMES,
        (Tokens, Pretraining, Classify, Tag, Span, Sequence, Head),
        strict=True,
    )
)


def _cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )


def _accuracy():
    """The metric itself: what it counts in is made before a step is traced."""
    return keras.metrics.SparseCategoricalAccuracy("accuracy")


def check_labels(labels, size, name="num_classes"):
    """Raise unless all are whole numbers from 0 to below `size`.

    Examples:
        >>> check_labels(np.array([0, 3]), 3)
        Traceback (most recent call last):
        ...
        ValueError: y has the label 3, but num_classes=3 allows 0 to 2
    """
    if labels.size and not np.issubdtype(labels.dtype, np.integer):
        raise TypeError(
            f"labels must be whole numbers, got y of {labels.dtype}: number the "
            "classes from 0"
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < size:
        wrong = labels.min() if labels.min() < 0 else labels.max()
        raise ValueError(
            f"y has the label {wrong}, but {name}={size} allows 0 to {size - 1}"
        )


def _tokens(offsets, first, none, length, span):
    """The first and the last token of a stretch of characters; `none` twice for none.

    Examples:
        >>> offsets = np.array([[0, 2], [3, 5], [5, 9]])
        >>> _tokens(offsets, 1, 0, 9, (3, 9)), _tokens(offsets, 1, 0, 9, None)
        ((2, 3), (0, 0))
    """
    if span is None:
        return none, none
    start, end = span
    inside = np.flatnonzero((offsets[:, 1] > start) & (offsets[:, 0] < end))
    if not 0 <= start < end <= length or not len(inside):
        raise ValueError(
            f"the answer {span} is no stretch with tokens of its text, which has "
            f"{length} characters"
        )
    return first + int(inside[0]), first + int(inside[-1])

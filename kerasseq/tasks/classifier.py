"""Sequence classification: many to one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor
from kerasseq.tasks import text_inputs
from kerasseq.tasks.labeling import SequenceLabeler
from kerasseq.tasks.labels import Label
from kerasseq.tasks.step_by_step import Steps, step_by_step
from kerasseq.text.tokenizer import Tokenizer


class Classification(NamedTuple):
    """The class of one input.

    Attributes:
        label: The most probable label; for several labels at once, the list of those
            with a probability of at least the threshold.
        probability: Its probability; for several labels, that of each in `label`.
        probabilities: The probability of each label.
    """

    label: Any
    probability: Any
    probabilities: dict[Label, float]


@register
class SequenceClassifier(SequenceLabeler):
    r"""Classifies a sequence, from the output at its last real step.

    $$y = W h_T + b$$

    The inputs are texts, ids or vectors:

    | argument | inputs |
    |---|---|
    | `tokenizer` | strings: a list, an array, a column of a table, a `tf.data` set |
    | `vocabulary_size` | ids: lists, or an array `(rows, time)` with padding 0 |
    | `features` | vectors: an array `(rows, time, features)` |

    Args:
        architecture: "elman", "gated", "lstm", "peephole_lstm", "full_peephole_lstm",
            "coupled_lstm", "gru", "transformer", or a layer with outputs
            `(batch, units)` or `(batch, time, units)`.
        labels: The names of the classes; their number, for labels from 0 on; or None:
            `fit` learns the names.
        tokenizer: A fitted tokenizer; or "character", "word", "bpe", "wordpiece" or
            "unigram": `fit` trains it on the texts, with at most 1000 tokens.
        multi_label: Whether an input may have several labels, or none. Labels are lists
            then, or arrays of 0 and 1.
        vocabulary_size: Number of ids, if the inputs are ids.
        features: Number of features, if the inputs are vectors.
        units: Units of each layer, for an architecture by name.
        num_layers: Number of layers, for an architecture by name.
        bidirectional: Whether an output of a layer may depend on later steps: recurrent
            layers run in both directions, and the attention of a Transformer is not
            causal.
        dropout: Dropout rate of the inputs of each layer.
        embedding_dim: Size of the embedding of an id. `units` if None.
        mask_value: For vectors: a step whose features all have this value is padding.
        activation: "softmax" for probabilities, "sigmoid" with `multi_label`; None for
            logits, which train the same.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a name or number is wrong, or not exactly one of `tokenizer`,
            `vocabulary_size` and `features` is given.

    Examples:
        >>> model = SequenceClassifier("gru", tokenizer="character", units=3)
        >>> history = model.fit(["ja", "nein"], ["yes", "no"], verbose=0)
        >>> model.labels, model.classify("ja").label in model.labels
        (['no', 'yes'], True)
        >>> model = SequenceClassifier("gru", 2, vocabulary_size=11, units=3)
        >>> model.predict(np.array([[4, 7, 1, 0]]), verbose=0).shape
        (1, 2)

    References:
        Slides B, C: many to one.
    """

    def __init__(
        self,
        architecture: str | keras.Layer,
        labels: int | Sequence[Label] | None = None,
        *,
        tokenizer: Tokenizer | str | None = None,
        multi_label: bool = False,
        vocabulary_size: int | None = None,
        features: int | None = None,
        units: int = 64,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        embedding_dim: int | None = None,
        mask_value: float | None = None,
        activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        function = "sigmoid" if checks.flag("multi_label", multi_label) else "softmax"
        arguments = {
            "architecture": architecture,
            "labels": labels,
            "tokenizer": tokenizer,
            "multi_label": multi_label,
            "vocabulary_size": vocabulary_size,
            "features": features,
            "units": units,
            "num_layers": num_layers,
            "bidirectional": bidirectional,
            "dropout": dropout,
            "embedding_dim": embedding_dim,
            "mask_value": mask_value,
            "activation": checks.one_of("activation", activation, [None, function]),
        }
        super().__init__(arguments, **kwargs)

    def default_loss(self) -> keras.losses.Loss:
        if not self._arguments["multi_label"]:
            return super().default_loss()
        logits = self._arguments["activation"] is None
        return keras.losses.BinaryCrossentropy(from_logits=logits)

    def default_metrics(self) -> list[Any]:
        if not self._arguments["multi_label"]:
            return ["accuracy"]
        return [MultiLabelF1(from_logits=self._arguments["activation"] is None)]

    def classify(
        self, x: Any, *, threshold: float = 0.5, batch_size: int = 32
    ) -> Classification | list[Classification]:
        """Finds the most probable label, or with `multi_label` all probable ones.

        Args:
            x: One text, or inputs as for `fit`.
            threshold: With `multi_label`: the least probability of a label.
            batch_size: Rows that are processed at once.

        Returns:
            A `Classification` for one text, else a list of them.

        Raises:
            ValueError: If the labels have not been learned yet.

        Examples:
            >>> from kerasseq.text import CharacterTokenizer
            >>> tokenizer = CharacterTokenizer().fit("yes no")
            >>> model = SequenceClassifier("gru", ["no", "yes"], tokenizer=tokenizer)
            >>> [each.label in ("no", "yes") for each in model.classify(["no", "on"])]
            [True, True]
        """
        threshold = checks.fraction("threshold", threshold)
        if isinstance(x, str):
            return self.classify([x], threshold=threshold, batch_size=batch_size)[0]
        p = self.probabilities(self.predict(x, batch_size=batch_size, verbose=0))
        return [self._classification(row, threshold) for row in p.tolist()]

    def step_by_step(self, x: Any) -> Steps:
        """Computes states, gates and the probabilities of the labels after each step.

        Recurrent layers and causal Transformers take one pass; where an output depends
        on later steps, the model classifies each prefix.

        Args:
            x: One text, ids `(T,)`, or vectors `(T, features)`, as for `fit`.

        Returns:
            A `Steps` tuple: tokens, labels, probabilities `(T, labels)`, and values by
            path, such as `"lstm/forget_gate"` `(T, units)`.

        Raises:
            TypeError: If the input has the wrong type.
            ValueError: If the labels have not been learned yet, or `x` is empty.

        Examples:
            >>> from kerasseq.text import CharacterTokenizer
            >>> tokenizer = CharacterTokenizer().fit("()")
            >>> model = SequenceClassifier("lstm", 2, tokenizer=tokenizer, units=3)
            >>> steps = model.step_by_step("(())")
            >>> steps.tokens, steps.probabilities.shape
            (['(', '(', ')', ')'], (4, 2))
            >>> steps.values["lstm/forget_gate"].shape
            (4, 3)
        """
        return step_by_step(self, x)

    def probabilities(self, outputs: Any) -> np.ndarray:
        """Converts outputs of `predict` to probabilities."""
        if self._arguments["activation"] is not None:
            return np.asarray(outputs)
        function = ops.sigmoid if self._arguments["multi_label"] else ops.softmax
        return ops.convert_to_numpy(function(ops.convert_to_tensor(outputs)))

    def _classification(self, row, threshold):
        p = dict(zip(self.labels, row, strict=True))
        if not self._arguments["multi_label"]:
            label = max(p, key=p.get)
            return Classification(label, p[label], p)
        found = [label for label in p if p[label] >= threshold]
        return Classification(found, [p[label] for label in found], p)

    def text_rows(self, tokenizer: Tokenizer, x: Any) -> tuple[list[np.ndarray], None]:
        x = [x] if isinstance(x, str) else x
        if not text_inputs.are_texts(x):
            raise TypeError(
                "x must be a list of strings, as the model has a tokenizer, received "
                f"{checks.short(x)}"
            )
        return text_inputs.text_rows(tokenizer, x), None

    def texts_of(self, x: Any) -> list[str] | None:
        return list(x) if text_inputs.are_texts(x) else None

    def all_labels(self, y: Any) -> Any:
        if self._arguments["multi_label"] and getattr(y, "ndim", 1) == 2:
            raise ValueError(
                "labels must be named, or their number given, for labels of 0 and 1; "
                "received labels=None"
            )
        return y

    def targets(
        self, rows: Any, y: Any, first: Any, class_weight: Any
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if self._arguments["multi_label"]:
            if class_weight is not None:
                raise ValueError(
                    "class_weight must be None with multi_label=True, where a row has "
                    f"several labels or none, received {class_weight!r}"
                )
            return self._labels.encode_sets(y), None
        y = self._labels.encode(y)
        weights = self.weights_of(class_weight, y)
        return y, None if weights is None else weights[y]


@register
class MultiLabelF1(keras.metrics.F1Score):
    r"""F1 over all pairs of an input and a label, at a probability of 0.5.

    $$F_1 = \frac{2\,TP}{2\,TP + FP + FN}$$

    Args:
        from_logits: Whether predictions are logits.
        name: Name of the metric.
        **kwargs: As for `keras.metrics.Metric`.

    Examples:
        >>> f1 = MultiLabelF1(from_logits=True)
        >>> f1.update_state(np.array([[1.0, 0.0]]), np.array([[3.0, 2.0]]))
        >>> round(float(f1.result()), 3)
        0.667
    """

    def __init__(
        self, from_logits: bool = False, name: str = "f1", **kwargs: Any
    ) -> None:
        super().__init__(average="micro", threshold=0.5, name=name, **kwargs)
        self.from_logits = from_logits

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        y_pred = ops.convert_to_tensor(y_pred)
        if self.from_logits:
            y_pred = ops.sigmoid(y_pred)
        super().update_state(y_true, y_pred, sample_weight)

    def get_config(self) -> Mapping[str, Any]:
        config = super().get_config()
        return {
            "from_logits": self.from_logits,
            "name": config["name"],
            "dtype": config["dtype"],
        }

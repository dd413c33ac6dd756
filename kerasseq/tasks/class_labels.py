"""What models that assign classes share: the outputs as labels by name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Tensor
from kerasseq.tasks.labeled import LabelsMixin, is_one_text
from kerasseq.tasks.labels import Label, Labels


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


class ClassLabels(LabelsMixin):
    """Loss, metrics and `classify` of a model that assigns classes.

    A mixin for a model whose outputs have a score for each label, and whose
    `_arguments` have `multi_label` and `activation`.
    """

    _arguments: Config

    @property
    def multi_label(self) -> bool:
        """Whether an input may have several labels at once."""
        return self._arguments["multi_label"]

    @property
    def outputs_are_logits(self) -> bool:
        """Whether `predict` returns logits, and not probabilities."""
        return self._arguments["activation"] is None

    def default_loss(self) -> Any:
        return class_loss(self.multi_label, self.outputs_are_logits)

    def default_metrics(self) -> Any:
        if not self.multi_label:
            return ["accuracy"]
        return [MultiLabelF1(from_logits=self.outputs_are_logits)]

    def classify(
        self,
        x: Any,
        *,
        threshold: float = 0.5,
        batch_size: int = 32,
        missing: str = "error",
    ) -> Classification | list[Classification]:
        """Finds the most probable label, or with `multi_label` all probable ones.

        Args:
            x: One input, such as a text, or several as for `fit`.
            threshold: With `multi_label`: the least probability of a label.
            batch_size: Rows that are processed at once.
            missing: "skip" leaves rows with an empty cell (None, NaN, or a text or word
                "") without prediction, and warns with their number; by default they are
                an error.

        Returns:
            A `Classification` for one input, else a list of them; None for rows that
            are left out.

        Raises:
            ValueError: If the labels have not been learned yet, or cells are empty.

        Examples:
            >>> from kerasseq.models import SequenceClassifier
            >>> from kerasseq.text import CharacterTokenizer
            >>> tokenizer = CharacterTokenizer().fit("yes no")
            >>> model = SequenceClassifier("gru", ["no", "yes"], tokenizer=tokenizer)
            >>> [each.label in ("no", "yes") for each in model.classify(["no", "on"])]
            [True, True]
        """
        threshold = checks.fraction("threshold", threshold)

        def classified(rows):
            outputs = self.scores_of(rows, batch_size=batch_size, verbose=0)
            return self.classifications(outputs, threshold)

        if self.is_one_input(x):
            return classified([x])[0]
        return self.for_complete_rows(classified, x, missing)

    def several(self, x: Any) -> Any:
        """Returns one input as a list with it, others as they are."""
        return [x] if self.is_one_input(x) else x

    def is_one_input(self, x: Any) -> bool:
        """Whether `classify` received one input, and not a list or a batch."""
        return is_one_text(x)

    def probabilities(self, outputs: Any) -> np.ndarray:
        """Converts outputs of `predict` to probabilities."""
        if not self.outputs_are_logits:
            return np.asarray(outputs)
        function = ops.sigmoid if self.multi_label else ops.softmax
        return ops.convert_to_numpy(function(ops.convert_to_tensor(outputs)))

    def classifications(
        self, outputs: Any, threshold: float = 0.5
    ) -> list[Classification]:
        """Converts outputs of `predict` to labels with probabilities.

        Args:
            outputs: `(rows, labels)`.
            threshold: With `multi_label`: the least probability of a label.
        """
        rows = self.probabilities(outputs).tolist()
        return [self._classification(row, threshold) for row in rows]

    def _classification(self, row, threshold):
        p = dict(zip(self.labels, row, strict=True))
        if not self.multi_label:
            label = max(p, key=p.get)
            return Classification(label, p[label], p)
        found = [label for label in p if p[label] >= threshold]
        return Classification(found, [p[label] for label in found], p)

    def all_labels(self, y: Any) -> Any:
        """Returns the labels of the data, to learn the distinct ones."""
        if self.multi_label and getattr(y, "ndim", 1) == 2:
            raise ValueError(
                "labels must be named, or their number given, for labels of 0 and 1; "
                "received labels=None"
            )
        return y

    def class_targets(
        self, y: Any, class_weight: str | Mapping[Any, float] | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Converts labels to targets of the loss, and returns them with sample weights.

        Args:
            y: As for `fit`.
            class_weight: As for `fit`.
        """
        return encode_classes(self._labels, y, self.multi_label, class_weight)


def encode_classes(
    labels: Labels,
    y: Any,
    multi_label: bool = False,
    class_weight: str | Mapping[Any, float] | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Converts labels to targets of the loss, and returns them with sample weights.

    Args:
        labels: The labels of the model.
        y: A label for each row; with `multi_label`, a list of labels for each, or an
            array of 0 and 1.
        multi_label: Whether a row may have several labels.
        class_weight: As for `fit`.

    Examples:
        >>> encode_classes(Labels(["cat", "dog"]), ["dog", "cat"])[0].tolist()
        [1, 0]
    """
    if multi_label:
        if class_weight is not None:
            raise ValueError(
                "class_weight must be None with multi_label=True, where a row has "
                f"several labels or none, received {class_weight!r}"
            )
        return labels.encode_sets(y), None
    y = labels.encode(y)
    weights = labels.weights(class_weight, y)
    return y, None if weights is None else weights[y]


def class_loss(
    multi_label: bool, from_logits: bool = True, **options: Any
) -> keras.losses.Loss:
    """Returns the cross-entropy of one label, or of several at once."""
    if multi_label:
        return keras.losses.BinaryCrossentropy(from_logits=from_logits, **options)
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=from_logits, **options
    )


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

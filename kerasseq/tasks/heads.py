"""Heads: the labels of a model, their loss and metrics, and what its outputs mean."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Tensor
from kerasseq.tasks.data_checks import (
    check_labels_of_rows,
    product_of_weights,
    sample_weights,
)
from kerasseq.tasks.labels import Label, Labels, check_single, learned
from kerasseq.tasks.tagging import all_tags, row_targets, weighted_tags
from kerasseq.training.label_batches import Rows

# Of one output, or of several by name.
Loss: TypeAlias = keras.losses.Loss | dict[str, keras.losses.Loss] | None
Metrics: TypeAlias = list[Any] | dict[str, list[keras.metrics.Metric]] | None


class Head:
    """The base of the heads, without labels.

    Args:
        labels: The number or names of the labels, for a head with labels; None if they
            are to be learned.
        multi_label: Whether a row may have several labels.
        activation: Of the outputs; None for logits.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the head does not have it, or there are too few labels.
    """

    has_labels: ClassVar[bool] = False
    is_new: ClassVar[bool] = False  # to each task: trained whole beside LoRA
    per_step: ClassVar[bool] = False  # whether each step has a label
    multiple_rows: ClassVar[bool] = False  # whether an example has several rows
    least_labels: ClassVar[int] = 2
    weighs_metrics: ClassVar[bool] = True  # by sample weights
    by_length: ClassVar[bool] = False  # whether outputs have no padding
    needs_targets: ClassVar[bool] = False  # whether arrays need y, too, without labels
    wanted: ClassVar[str] = "expected labels y for the inputs"  # where there is no y
    evaluated_by: ClassVar[str | None] = None  # the method of targets without a report

    def __init__(
        self,
        labels: int | Sequence[Label] | None = None,
        multi_label: bool = False,
        activation: str | None = None,
    ) -> None:
        self.multi_label: bool = checks.flag("multi_label", multi_label)
        if labels is not None and not self.has_labels:
            raise ValueError(
                "labels must be None for a head without labels, received "
                f'{checks.short(labels)}. head="classify" and head="tag" have labels'
            )
        if self.multi_label and (self.per_step or not self.has_labels):
            raise ValueError(
                "multi_label must be False for a head that does not classify texts, "
                'received True. head="classify" can have several labels'
            )
        self.labels: Labels | None = None
        if labels is not None:
            self.labels = Labels(labels, at_least=self.least_labels)
        self.activation = activation

    @property
    def is_waiting(self) -> bool:
        """Whether the labels have to be learned before the head can be built."""
        return self.has_labels and self.labels is None

    def read(self, preprocessor: Any, x: Any) -> Rows | None:
        """Converts inputs to rows; None if Keras takes them as they are."""
        return preprocessor.rows(x)

    def all_labels(self, y: Any) -> Any:
        """Returns the labels of some data, to learn the distinct ones."""
        return y

    def learned(self, arguments: Config, x: Any, y: Any) -> Config:
        """Returns the arguments of a model that are learned from labels.

        Args:
            arguments: The arguments of the model.
            x: The inputs, for the message.
            y: The labels.

        Raises:
            ValueError: If there are none.
        """
        if not self.is_waiting:
            return {}
        if y is None:
            raise ValueError(
                f"{self.wanted}, or a model with labels=[...]; received y=None and "
                f"x={checks.short(x)}"
            )
        return {"labels": learned(self.all_labels(y))}

    def targets(
        self, rows: Rows, y: Any, class_weight: Any = None
    ) -> tuple[Any, np.ndarray | None]:
        """Converts labels to targets of the loss, and returns them with weights."""
        check_no_class_weight(class_weight)
        return y, None

    def weighted_targets(
        self, rows: Rows, y: Any, sample_weight: Any = None, class_weight: Any = None
    ) -> tuple[Any, Any]:
        """Converts labels to targets, and returns them with all weights.

        Args:
            rows: The rows.
            y: Their labels.
            sample_weight: Weight of each row, or of each step; or None.
            class_weight: As for `fit`.
        """
        check_labels_of_rows(y, len(rows))
        y, weights = self.targets(rows, y, class_weight)
        steps = rows.steps if self.per_step and rows.is_array else None
        given = sample_weights(sample_weight, len(rows), steps)
        if given is not None and given.ndim == 2:  # of ids that are padded
            given = np.pad(given, ((0, 0), (0, y.shape[1] - steps)))
        return y, product_of_weights(weights, given)

    def loss(self) -> Loss:
        return None

    def metrics(self) -> Metrics:
        return None

    def probabilities(self, outputs: Any) -> np.ndarray:
        """Converts outputs of the model to probabilities."""
        if self.activation is not None:
            return np.asarray(outputs)
        function = ops.sigmoid if self.multi_label else ops.softmax
        return ops.convert_to_numpy(function(ops.convert_to_tensor(outputs)))


class ClassHead(Head):
    """A label for each row, or several."""

    has_labels: ClassVar[bool] = True
    is_new: ClassVar[bool] = True
    by_length: ClassVar[bool] = True
    weighs_metrics: ClassVar[bool] = False

    def all_labels(self, y: Any) -> Any:
        if self.multi_label and getattr(y, "ndim", 1) == 2:
            raise ValueError(
                "labels must be named, or their number given, for labels of 0 and 1; "
                f"received labels=None and y {y.shape}. Make the model with "
                f"labels=list(table.columns), or labels={y.shape[1]}, or pass lists of "
                'labels, such as y=[["a", "b"], ["b"], []]'
            )
        if not self.multi_label:
            check_single(y)
        return y

    def targets(
        self, rows: Rows, y: Any, class_weight: Any = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        return encode_classes(self.labels, y, self.multi_label, class_weight)

    def loss(self) -> Loss:
        return class_loss(self.multi_label, self.activation is None)

    def metrics(self) -> Metrics:
        if not self.multi_label:
            return ["accuracy"]
        return [MultiLabelF1(from_logits=self.activation is None)]


class TagHead(ClassHead):
    """A label for each step; for words, at the first token of each."""

    per_step: ClassVar[bool] = True
    weighs_metrics: ClassVar[bool] = True

    def all_labels(self, y: Any) -> Any:
        return all_tags(y)

    def read(self, preprocessor: Any, x: Any) -> Rows | None:
        return preprocessor.word_rows(x)

    def targets(self, rows: Rows, y: Any, class_weight: Any = None) -> tuple[Any, Any]:
        y, weights = row_targets(self.labels, rows, y)
        return y, weighted_tags(self.labels, y, weights, class_weight)


def check_no_class_weight(class_weight: Any) -> None:
    """Raises if there are weights of classes for a head without labels."""
    if class_weight is not None:
        raise ValueError(
            "class_weight must be None for a head without labels, received "
            f"{class_weight!r}"
        )


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

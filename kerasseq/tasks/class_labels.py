"""Labels of whole rows: answers, targets, loss and F1 of several labels at once."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.table import Table
from kerasseq.core.types import Tensor
from kerasseq.tasks.labeled_data import for_complete_rows
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

    def _repr_html_(self) -> str:
        rows = [(str(name), f"{p:.3f}") for name, p in self.probabilities.items()]
        return Table(rows, ("label", "probability")).html()


def classify(
    model: Any, x: Any, *, threshold: float, batch_size: int, missing: str
) -> Classification | list[Classification]:
    """Finds the labels of rows, as `SequenceClassifier.classify`.

    Args:
        model: A model with `scores_of`, a score for each label.
        x: One input, or several as for `fit`.
        threshold: With several labels at once: the least probability of a label.
        batch_size: Rows that are processed at once.
        missing: "error" or "skip", as for `classify`.
    """
    threshold = checks.fraction("threshold", threshold)

    def classified(rows):
        outputs = model.scores_of(rows, batch_size=batch_size, verbose=0)
        p = model.probabilities(outputs).tolist()
        return [_classification(model, row, threshold) for row in p]

    if model.preprocessor.is_one(x):
        return classified(model.preprocessor.several(x))[0]
    return for_complete_rows(model, classified, x, missing)


def _classification(model, row, threshold):
    p = dict(zip(model.labels, row, strict=True))
    if not model.multi_label:
        label = max(p, key=p.get)
        return Classification(label, p[label], p)
    chosen = [label for label in p if p[label] >= threshold]
    return Classification(chosen, [p[label] for label in chosen], p)


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

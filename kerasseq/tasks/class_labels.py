"""What models that assign classes share: the outputs as labels by name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Tensor
from kerasseq.tasks.labels import Label, Labels, balanced_weights


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


class ClassLabels:
    """Loss, metrics and labels by name of a model that assigns classes.

    A mixin for a model whose `_arguments` have `multi_label` and `activation`, and
    whose outputs have a score for each label.
    """

    _labels: Labels | None
    _arguments: Config

    def default_loss(self) -> keras.losses.Loss:
        logits = self._arguments["activation"] is None
        if self._arguments["multi_label"]:
            return keras.losses.BinaryCrossentropy(from_logits=logits)
        return keras.losses.SparseCategoricalCrossentropy(from_logits=logits)

    def default_metrics(self) -> list[Any]:
        if not self._arguments["multi_label"]:
            return ["accuracy"]
        return [MultiLabelF1(from_logits=self._arguments["activation"] is None)]

    def probabilities(self, outputs: Any) -> np.ndarray:
        """Converts outputs of `predict` to probabilities."""
        if self._arguments["activation"] is not None:
            return np.asarray(outputs)
        function = ops.sigmoid if self._arguments["multi_label"] else ops.softmax
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
        p = dict(zip(self._labels.names, row, strict=True))
        if not self._arguments["multi_label"]:
            label = max(p, key=p.get)
            return Classification(label, p[label], p)
        found = [label for label in p if p[label] >= threshold]
        return Classification(found, [p[label] for label in found], p)

    def all_labels(self, y: Any) -> Any:
        """Returns the labels of the data, to learn the distinct ones."""
        if self._arguments["multi_label"] and getattr(y, "ndim", 1) == 2:
            raise ValueError(
                "labels must be named, or their number given, for labels of 0 and 1; "
                "received labels=None"
            )
        return y

    def class_targets(
        self, y: Any, class_weight: Any = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Converts labels to what the loss takes, and returns it with sample weights.

        Args:
            y: A label for each row; with `multi_label` lists of labels, or an array of
                0 and 1.
            class_weight: Weight of each label in the loss, by label; or "balanced".

        Returns:
            Indices `(rows,)`, or 0 and 1 `(rows, labels)`; and weights `(rows,)`, or
            None if all are the same.
        """
        if self._arguments["multi_label"]:
            if class_weight is not None:
                raise ValueError(
                    "class_weight must be None with multi_label=True, where a row has "
                    f"several labels or none, received {class_weight!r}"
                )
            return self._labels.encode_sets(y), None
        y = self._labels.encode(y)
        weights = class_weights(self._labels, class_weight, y)
        return y, None if weights is None else weights[y]


def class_weights(
    labels: Labels, class_weight: str | Mapping[Any, float] | None, y: np.ndarray
) -> np.ndarray | None:
    """Returns the weight of each class, or None if all are the same.

    Args:
        labels: The classes.
        class_weight: Weights by label, or "balanced".
        y: The indices of all labels.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        checks.one_of("class_weight", class_weight, ["balanced"])
        return balanced_weights(y, labels.count)
    weights = np.ones(labels.count, "float32")
    given = dict(class_weight)
    weights[labels.encode(given, "class_weight")] = list(given.values())
    return weights


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

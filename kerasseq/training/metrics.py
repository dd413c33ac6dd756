"""Metrics of language models: perplexity, bits per character, token accuracy."""

import math
from typing import Any

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.masks import attached_mask
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Tensor


class _MeanCrossEntropy(ListedConfig, keras.metrics.Metric):
    """Mean of −ln p over all unmasked tokens; subclasses change the unit."""

    def __init__(
        self,
        name: str | None = None,
        dtype: str | None = None,
        *,
        from_logits: bool = True,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.from_logits = from_logits
        self.total: keras.Variable = self.add_weight(name="total", initializer="zeros")
        self.count: keras.Variable = self.add_weight(name="count", initializer="zeros")

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        nats = ops.sparse_categorical_crossentropy(
            y_true, ops.cast(y_pred, self.dtype), from_logits=self.from_logits
        )
        weight = ops.cast(attached_mask(y_pred), nats.dtype)
        if sample_weight is not None:
            weight = weight * per_token(sample_weight, weight)
        self.total.assign_add(ops.sum(nats * weight))
        self.count.assign_add(ops.sum(weight))

    def mean(self) -> Tensor:
        return ops.divide_no_nan(self.total, self.count)


def per_token(sample_weight: Tensor, like: Tensor) -> Tensor:
    """Reshapes weights per row or per token so that they broadcast to `like`."""
    given = ops.cast(sample_weight, like.dtype)
    missing = (1,) * (len(like.shape) - len(given.shape))
    return ops.reshape(given, (*ops.shape(given), *missing))


@register
class Perplexity(_MeanCrossEntropy):
    r"""Computes $\exp$ of the mean of $-\ln p$, the effective number of choices.

    Args:
        name: Name of the metric.
        dtype: Dtype of the computation.
        from_logits: Whether predictions are logits; otherwise they are probabilities.

    Examples:
        >>> metric = Perplexity(from_logits=False)
        >>> metric.update_state(np.array([0, 1]), np.array([[0.5, 0.5], [0.5, 0.5]]))
        >>> round(float(metric.result()), 4)
        2.0

    References:
        Slides C, D.
    """

    def result(self) -> Tensor:
        return ops.exp(self.mean())


@register
class BitsPerCharacter(_MeanCrossEntropy):
    r"""Computes the mean of $-\log_2 p$: bits per token, or per character.

    Args:
        name: Name of the metric.
        dtype: Dtype of the computation.
        from_logits: Whether predictions are logits; otherwise they are probabilities.

    Examples:
        >>> metric = BitsPerCharacter(from_logits=False)
        >>> metric.update_state(np.array([0]), np.array([[0.25, 0.75]]))
        >>> round(float(metric.result()), 4)
        2.0
    """

    def result(self) -> Tensor:
        return self.mean() / math.log(2)


class RunningMean(keras.metrics.Mean):
    """A mean over batches that a model keeps itself; it is no part of a saved file."""

    def save_own_variables(self, store: Any) -> None:
        """Saves nothing: the next epoch begins at 0."""

    def load_own_variables(self, store: Any) -> None:
        """Loads nothing, also where an older file has a state."""


@register
class PerStep(ListedConfig, keras.metrics.Metric):
    """Computes a metric of Keras over all steps of all batches.

    Means of Keras average each row first, so that a step of a batch of T steps would
    count 1 / T. Here the steps of a batch are its rows.

    Args:
        metric: A `keras.metrics.Metric`, such as an accuracy.
        name: Name of the metric. That of `metric` if None.
        dtype: Dtype of the computation.

    Examples:
        >>> metric = PerStep(keras.metrics.SparseCategoricalAccuracy("accuracy"))
        >>> metric.update_state(np.array([[0]]), np.array([[[3.0, 2.0]]]))
        >>> metric.update_state(np.array([[1, 1, 1]]), np.eye(2)[None, [0, 0, 1]])
        >>> float(metric.result())  # two of four
        0.5
    """

    def __init__(
        self,
        metric: keras.metrics.Metric | Config,
        name: str | None = None,
        dtype: str | None = None,
    ) -> None:
        if isinstance(metric, dict):
            metric = keras.metrics.deserialize(metric)
        super().__init__(name=name or metric.name, dtype=dtype)
        self.metric = metric

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        weight = ops.cast(attached_mask(y_pred), self.dtype)
        if sample_weight is not None:
            weight = weight * per_token(sample_weight, weight)
        y_true, y_pred = map(ops.convert_to_tensor, (y_true, y_pred))
        per_step = (-1, y_pred.shape[-1])
        one_hot = len(y_true.shape) == len(y_pred.shape)
        self.metric.update_state(
            ops.reshape(y_true, per_step if one_hot else (-1,)),
            ops.reshape(y_pred, per_step),
            ops.reshape(weight, (-1,)),
        )

    def result(self) -> Tensor:
        return self.metric.result()

    def reset_state(self) -> None:
        self.metric.reset_state()


def per_step(metric: Any) -> Any:
    """Returns a metric of Keras as `PerStep`; others, such as your own, as they are.

    Args:
        metric: A `keras.metrics.Metric` or its name; "accuracy" is that of labels given
            as indices.

    Examples:
        >>> per_step("accuracy").name, per_step(Perplexity("nats")).name
        ('accuracy', 'nats')
    """
    if metric in ("accuracy", "acc"):
        metric = keras.metrics.SparseCategoricalAccuracy(metric)
    if isinstance(metric, str):
        metric = keras.metrics.get(metric)
    is_mean = isinstance(metric, keras.metrics.MeanMetricWrapper)
    of_user = type(metric) is keras.metrics.MeanMetricWrapper
    return PerStep(metric) if is_mean and not of_user else metric


@register
class TokenAccuracy(ListedConfig, keras.metrics.Metric):
    """Computes the fraction of tokens that are predicted correctly.

    Args:
        name: Name of the metric.
        dtype: Dtype of the computation.
        ignore_class: The label that is ignored: padding.

    Examples:
        >>> metric = TokenAccuracy()
        >>> metric.update_state(np.array([[2, 1, 0]]), np.eye(3)[None, [2, 2, 2]])
        >>> float(metric.result())
        0.5
    """

    def __init__(
        self,
        name: str | None = "accuracy",
        dtype: str | None = None,
        *,
        ignore_class: int = 0,
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be a string, received {checks.short(name)}")
        super().__init__(name=name, dtype=dtype)
        self.ignore_class = ignore_class
        self.right: keras.Variable = self.add_weight(name="right", initializer="zeros")
        self.count: keras.Variable = self.add_weight(name="count", initializer="zeros")

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        predicted = ops.argmax(y_pred, axis=-1)
        weight = ops.cast(ops.not_equal(y_true, self.ignore_class), self.dtype)
        if sample_weight is not None:
            weight = weight * per_token(sample_weight, weight)
        right = ops.cast(
            ops.equal(ops.cast(y_true, predicted.dtype), predicted), self.dtype
        )
        self.right.assign_add(ops.sum(right * weight))
        self.count.assign_add(ops.sum(weight))

    def result(self) -> Tensor:
        return ops.divide_no_nan(self.right, self.count)

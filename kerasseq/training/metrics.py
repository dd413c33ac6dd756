"""Metrics of language models: perplexity, bits per character, token accuracy."""

import math

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.masks import attached_mask
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Tensor


class _MeanCrossEntropy(keras.metrics.Metric):
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
            weight = weight * _per_token(sample_weight, weight)
        self.total.assign_add(ops.sum(nats * weight))
        self.count.assign_add(ops.sum(weight))

    def mean(self) -> Tensor:
        return ops.divide_no_nan(self.total, self.count)

    def get_config(self) -> Config:
        return {**super().get_config(), "from_logits": self.from_logits}


def _per_token(sample_weight: Tensor, like: Tensor) -> Tensor:
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


@register
class TokenAccuracy(keras.metrics.Metric):
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
            weight = weight * _per_token(sample_weight, weight)
        right = ops.cast(
            ops.equal(ops.cast(y_true, predicted.dtype), predicted), self.dtype
        )
        self.right.assign_add(ops.sum(right * weight))
        self.count.assign_add(ops.sum(weight))

    def result(self) -> Tensor:
        return ops.divide_no_nan(self.right, self.count)

    def get_config(self) -> Config:
        return {**super().get_config(), "ignore_class": self.ignore_class}

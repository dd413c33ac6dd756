"""The loss of an epoch: the mean over all batches, each by what it is a mean over."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from kerasseq.core.types import Tensor
from kerasseq.tasks.output_losses import copied, only_loss, weights_of_losses
from kerasseq.training.metrics import MeanOfLosses, RunningMean, averaged_over


class LossMeans:
    """The running means of the loss, and of the losses of several outputs.

    Args:
        loss: The loss of the model, as for `compile`.
        loss_weights: Weights of the losses, as for `compile`.
        outputs: The outputs of the model.
    """

    def __init__(self, loss: Any, loss_weights: Any, outputs: Any) -> None:
        self.loss_weights: dict[str, Any] = weights_of_losses(
            loss, loss_weights, outputs
        )
        self.of_outputs: dict[str, RunningMean] = {
            name: RunningMean(name=f"{name}_loss") for name in self.loss_weights
        }
        self.total: MeanOfLosses = MeanOfLosses(self.of_outputs, self.loss_weights)

    def beside(self, metrics: list[keras.metrics.Metric]) -> list[keras.metrics.Metric]:
        """Returns all metrics: the loss first, those of several outputs last."""
        means = [*self.of_outputs.values()]
        names = {self.total.name, *(mean.name for mean in means)}
        others = [metric for metric in metrics if metric.name not in names]
        return [self.total, *others, *means]

    def add(
        self, loss: Any, value: Tensor, y: Any, y_pred: Any, sample_weight: Any
    ) -> None:
        """Adds the loss of a batch.

        Args:
            loss: The loss of the model, or its losses by output.
            value: What it is for this batch.
            y: Targets.
            y_pred: Outputs.
            sample_weight: Weights, or None.
        """
        parts = only_loss(loss, y, y_pred, sample_weight)
        over = None if parts is None else averaged_over(*parts)
        if isinstance(y, Mapping) and self.of_outputs:
            value = value - self._add_outputs(loss, y, y_pred, sample_weight)
        if over is None:  # it counts by rows
            over = ops.shape(keras.tree.flatten(y_pred)[0])[0]
        self.count(value, over)

    def count(self, value: Tensor, over: Tensor | int) -> None:
        """Adds a loss, weighed by what it is a mean over."""
        self.total.update_state(ops.stop_gradient(value), sample_weight=over)

    def _add_outputs(self, losses, y, y_pred, sample_weight):
        """Adds the losses of several outputs to their means, and returns their sum."""
        total = 0.0
        for name, mean in self.of_outputs.items():
            loss = losses[name] if isinstance(losses, Mapping) else losses
            is_by_name = isinstance(sample_weight, Mapping)
            weight = sample_weight.get(name) if is_by_name else sample_weight
            over = averaged_over(loss, y[name], y_pred[name], weight)
            value = ops.stop_gradient(loss(y[name], y_pred[name], copied(weight)))
            mean.update_state(value, sample_weight=over)
            total = total + self.loss_weights[name] * value
        return total

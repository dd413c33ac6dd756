"""The loss of an epoch: the mean over all batches, each by what it is a mean over."""

import warnings
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops, tree

from kerasseq import kernels
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
        self.loss = loss
        self.loss_weights: dict[str, Any] = weights_of_losses(
            loss, loss_weights, outputs
        )
        self.of_outputs: dict[str, RunningMean] = {
            name: RunningMean(name=f"{name}_loss") for name in self.loss_weights
        }
        self.total: MeanOfLosses = MeanOfLosses(self.of_outputs, self.loss_weights)

    def check_accumulation(
        self, micro_batches: int, optimizer: Any, model: keras.Model
    ) -> None:
        """Raises if a batch cannot be computed in parts; warns where Keras is inexact.

        Args:
            micro_batches: The number of parts.
            optimizer: The optimizer of the model, or its name.
            model: The model.
        """
        if micro_batches > 1 and getattr(model, "segment_memory", None) is not None:
            raise ValueError(
                "micro_batches must be 1 with memory_length, where each row continues "
                f"that of the batch before, received {micro_batches}. Choose a smaller "
                "batch_size"
            )
        if micro_batches > 1 and self.of_outputs:
            raise ValueError(
                "micro_batches must be 1 for a model with several losses, each a mean "
                f"over other numbers ({', '.join(self.of_outputs)}), received "
                f"{micro_batches}. Choose a smaller batch_size"
            )
        if micro_batches > 1:
            _check_mean(self.loss)
        steps = getattr(optimizer, "gradient_accumulation_steps", None)
        if steps:
            warnings.warn(
                f"gradient_accumulation_steps={steps} of Keras' optimizers gives all "
                "batches the same weight, also where their numbers of real steps "
                f"differ. For the exact mean, leave it out, take batches of {steps} "
                f"times as many rows, and compile(micro_batches={steps})",
                stacklevel=3,
            )

    def beside(self, metrics: list[keras.metrics.Metric]) -> list[keras.metrics.Metric]:
        """Returns all metrics: the loss first, those of several outputs last."""
        means = [*self.of_outputs.values()]
        names = {self.total.name, *(mean.name for mean in means)}
        others = [metric for metric in metrics if metric.name not in names]
        return [self.total, *others, *means]

    def add(
        self, loss: Any, value: Tensor, y: Any, y_pred: Any, sample_weight: Any
    ) -> Tensor:
        """Adds the loss of a batch, and returns it for the gradient.

        On several devices that is the share of this one in the loss of the batch.

        Args:
            loss: The loss of the model, or its losses by output.
            value: What it is for these rows.
            y: Targets.
            y_pred: Outputs.
            sample_weight: Weights, or None.
        """
        if kernels.is_divided():
            _check_mean(loss)
        value = kernels.unscaled(value)
        parts = only_loss(loss, y, y_pred, sample_weight)
        if parts is not None:
            return self.count(value, averaged_over(*parts))
        rows = ops.shape(keras.tree.flatten(y_pred)[0])[0]
        if not (isinstance(y, Mapping) and self.of_outputs):
            return self.count(value, rows)
        of_outputs, shared = self._add_outputs(loss, y, y_pred, sample_weight)
        rest = self.count(value - of_outputs, rows)
        return rest + shared if kernels.is_divided() else value

    def count(self, value: Tensor, over: Tensor | int) -> Tensor:
        """Adds a loss by what it is a mean over, and returns it for the gradient."""
        return _counted(self.total, value, over)

    def _add_outputs(self, losses, y, y_pred, sample_weight):
        """Adds the losses of several outputs to their means, and returns their sum.

        It is a sum twice: as it is, and for the gradient.
        """
        total, shared = 0.0, 0.0
        for name, mean in self.of_outputs.items():
            loss = losses[name] if isinstance(losses, Mapping) else losses
            is_by_name = isinstance(sample_weight, Mapping)
            weight = sample_weight.get(name) if is_by_name else sample_weight
            over = averaged_over(loss, y[name], y_pred[name], weight)
            value = loss(y[name], y_pred[name], copied(weight))
            value = kernels.unscaled(value)
            share = self.loss_weights[name]
            shared = shared + share * _counted(mean, value, over)
            total = total + share * value
        return total, shared


def _check_mean(loss):
    """Raises for the sum over a batch, which no mean of its parts is."""
    for each in tree.flatten(loss):
        if getattr(each, "reduction", None) == "sum":
            raise ValueError(
                "loss must be a mean where a batch is computed in parts, by "
                'micro_batches or on several devices, received reduction="sum" of '
                f'{type(each).__name__}. Choose reduction="sum_over_batch_size"'
            )


def _counted(mean, value, over):
    """Adds a loss to a mean, and returns it for the gradient."""
    if kernels.is_part():  # a part may have no rows, and then NaN
        value = ops.where(over > 0, value, ops.zeros_like(value))
    mean.update_state(ops.stop_gradient(value), sample_weight=over)
    return kernels.of_part(value, over)

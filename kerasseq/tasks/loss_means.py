"""The loss of an epoch: the mean over all batches, each by what it is a mean over."""

import contextlib
import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.masks import attached_mask, has_mask
from kerasseq.core.types import Tensor
from kerasseq.training.metrics import RunningMean, per_token


def weights_of_losses(loss: Any, given: Any, outputs: Any) -> dict[str, Any]:
    """Returns the weights of the losses of several outputs, by the name of the output.

    None of losses by name or of your own functions: their batches count by rows.
    """
    if not isinstance(outputs, Mapping) or len(outputs) == 1:
        return {}
    losses = dict(loss) if isinstance(loss, Mapping) else dict.fromkeys(outputs, loss)
    losses = {name: each for name, each in losses.items() if each is not None}
    are_known = all(isinstance(each, keras.losses.Loss) for each in losses.values())
    if len(losses) == 1 or not are_known:
        return {}
    if given is not None and not isinstance(given, Mapping):
        given = keras.tree.pack_sequence_as(losses, keras.tree.flatten(given))
    return {name: 1.0 if given is None else given[name] for name in losses}


def only_loss(
    loss: Any, y: Any, y_pred: Any, sample_weight: Any
) -> tuple[Any, ...] | None:
    """Returns loss, labels, outputs and weights if one output has a loss, or None."""
    if all(isinstance(part, Mapping) for part in (loss, y, y_pred)):
        names = [name for name in loss if loss[name] is not None]
        if len(names) != 1 or names[0] not in y:
            return None
        loss, y, y_pred = (part[names[0]] for part in (loss, y, y_pred))
        if isinstance(sample_weight, Mapping):
            sample_weight = sample_weight.get(names[0])
    parts = [keras.tree.flatten(part) for part in (loss, y, y_pred)]
    if any(len(part) != 1 for part in parts):
        return None
    return (*(part for (part,) in parts), keras.tree.flatten(sample_weight)[0])


def copied(sample_weight: Any) -> Any:
    """Returns copies of weights: Keras multiplies its own by a mask on PyTorch."""
    return keras.tree.map_structure(
        lambda weight: None if weight is None else ops.copy(weight), sample_weight
    )


def weights_of_positions(ids: Any, sample_weight: Any) -> Any:
    """Returns weights of positions: that of a row counts for each of its own.

    Keras would divide the sum over positions by the sum of the weights of rows.

    Args:
        ids: `(B, T)`.
        sample_weight: `(B,)`, `(B, 1)`, `(B, T)`, or None.

    Examples:
        >>> weights = weights_of_positions(np.ones((2, 3)), np.array([0.5, 2.0]))
        >>> keras.ops.convert_to_numpy(weights).tolist()
        [[0.5, 0.5, 0.5], [2.0, 2.0, 2.0]]
    """
    if sample_weight is None:
        return None
    ones = ops.ones_like(ids, dtype="float32")
    weight = ops.cast(sample_weight, ones.dtype)
    return ones * ops.reshape(weight, (ops.shape(ones)[0], -1))


class MeanOfLosses(RunningMean):
    """The mean of a loss that is a sum of others, each a mean over other numbers.

    What is added to it itself is the rest of the loss, such as regularization.

    Args:
        means: The means of the other losses, by name.
        weights: The weight of each in the sum, by name.
        name: The name of the metric.
    """

    def __init__(
        self,
        means: Mapping[str, RunningMean],
        weights: Mapping[str, float],
        name: str = "loss",
    ) -> None:
        super().__init__(name=name)
        # In a function: the means of an attribute would be counted twice.
        self.others: Callable[[], Tensor] = lambda: sum(
            weights[name] * mean.result() for name, mean in means.items()
        )

    def result(self) -> Tensor:
        return super().result() + self.others()


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
        self.outputs: Any = outputs

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
        if micro_batches > 1:
            self._check_known()
            self._check_masks(micro_batches)
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

    def _check_known(self):
        """Raises if it is not known what one of several losses is a mean over."""
        by_name = isinstance(self.loss, Mapping)
        outputs = self.outputs if isinstance(self.outputs, Mapping) else ()
        losses = self.loss if by_name else dict.fromkeys(outputs, self.loss)
        losses = {name: each for name, each in losses.items() if each is not None}
        for name, loss in losses.items():
            if len(losses) > 1 and not isinstance(loss, keras.losses.Loss):
                raise ValueError(
                    "each of several losses must be a keras.losses.Loss where a batch "
                    "is computed in parts, by micro_batches or on several devices, "
                    "as it is a mean over numbers of its own, received "
                    f"{checks.short(loss)} for {name}"
                )

    def _check_masks(self, micro_batches):
        """Raises if what a loss is a mean over is known after the forward pass."""
        masked = [name for name in self.of_outputs if has_mask(self.outputs[name])]
        if masked:
            raise ValueError(
                "micro_batches must be 1 for several losses, of which one is a mean "
                f"over the steps of a mask of Keras ({', '.join(masked)}), received "
                f"{micro_batches}. Choose a smaller batch_size"
            )

    def totals(self, model: Any, data: Any) -> dict[str, Tensor]:
        """Returns what each of several losses is a mean over in a batch, by output.

        It is empty for one loss, which may be known after the forward pass alone.

        Args:
            model: The model.
            data: Inputs, targets and weights, as Keras passes them to a step.
        """
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if not self.of_outputs:
            return {}
        if not isinstance(y, Mapping):
            raise TypeError(
                "y must be a dictionary with the targets of "
                f"{', '.join(self.of_outputs)} for several losses with micro_batches, "
                f"received a {type(y).__name__}"
            )
        sample_weight = model.counted(x, sample_weight)
        counts = {}
        for name in self.of_outputs:
            loss, weight = self._of_output(self.loss, name, sample_weight)
            axes = len(self.outputs[name].shape) - 1
            any_output = ops.zeros((*ops.shape(y[name])[:axes], 1))
            counts[name] = averaged_over(loss, y[name], any_output, weight)
        return counts

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
            self._check_known()
            _check_mean(loss)
        value = kernels.unscaled(value)
        parts = only_loss(loss, y, y_pred, sample_weight)
        if parts is not None:
            return self.count(value, averaged_over(*parts))
        rows = ops.shape(keras.tree.flatten(y_pred)[0])[0]
        if not (isinstance(y, Mapping) and self.of_outputs):
            return self.count(value, rows)
        of_outputs, shared = self._add_outputs(loss, y, y_pred, sample_weight, rows)
        rest = self.count(value - of_outputs, rows)
        return rest + shared if kernels.is_part() else value

    def count(self, value: Tensor, over: Tensor | int) -> Tensor:
        """Adds a loss by what it is a mean over, and returns it for the gradient."""
        return _counted(self.total, value, over)

    @staticmethod
    def _of_output(losses, name, sample_weight):
        """Returns the loss of an output, and its weights."""
        loss = losses[name] if isinstance(losses, Mapping) else losses
        is_by_name = isinstance(sample_weight, Mapping)
        return loss, sample_weight.get(name) if is_by_name else sample_weight

    def _add_outputs(self, losses, y, y_pred, sample_weight, rows):
        """Adds the losses of several outputs to their means, and returns their sums.

        The first sum is that of the losses as they are; the second is for the gradient:
        it weighs each as a part of the batch.
        """
        total, shared = 0.0, 0.0
        for name, mean in self.of_outputs.items():
            loss, weight = self._of_output(losses, name, sample_weight)
            over = averaged_over(loss, y[name], y_pred[name], weight)
            value = loss(y[name], y_pred[name], copied(weight))
            value = kernels.unscaled(value)
            share = self.loss_weights[name]
            of_part = functools.partial(kernels.of_output, name=name, rows=rows)
            shared = shared + share * _counted(mean, value, over, of_part)
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


def _counted(mean, value, over, of_part=kernels.of_part):
    """Adds a loss to a mean, and returns it for the gradient."""
    if kernels.is_part():  # a part may have no rows, and then NaN
        value = ops.where(over > 0, value, ops.zeros_like(value))
    mean.update_state(ops.stop_gradient(value), sample_weight=over)
    return of_part(value, over)


def averaged_over(loss: Any, y: Any, y_pred: Tensor, sample_weight: Any) -> Tensor:
    """Returns what the loss of a batch is a mean over: a number of steps, or weights.

    The mean of several batches weighs the loss of each by it.

    Args:
        loss: The loss of the model, a `keras.losses.Loss` or the name of one.
        y: Targets, `(B, ...)`.
        y_pred: Outputs, `(B, ..., C)`. Masked steps do not count.
        sample_weight: Weights `(B,)` or of each step; or None.

    Examples:
        >>> loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=0)
        >>> y = np.array([[2, 1, 0], [1, 0, 0]])
        >>> float(averaged_over(loss, y, np.ones((2, 3, 5)), None))
        3.0
    """
    if len(y_pred.shape) < 3 or getattr(loss, "per_row", False):  # one loss a row
        weight = ops.ones(ops.shape(y_pred)[:1])
    else:
        weight = ops.cast(attached_mask(y_pred), "float32")
    ignored = getattr(loss, "ignore_class", None)
    if ignored is not None:
        weight = weight * ops.cast(ops.not_equal(y, ignored), weight.dtype)
    reduction = getattr(loss, "reduction", None)
    if reduction == "mean_with_sample_weight" and sample_weight is not None:
        weight = weight * per_token(sample_weight, weight)
    return ops.sum(weight)


def returns_hidden(model: Any) -> bool:
    """Returns whether a model returns hidden states, of which the loss makes logits."""
    return model.loss_chunks is not None and model.loss_chunks.is_open


def metrics_of(model: Any) -> list[keras.metrics.Metric]:
    """Returns the metrics that are updated chunk by chunk."""
    chunks = model.loss_chunks
    return [] if chunks is None else [metric for metric, _ in chunks.metrics]


def in_step(model: Any) -> contextlib.AbstractContextManager[None]:
    """Lets a model with `loss_chunk_size` return hidden states inside the block."""
    chunks = model.loss_chunks
    return contextlib.nullcontext() if chunks is None else chunks.opened()

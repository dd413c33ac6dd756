r"""The loss of next tokens, computed for some positions at a time.

The logits of N positions are $N \times V$ numbers, often more than all else that a
step of training keeps. Here the model returns the hidden states $h_n$ before them; for
each chunk of positions the logits $W h_n$ are computed, then the loss and the metrics,
and in the backward pass the logits of this chunk again. What is left of them is one
loss for each position.
"""

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops, tree

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.stateless import Scope, values_of
from kerasseq.core.types import Config, Tensor
from kerasseq.tasks.loss_means import returns_hidden
from kerasseq.training.metrics import per_step


@dataclasses.dataclass(frozen=True)
class TokenHead:
    """The last part of a model, from hidden states `(B, T, D)` to logits `(B, T, V)`.

    Attributes:
        hidden: Function of no arguments that returns the symbolic hidden states.
        layers: The layers whose weights the logits read.
        logits: Function from hidden states to logits.
    """

    hidden: Callable[[], Any]
    layers: Sequence[keras.Layer]
    logits: Callable[[Tensor], Tensor]


def scored(model: Any, h: Tensor) -> Tensor:
    """Returns what a model makes of hidden states.

    That are its logits; the hidden states themselves if it has no `token_head`, or in a
    step with `loss_chunk_size`, whose loss makes logits of them.

    Args:
        model: A `TaskModel`.
        h: Hidden states `(B, T, D)`.
    """
    is_last = model.token_head is None or returns_hidden(model)
    return h if is_last else model.token_head.logits(h)


def checked_metrics(metrics: Any) -> list[keras.metrics.Metric]:
    """Returns metrics that count positions, in any number of parts.

    Args:
        metrics: A list of names and `keras.metrics.Metric`s, or None.

    Raises:
        TypeError: If one of them is something else.

    Examples:
        >>> [metric.name for metric in checked_metrics(["accuracy"])]
        ['accuracy']
    """
    checked = []
    for metric in [] if metrics is None else tree.flatten(metrics):
        metric = per_step(metric)
        known = isinstance(metric, keras.metrics.Metric)
        if not known or "sample_weight" not in _arguments(metric.update_state):
            raise TypeError(
                "metrics must be names or keras.metrics.Metric whose update_state has "
                "sample_weight, with loss_chunk_size, received "
                f"{checks.short(metric)}. Choose another, or leave loss_chunk_size out"
            )
        checked.append(metric)
    return checked


def _arguments(function):
    return inspect.signature(function).parameters


class PositionLoss(keras.losses.Loss):
    """A loss of logits, or the mean of the losses of positions that are known.

    Args:
        loss: The loss of logits.
        are_known: Function of no arguments: whether the outputs of the model are the
            losses, `(B, T, 2)`.
    """

    def __init__(
        self, loss: keras.losses.Loss, are_known: Callable[[], bool] = bool
    ) -> None:
        super().__init__(loss.name, loss.reduction, loss.dtype)
        self.loss, self.are_known = loss, are_known
        self.ignore_class = getattr(loss, "ignore_class", None)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return y_pred[..., 0] if self.are_known() else self.loss.call(y_true, y_pred)

    def of_chunk(self, y: Tensor, logits: Tensor) -> Tensor:
        """Computes the losses `(C,)` of positions: ids `(C,)`, logits `(C, V)`."""
        return self.loss.call(y, ops.cast(logits, self.loss.dtype))


class Chunks:
    """Computes the losses of positions, and updates metrics, chunk by chunk.

    Args:
        model: A `TaskModel`.
        size: Positions of a chunk, C.
        loss: A `keras.losses.Loss` with one number for each position.
        metrics: Metrics that count each position once, or their names.
        weighted_metrics: Metrics that weigh them like the loss, or None.

    Raises:
        TypeError: If the size is not a whole number, the loss no `Loss`, or a metric
            takes no weights.
        ValueError: If the model has no `token_head`, or the loss is not one of each
            position.
    """

    def __init__(
        self,
        model: Any,
        size: int,
        loss: Any,
        metrics: Any,
        weighted_metrics: Any,
    ) -> None:
        self.size: int = checks.whole_number("loss_chunk_size", size)
        if model.token_head is None:
            raise ValueError(
                "loss_chunk_size needs a model that predicts tokens one by one, such "
                f"as a GPT or a T5, received a {type(model).__name__} without such a "
                "head. Leave it out"
            )
        check_loss(loss)
        self.head: TokenHead = model.token_head
        self.metrics: list[tuple[keras.metrics.Metric, bool]] = [
            *((metric, False) for metric in checked_metrics(metrics)),
            *((metric, True) for metric in checked_metrics(weighted_metrics)),
        ]
        self.hidden: keras.Model = keras.Model(
            model.input, self.head.hidden(), name=f"{model.name}_hidden"
        )
        self.loss: PositionLoss = PositionLoss(loss, lambda: self.is_open)
        self.is_open: bool = False

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Lets the model return hidden states inside the block."""
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False

    def chosen(self) -> Config:
        """Returns what the user chose, as plain data."""
        save = keras.saving.serialize_keras_object
        metrics = [metric for metric, is_weighted in self.metrics if not is_weighted]
        weighted = [metric for metric, is_weighted in self.metrics if is_weighted]
        return {
            "loss_chunk_size": self.size,
            "loss": save(self.loss.loss),
            "metrics": save(metrics),
            "weighted_metrics": save(weighted),
        }

    def losses(self, y: Tensor, h: Tensor, weight: Tensor | None) -> Tensor:
        """Returns the losses of hidden states `(B, T, D)`, twice: `(B, T, 2)`.

        Keras' mask of the result tells which of them count, if not all do.
        """
        y = ops.convert_to_tensor(y)
        counted = ops.ones_like(y, dtype="float32")  # 0 where a chunk is filled up
        given = counted if weight is None else counted * _per_position(weight, counted)
        states = [v for metric, _ in self.metrics for v in metric.variables]
        parts = {"h": h, "y": y, "real": counted, "weight": given}
        layers = self.head.layers
        trained = [v for layer in layers for v in layer.trainable_variables]
        known = {id(variable) for variable in trained}
        fixed = [v for layer in layers for v in layer.variables if id(v) not in known]
        # TensorFlow reads no variable in the gradient of a loop: copied before it.
        fixed = [(v, ops.copy(x)) for v, x in zip(fixed, values_of(fixed), strict=True)]
        weights = values_of(trained)

        def of_chunk(inputs: list[Tensor], weights: list[Tensor]) -> Any:
            now = dict(zip(parts, inputs, strict=False))
            before = inputs[len(parts) :]
            values = [*zip(trained, weights, strict=True), *fixed]
            with Scope([*values, *zip(states, before, strict=True)]) as scope:
                logits = self.head.logits(now["h"])
                losses = self.loss.of_chunk(now["y"], logits)
                self._update(now, ops.stop_gradient(logits))
                return [losses], [scope.get_current_value(v) for v in states]

        def step(carry: list[Tensor], now: dict[str, Tensor]) -> Any:
            run = kernels.rematerialized(of_chunk, "full")
            (losses,), after = run([*(now[name] for name in parts), *carry], weights)
            return after, losses

        flat = {name: _cut(x, len(y.shape), self.size) for name, x in parts.items()}
        after, losses = kernels.scan(step, values_of(states), flat)
        for variable, value in zip(states, after, strict=True):
            variable.assign(value)
        count = ops.prod(ops.shape(y)) if None in y.shape else int(np.prod(y.shape))
        losses = ops.reshape(ops.reshape(losses, (-1,))[:count], ops.shape(y))
        losses = ops.stack([losses, losses], axis=-1)  # Keras drops an axis of 1
        ignored = self.loss.ignore_class
        return (
            losses if ignored is None else _MASK(losses, mask=ops.not_equal(y, ignored))
        )

    def _update(self, now, logits):
        for metric, is_weighted in self.metrics:
            weight = now["weight" if is_weighted else "real"]
            metric.update_state(now["y"], logits, sample_weight=weight)


def check_loss(loss: Any) -> None:
    """Raises unless a loss has one number for each position.

    Examples:
        >>> check_loss(keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    """
    if not isinstance(loss, keras.losses.Loss):
        raise TypeError(
            "loss must be a keras.losses.Loss with loss_chunk_size, received "
            f"{checks.short(loss)}. Pass "
            "keras.losses.SparseCategoricalCrossentropy(from_logits=True), for example"
        )
    own = type(loss).__call__ is keras.losses.Loss.__call__
    try:
        values = loss.call(np.zeros(2, "int32"), ops.zeros((2, 3)))
        own = own and tuple(values.shape) == (2,)
    except Exception:
        own = False
    if not own:
        raise ValueError(
            "loss must have one number for each position and its id with "
            f"loss_chunk_size, received {type(loss).__name__}. Choose one such as "
            "SparseCategoricalCrossentropy, or leave loss_chunk_size out"
        )


class _Mask(keras.layers.Layer):
    """Attaches a mask to a tensor."""

    def call(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return ops.multiply(x, 1)


_MASK = _Mask(name="mask", autocast=False)
_MASK.supports_masking = True


def _per_position(weight, like):
    """Weights of rows or positions, which broadcast to `(B, T)`."""
    weight = ops.cast(weight, like.dtype)
    missing = len(like.shape) - len(weight.shape)
    return (
        ops.reshape(weight, (*ops.shape(weight), *[1] * missing)) if missing else weight
    )


def _cut(x, axes, size):
    """Chunks `(K, C, ...)` of the first axes of x as one; zeros fill the last chunk.

    A part of a batch without rows has a chunk of zeros.
    """
    inner = [*x.shape[axes:]]
    x = ops.reshape(x, (-1, *inner))
    count = ops.shape(x)[0]
    largest = max if isinstance(count, int) else ops.maximum
    missing = largest(-count % size, size - count)
    if not (isinstance(missing, int) and missing == 0):
        x = ops.concatenate([x, ops.zeros((missing, *inner), x.dtype)], axis=0)
    return ops.reshape(x, (-1, size, *inner))

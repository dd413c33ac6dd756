r"""The loss of next tokens, computed for some positions at a time.

The logits of N positions are $N \times V$ numbers, often more than all else that a
step of training keeps. Here the model returns the hidden states $h_n$ before them; for
each chunk of positions the logits $W h_n$ are computed, then the loss and the metrics,
and in the backward pass the logits of this chunk again. What is left of them is one
loss for each position.
"""

import contextlib
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
from kerasseq.tasks.output_losses import weights_of_positions
from kerasseq.training.metrics import per_step

PARTS = "_loss_chunks"  # the attribute of a model


class LossChunks:
    """A mixin of task models that predict a token at each position.

    A subclass sets `scores`: the symbolic hidden states, the layer with the weights of
    the logits, and a function from hidden states to logits.
    """

    scores: tuple[Any, keras.Layer, Callable[[Tensor], Tensor]] | None = None

    def compile(
        self,
        optimizer: Any = None,
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        *,
        loss_chunk_size: int | None = None,
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        """Configures training like `TaskModel.compile`."""
        own = None
        if loss_chunk_size is not None:
            loss = self.default_loss() if loss is None else loss
            metrics = self.default_metrics() if metrics is None else metrics
            metrics, weighted = map(checked_metrics, (metrics, weighted_metrics))
            own = Chunks(self, loss_chunk_size, loss, [*metrics], [*weighted])
            loss, metrics, weighted_metrics = own.loss, [], None
        vars(self)[PARTS] = own
        kwargs["weighted_metrics"] = weighted_metrics
        super().compile(optimizer, loss, loss_weights, metrics, **kwargs)
        if own is not None:
            self._chosen |= own.chosen()

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The metrics, with the loss first."""
        chunks = vars(self).get(PARTS)
        own = [] if chunks is None else [metric for metric, _ in chunks.metrics]
        return [*super().metrics, *own]

    def train_step(self, *args: Any) -> Any:
        """A step of training, as Keras makes it."""
        with self._in_chunks():
            return super().train_step(*args)

    def test_step(self, *args: Any) -> Any:
        """A step of evaluation, as Keras makes it."""
        with self._in_chunks():
            return super().test_step(*args)

    @contextlib.contextmanager
    def _in_chunks(self) -> Iterator[None]:
        """Lets the model return hidden states inside the block."""
        chunks = vars(self).get(PARTS)
        if chunks is None:
            yield
            return
        chunks.is_open = True
        try:
            yield
        finally:
            chunks.is_open = False

    @property
    def returns_hidden(self) -> bool:
        """Whether a call returns hidden states, of which the loss makes logits."""
        chunks = vars(self).get(PARTS)
        return chunks is not None and chunks.is_open

    def scored(self, h: Tensor) -> Tensor:
        """Returns the logits of hidden states; themselves where those are returned."""
        is_last = self.scores is None or self.returns_hidden
        return h if is_last else self.scores[2](h)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        """Computes the logits; the hidden states in a step with chunks of them."""
        if self.returns_hidden:
            return vars(self)[PARTS].hidden(inputs, training=training, mask=mask)
        return super().call(inputs, training=training, mask=mask)

    def counted(self, x: Any, sample_weight: Any) -> Any:
        """Returns the weights of positions."""
        weight = super().counted(x, sample_weight)
        if self.scores is None:
            return weight
        return weights_of_positions(tree.flatten(x)[0], weight)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Computes the loss of a batch, as `TaskModel.compute_loss`."""
        if self.returns_hidden:
            weight = self.counted(x, sample_weight)
            y_pred = vars(self)[PARTS].losses(y, y_pred, weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)


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
    found = []
    for metric in [] if metrics is None else tree.flatten(metrics):
        metric = per_step(metric)
        known = isinstance(metric, keras.metrics.Metric)
        if not known or "sample_weight" not in _arguments(metric.update_state):
            raise TypeError(
                "metrics must be names or keras.metrics.Metric whose update_state has "
                "sample_weight, with loss_chunk_size, received "
                f"{checks.short(metric)}. Choose another, or leave loss_chunk_size out"
            )
        found.append(metric)
    return found


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
        """The losses `(C,)` of positions: ids `(C,)`, logits `(C, V)`."""
        return self.loss.call(y, ops.cast(logits, self.loss.dtype))


class Chunks:
    """Computes the losses of positions, and updates metrics, chunk by chunk.

    Args:
        model: The model, whose `scores` are set.
        size: Positions of a chunk, C.
        loss: A `keras.losses.Loss` with one number for each position.
        metrics: Metrics that count each position once.
        weighted_metrics: Metrics that weigh them like the loss.

    Raises:
        TypeError: If the size is not a whole number, or the loss no `Loss`.
        ValueError: If the model has no such scores, or the loss more than one position.
    """

    def __init__(
        self,
        model: keras.Model,
        size: int,
        loss: Any,
        metrics: Sequence[keras.metrics.Metric],
        weighted_metrics: Sequence[keras.metrics.Metric],
    ) -> None:
        self.size: int = checks.whole_number("loss_chunk_size", size)
        if model.scores is None:
            raise ValueError(
                "loss_chunk_size needs a model that predicts tokens, received a "
                f"{type(model).__name__} without such a head. Leave it out"
            )
        hidden, self.layer, self.logits = model.scores
        check_loss(loss)
        self.hidden = keras.Model(model.inputs[0], hidden, name=f"{model.name}_hidden")
        self.loss = PositionLoss(loss, lambda: self.is_open)
        self.metrics = [*((m, False) for m in metrics)]
        self.metrics += [(m, True) for m in weighted_metrics]
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
        trained = self.layer.trainable_variables
        fixed = [v for v in self.layer.variables if not v.trainable]
        fixed = [*zip(fixed, values_of(fixed), strict=True)]
        weights = values_of(trained)

        def of_chunk(inputs: list[Tensor], weights: list[Tensor]) -> Any:
            now = dict(zip(parts, inputs, strict=False))
            before = inputs[len(parts) :]
            values = [*zip(trained, weights, strict=True), *fixed]
            with Scope([*values, *zip(states, before, strict=True)]) as scope:
                logits = self.logits(now["h"])
                found = self.loss.of_chunk(now["y"], logits)
                self._update(now, ops.stop_gradient(logits))
                return [found], [scope.get_current_value(v) for v in states]

        def step(carry: list[Tensor], now: dict[str, Tensor]) -> Any:
            run = kernels.rematerialized(of_chunk, "full")
            (found,), after = run([*(now[name] for name in parts), *carry], weights)
            return after, found

        flat = {name: _cut(x, len(y.shape), self.size) for name, x in parts.items()}
        after, found = kernels.scan(step, values_of(states), flat)
        for variable, value in zip(states, after, strict=True):
            variable.assign(value)
        count = ops.prod(ops.shape(y)) if None in y.shape else int(np.prod(y.shape))
        found = ops.reshape(ops.reshape(found, (-1,))[:count], ops.shape(y))
        found = ops.stack([found, found], axis=-1)  # Keras drops an axis of 1
        ignored = self.loss.ignore_class
        return (
            found if ignored is None else _MASK(found, mask=ops.not_equal(y, ignored))
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
        found = loss.call(np.zeros(2, "int32"), ops.zeros((2, 3)))
        own = own and tuple(found.shape) == (2,)
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

"""A model that trains the choices of hard attention with a reward."""

from typing import Any

import keras
from keras import ops

from kerasseq.attention import choices
from kerasseq.core import checks, sublayers
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Nested, Tensor

REWARDS = ("loss", "accuracy")


@register
class ReinforcedModel(keras.Model):
    r"""Trains a model whose hard attention has `gradient="reinforce"`.

    The gradient of a batch is the mean over its examples of

    $$\nabla L + w\, (b - r)\, \nabla \log p$$

    with the loss L and the reward r of the example, and the probability p of all
    positions that were sampled for it. The baseline b is an average of earlier rewards;
    it lowers the variance, and is the same for all examples of a batch. So the term of
    an example depends neither on the other examples nor on padding. With
    `reward="loss"`, $r = -L$, and with `weight=1` this is an unbiased estimate of the
    gradient of the expected loss.

    In `evaluate` and `predict` attention takes the position with the highest score, and
    the model computes what the given one computes. The loss that `fit` reports is L.

    Args:
        model: A model with one output and at least one attention layer with
            `hard=True, gradient="reinforce"`.
        reward: "loss", minus the loss of an example; or "accuracy", 1 if the largest of
            the outputs `(B, classes)` is that of the label, else 0.
        weight: w.
        baseline_decay: $\delta$ of $b \leftarrow \delta b + (1 - \delta) \bar r$ after
            each batch, with the mean of its rewards; b is 0 before the first one. With
            1 there is no baseline.
        **kwargs: `name` and `trainable`.

    Raises:
        TypeError: If `model` is not a Keras model.
        ValueError: If an argument is out of range; in `fit`, if the loss is not one
            number for each example, or not the mean over the batch.

    Examples:
        >>> from kerasseq.layers import LuongAttention
        >>> places = keras.Input((5, 3))
        >>> query = keras.layers.GlobalAveragePooling1D(keepdims=True)(places)
        >>> look = LuongAttention("general", hard=True, gradient="reinforce")
        >>> glimpse = keras.layers.Flatten()(look(query, places))
        >>> outputs = keras.layers.Dense(2)(glimpse)
        >>> model = ReinforcedModel(keras.Model(places, outputs))
        >>> keras.ops.shape(model(np.ones((7, 5, 3))))
        (7, 2)

    References:
        Williams 1992; Mnih et al. 2014; Xu et al. 2015. Slides B.
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        reward: str = "loss",
        weight: float = 1.0,
        baseline_decay: float = 0.9,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(model, keras.Model):
            raise TypeError(
                f"model must be a keras.Model, received {checks.short(model)}. Pass "
                "the model that has the attention"
            )
        self.model = model
        self.reward: str = checks.one_of("reward", reward, REWARDS)
        self.weight: float = checks.positive("weight", weight)
        self.baseline_decay: float = checks.number("baseline_decay", baseline_decay)
        if not 0 <= self.baseline_decay <= 1:
            raise ValueError(
                "baseline_decay must be from 0 to 1, received "
                f"{baseline_decay}. Choose 0.9, or 1 for no baseline"
            )
        self.baseline: keras.Variable = self.add_weight(
            name="baseline",
            shape=(),
            dtype="float32",
            initializer="zeros",
            trainable=False,
            autocast=False,
        )
        self._choices: tuple[Tensor, ...] = ()
        self.built: bool = model.built

    def build(self, input_shape: Any) -> None:
        if not self.model.built:
            self.model.build(input_shape)
        self.built = True

    def call(self, inputs: Nested, training: bool = False) -> Nested:
        if not training:
            return self.model(inputs, training=False)
        with choices.collect() as collected:
            outputs = self.model(inputs, training=True)
        self._choices = (*collected,)
        return outputs

    def compute_loss(
        self,
        x: Nested = None,
        y: Nested = None,
        y_pred: Nested = None,
        sample_weight: Nested = None,
        training: bool = True,
    ) -> Tensor:
        """Computes the loss of a batch; in training, the gradient of choices as well.

        The term of the choices is 0, and only its gradient counts.
        """
        collected, self._choices = self._choices, ()
        if not (training and collected):
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        check_loss(self.loss)
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        log_p = choices.log_probability(collected)
        reward = ops.cast(ops.stop_gradient(self._rewards(y, y_pred)), log_p.dtype)
        term = self.weight * (ops.cast(self.baseline, log_p.dtype) - reward) * log_p
        if sample_weight is not None:
            term = term * ops.cast(ops.reshape(sample_weight, (-1,)), term.dtype)
        term = ops.cast(ops.mean(term), loss.dtype)
        b, mean = ops.convert_to_tensor(self.baseline), ops.mean(reward)
        self.baseline.assign(
            b + (1 - self.baseline_decay) * (ops.cast(mean, b.dtype) - b)
        )
        return loss + term - ops.stop_gradient(term)

    def _rewards(self, y, y_pred):
        """Returns the reward of each example, `(B,)`."""
        if self.reward == "accuracy":
            predicted = ops.argmax(y_pred, axis=-1)
            label = ops.cast(ops.reshape(y, ops.shape(predicted)), predicted.dtype)
            reward = ops.cast(ops.equal(predicted, label), "float32")
        else:
            function = keras.losses.get(self.loss)
            if isinstance(function, keras.losses.Loss):
                function = function.call
            reward = -function(ops.convert_to_tensor(y), y_pred)
        if len(reward.shape) != 1:
            raise ValueError(
                "the loss must be one number for each example, as it is the reward, "
                f"received values of shape {tuple(reward.shape)}. Give the model one "
                "output (batch, classes), or (batch, features)"
            )
        return reward

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "model": keras.saving.serialize_keras_object(self.model),
            "reward": self.reward,
            "weight": self.weight,
            "baseline_decay": self.baseline_decay,
            sublayers.KEY: sublayers.settings_of(self),
        }

    @classmethod
    def from_config(cls, config: Config, custom_objects: Any = None) -> Any:
        config = dict(config)
        model = keras.saving.deserialize_keras_object(
            config["model"], custom_objects=custom_objects
        )
        settings = config.pop(sublayers.KEY, {})
        reinforced = cls(**{**config, "model": model})
        sublayers.apply_settings(reinforced, settings)
        return reinforced


def check_loss(loss: Any) -> None:
    """Raises unless the value of a loss can be the reward of an example.

    Args:
        loss: As given to `compile`.

    Examples:
        >>> check_loss(["mse", "mae"])
        Traceback (most recent call last):
        ...
        TypeError: loss must be one loss, as its value is the reward, received \
['mse', 'mae']. Pass a loss of Keras, or its name
    """
    if loss is None or isinstance(loss, list | tuple | dict):
        raise TypeError(
            "loss must be one loss, as its value is the reward, received "
            f"{checks.short(loss)}. Pass a loss of Keras, or its name"
        )
    mean = "sum_over_batch_size"
    reduction = getattr(loss, "reduction", mean)
    if reduction != mean:
        raise ValueError(
            f'loss must have reduction="{mean}", received reduction="{reduction}". '
            "Leave it out"
        )

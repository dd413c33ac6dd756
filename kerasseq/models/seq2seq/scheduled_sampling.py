"""Scheduled sampling inside a decoder: which inputs are targets, which predictions.

The schedule itself is `kerasseq.training.ScheduledSampling`.
"""

from typing import Any

import keras
from keras import ops

from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor
from kerasseq.training import ScheduledSampling


@register
class ScheduledSampler(ListedConfig, keras.layers.Layer):
    """Draws whether a decoder's input is the target token or the predicted token.

    Args:
        schedule: A `training.ScheduledSampling`; None for teacher forcing.
        **kwargs: For `keras.layers.Layer`.

    Attributes:
        steps: Number of training steps so far, a variable.
    """

    def __init__(
        self, schedule: ScheduledSampling | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.schedule: ScheduledSampling | None = deserialize(schedule)
        if not isinstance(self.schedule, ScheduledSampling | None):
            raise TypeError(
                "scheduled_sampling must be a kerasseq.training.ScheduledSampling or "
                f"None, received {schedule!r}"
            )
        if self.schedule is not None:
            self.seed_generator: keras.random.SeedGenerator = (
                keras.random.SeedGenerator()
            )

    def build(self, input_shape: Shape | None = None) -> None:
        if self.schedule is not None:
            self.steps: keras.Variable = self.add_weight(
                name="steps",
                shape=(),
                dtype="int32",
                initializer="zeros",
                trainable=False,
            )
            self.steps.counts_batches = True  # and not their parts
        self.built = True

    def draw(self, target: Tensor, vocabulary_size: int) -> dict[str, Tensor]:
        """Draws for one training step, and counts the step.

        Args:
            target: Ids `(B, T)`.
            vocabulary_size: V.

        Returns:
            Dictionary of "use_target", boolean `(B, T)`, and with `sampled=True` also
            "gumbel_noise", `(B, T, V)`: the argmax of logits plus this noise is a
            sample from their softmax.
        """
        shape = ops.shape(target)
        ratio = self.schedule.ratio(self.steps)
        self.steps.assign(self.steps + 1)
        seed = self.seed_generator
        u = keras.random.uniform(shape, dtype="float32", seed=seed)
        drawn = {"use_target": u < ratio}  # u < 1, so always with ratio 1
        if self.schedule.sampled:
            shape = (*shape, vocabulary_size)
            u = keras.random.uniform(shape, 1e-7, 1 - 1e-7, "float32", seed)
            drawn["gumbel_noise"] = -ops.log(-ops.log(u))
        return drawn

    def predict_token(
        self, logits: Tensor, gumbel_noise: Tensor | None = None
    ) -> Tensor:
        """Returns the predicted ids `(B,)` of logits `(B, V)`, without gradient."""
        logits = logits if gumbel_noise is None else logits + gumbel_noise
        return ops.argmax(ops.stop_gradient(logits), axis=-1)


def deserialize(value: Any) -> Any:
    """Returns the object of a config; any other value as it is."""
    if isinstance(value, dict):
        return keras.saving.deserialize_keras_object(value)
    return value

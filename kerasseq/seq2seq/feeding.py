"""Which of a decoder's inputs are the truth, and which are what it has said itself."""

import keras
from keras import ops

from kerasseq.core.serialization import register
from kerasseq.training import ScheduledSampling


@register
class Feeding(keras.layers.Layer):
    """Decide, by a schedule, whether a step reads the truth.

    Args:
        schedule: A `training.ScheduledSampling`; None for the truth at all times.
        **kwargs: As for any layer.
    """

    def __init__(self, schedule=None, **kwargs):
        super().__init__(**kwargs)
        self.schedule = schedule = revived(schedule)
        if not isinstance(schedule, ScheduledSampling | None):
            raise TypeError(
                "scheduled_sampling must be a kerasseq.training.ScheduledSampling, "
                f"got {schedule!r}"
            )
        if schedule is not None:
            self.seed_generator = keras.random.SeedGenerator()

    def build(self, input_shape=None):
        if self.schedule is not None:
            self.steps = self.add_weight(
                name="steps",
                shape=(),
                dtype="int32",
                initializer="zeros",
                trainable=False,
            )
        self.built = True

    def decide(self, target, vocabulary_size):
        """Draw for one training step, and count it.

        Args:
            target: Ids `(B, T)`.
            vocabulary_size: Number of ids.

        Returns:
            Dictionary of "true", boolean `(B, T)`, and with `sampled` also "noise",
            `(B, T, V)`, whose addition to the logits makes the best token a draw.
        """
        shape = ops.shape(target)
        ratio = self.schedule.ratio(self.steps)
        self.steps.assign(self.steps + 1)
        seed = self.seed_generator
        u = keras.random.uniform(shape, dtype="float32", seed=seed)  # below 1
        decided = {"true": u < ratio}
        if self.schedule.sampled:
            shape = (*shape, vocabulary_size)
            u = keras.random.uniform(shape, 1e-7, 1 - 1e-7, "float32", seed)
            decided["noise"] = -ops.log(-ops.log(u))
        return decided

    def say(self, logits, noise=None):
        """The token `(B,)` that logits `(B, V)` come to."""
        logits = logits if noise is None else logits + noise
        return ops.argmax(ops.stop_gradient(logits), axis=-1)

    def get_config(self):
        schedule = keras.saving.serialize_keras_object(self.schedule)
        return {**super().get_config(), "schedule": schedule}


def revived(value):
    """What a file has of an object, as the object."""
    if isinstance(value, dict):
        return keras.saving.deserialize_keras_object(value)
    return value

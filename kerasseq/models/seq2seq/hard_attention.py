"""Hard attention inside a decoder: draws before the loop, and the reward after it.

The options are those of `kerasseq.training.Reinforcement`.
"""

from typing import Any

import keras
from keras import ops

from kerasseq.attention import choices
from kerasseq.attention.alignment import AlignmentAttention
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.padding import PADDING
from kerasseq.core.serialization import register
from kerasseq.core.types import Shape, Tensor
from kerasseq.models.seq2seq.scheduled_sampling import deserialize
from kerasseq.training import Reinforcement


@register
class ReinforcedChoices(ListedConfig, keras.layers.Layer):
    r"""Trains the choices of hard attention with the log-probability of the target.

    Args:
        reinforcement: A `training.Reinforcement`; its defaults if None.
        **kwargs: For `keras.layers.Layer`.

    Attributes:
        baseline: b, the mean of earlier rewards, a variable.
    """

    def __init__(
        self, reinforcement: Reinforcement | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        options = deserialize(reinforcement)
        self.reinforcement: Reinforcement = (
            Reinforcement() if options is None else options
        )
        if not isinstance(self.reinforcement, Reinforcement):
            raise TypeError(
                "reinforcement must be a kerasseq.training.Reinforcement or None, "
                f"received {reinforcement!r}"
            )
        self.seed_generator: keras.random.SeedGenerator = keras.random.SeedGenerator()

    def build(self, input_shape: Shape | None = None) -> None:
        self.baseline: keras.Variable = self.add_weight(
            name="baseline",
            shape=(),
            dtype="float32",
            initializer="zeros",
            trainable=False,
            autocast=False,
        )
        self.built = True

    def draw_soft(self, rows: int | Tensor) -> Tensor | None:
        """Draws which rows read the expected value, boolean `(B,)`; None for none."""
        share = self.reinforcement.soft_share
        if not share:
            return None
        u = keras.random.uniform((rows,), dtype="float32", seed=self.seed_generator)
        return u < share

    def term(self, chosen: choices.Choices, y: Tensor, logits: Tensor) -> Tensor:
        """Returns a term of the loss: 0, whose gradient is that of the choices.

        Args:
            chosen: What the attention chose, `(B, T)`.
            y: The ids of the target, `(B, T)`, with padding.
            logits: `(B, T, V)`.
        """
        y = ops.convert_to_tensor(y)
        log_p, entropy = chosen[0], chosen.entropies[0]
        real = ops.cast(ops.not_equal(y, PADDING), log_p.dtype)  # (B, T)
        of_words = -keras.losses.sparse_categorical_crossentropy(
            y, ops.cast(ops.stop_gradient(logits), log_p.dtype), from_logits=True
        )
        reward = ops.sum(real * of_words, axis=-1)  # (B,)
        options = self.reinforcement
        b = ops.convert_to_tensor(self.baseline)
        advantage = ops.cast(b, reward.dtype) - reward
        terms = options.weight * advantage[:, None] * log_p - options.entropy * entropy
        term = ops.sum(real * terms) / ops.maximum(ops.sum(real), 1)
        mean = ops.cast(ops.mean(reward), b.dtype)
        self.baseline.assign(b + (1 - options.baseline_decay) * (mean - b))
        return term - ops.stop_gradient(term)


def draw_noise(
    attention: AlignmentAttention, target: Tensor, memory: Tensor
) -> Tensor | None:
    """Draws what samples the positions of all steps `(B, T, S)`; None for no samples.

    JAX cannot draw inside the loop.

    Args:
        attention: The attention of a decoder.
        target: `(B, T)` or `(B, T, E)`.
        memory: `(B, S, M)`.
    """
    if not (getattr(attention, "sampled", False) or is_reinforced(attention)):
        return None
    rows, steps = ops.shape(target)[:2]
    return attention.gumbel_noise((rows, steps, ops.shape(memory)[1]))


def hand_on(name: str, chosen: choices.Choices) -> None:
    """Adds choices to those that are collected around.

    Args:
        name: The name of the attention layer.
        chosen: Its choices.
    """
    for log_p, entropy in zip(chosen, chosen.entropies, strict=True):
        choices.add(name, log_p, entropy)


def is_reinforced(attention: keras.Layer | None) -> bool:
    """Returns whether the attention learns its choices from a reward."""
    return getattr(attention, "reinforced", False)


def doubly_stochastic_loss(alpha: Tensor, target: Tensor) -> Tensor:
    r"""Computes how far each place is from a sum of 1 over the words.

    $$\frac{1}{B} \sum_b \sum_i \Big(1 - \sum_t \alpha_{bti}\Big)^2$$

    Xu et al. 2015, equation 14, without its factor.

    Args:
        alpha: Attention weights, `(B, T, S)`.
        target: Ids `(B, T)`, whose padding is left out.

    Examples:
        >>> alpha = np.array([[[0.5, 0.5], [1.0, 0.0]]])
        >>> float(doubly_stochastic_loss(alpha, np.array([[1, 7]])))
        0.5
    """
    alpha = ops.convert_to_tensor(alpha)
    real = ops.cast(ops.not_equal(target, PADDING), alpha.dtype)
    sums = ops.sum(alpha * real[..., None], axis=1)  # (B, S)
    return ops.mean(ops.sum(ops.square(1 - sums), axis=-1))

r"""Sampled choices whose gradient comes from a reward: the score-function estimator.

$$
\nabla\, \mathbb{E}[L] = \mathbb{E}\left[\nabla L + (L - b)\, \nabla \log p \right]
$$

with the loss L of an example, the probability p of what was sampled for it, and any b
that does not depend on the sample. Williams 1992; Mnih et al. 2014; Xu et al. 2015.
Course slides B.
"""

import contextlib
import contextvars
from collections.abc import Iterator

from keras import ops

from kerasseq.core.types import Tensor


class Choices(list[Tensor]):
    """Log-probabilities `(B, ...)` of what layers sample.

    Args:
        noise: Gumbel noise of the shape of the weights, for one layer that cannot draw
            it, as inside the loop of a decoder; None to draw.
        soft: Boolean `(B,)`, True for rows that read the expected value instead of a
            sample; None for no row.

    Attributes:
        entropies: The entropy of the weights of each choice, `(B, ...)`.
    """

    def __init__(self, noise: Tensor | None = None, soft: Tensor | None = None) -> None:
        super().__init__()
        self.noise: Tensor | None = noise
        self.soft: Tensor | None = soft
        self.entropies: list[Tensor] = []


_collected: contextvars.ContextVar[Choices | None] = contextvars.ContextVar(
    "collected", default=None
)


@contextlib.contextmanager
def collect(
    noise: Tensor | None = None, soft: Tensor | None = None
) -> Iterator[Choices]:
    """Collects log-probabilities `(B, ...)` of what layers sample in the context.

    Args:
        noise: As for `Choices`.
        soft: As for `Choices`.

    Examples:
        >>> with collect() as choices:
        ...     add("attention", np.zeros((2, 3)), np.ones((2, 3)))
        >>> [x.shape for x in choices], len(choices.entropies)
        ([(2, 3)], 1)
    """
    choices = Choices(noise, soft)
    token = _collected.set(choices)
    try:
        yield choices
    finally:
        _collected.reset(token)


def current() -> Choices | None:
    """Returns the choices that are collected; None outside of `collect`."""
    return _collected.get()


def add(name: str, log_probability: Tensor, entropy: Tensor) -> None:
    """Adds the log-probability of what a layer sampled.

    Args:
        name: The name of the layer, for the message.
        log_probability: `(B, ...)`, 0 where nothing was sampled.
        entropy: Of the distribution, `(B, ...)`.

    Raises:
        ValueError: If none collects them, so that the layer would not be trained.
    """
    choices = _collected.get()
    if choices is None:
        raise ValueError(
            f'{name} has gradient="reinforce", which needs a reward in training, '
            "received a call with training=True outside of a ReinforcedModel. Wrap the "
            "model, kerasseq.models.ReinforcedModel(model), or choose "
            'gradient="straight_through"'
        )
    choices.append(log_probability)
    choices.entropies.append(entropy)


def log_probability(choices: list[Tensor]) -> Tensor:
    r"""Returns $\log p$ of all choices of each example, `(B,)`.

    Args:
        choices: At least one tensor `(B, ...)`, as from `collect`.

    Examples:
        >>> p = log_probability([np.ones((2, 3)), np.ones((2, 1))])
        >>> keras.ops.convert_to_numpy(p).tolist()
        [4.0, 4.0]
    """
    first, *others = (
        ops.sum(ops.reshape(x, (ops.shape(x)[0], -1)), -1) for x in choices
    )
    return sum(others, first)

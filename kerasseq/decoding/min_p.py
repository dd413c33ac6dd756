"""Only tokens that are not much worse than the best."""

import dataclasses

from keras import ops

from kerasseq.decoding import arguments
from kerasseq.decoding.sampler import Sampler, renormalized, softmax


@dataclasses.dataclass(frozen=True)
class MinP(Sampler):
    r"""Draw from the tokens that have at least $p$ times the best probability.

    $$p'(v) \propto p_\tau(v)\ \text{if}\ p_\tau(v) \ge p \cdot \max_w p_\tau(w),\
    \text{else}\ 0$$

    Args:
        p: Above 0 and at most 1. With 1 only the best are left.
        temperature: $\tau$, which also changes who is left.

    Raises:
        TypeError: If an argument is no number.
        ValueError: If p is not in (0, 1], or the temperature not above 0.

    Examples:
        >>> logits = np.log(np.array([[0.1, 0.6, 0.3]], "float32"))
        >>> p = MinP(0.4).distribution(logits)
        >>> print(keras.ops.convert_to_numpy(p).round(3))
        [[0.    0.667 0.333]]

    References:
        Nguyen et al., "Turning Up the Heat: Min-p Sampling for Creative and Coherent
        LLM Outputs", 2024.
    """

    p: float
    temperature: float = 1.0

    def __post_init__(self):
        arguments.share("p", self.p)
        arguments.temperature(self.temperature)

    def distribution(self, logits):
        p = softmax(logits, self.temperature)  # (B, V)
        return renormalized(p, p >= self.p * ops.max(p, axis=-1, keepdims=True))

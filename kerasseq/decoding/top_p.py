"""Only as many of the best tokens as hold a given share of the probability."""

import dataclasses

from keras import ops

from kerasseq.decoding import arguments
from kerasseq.decoding.sampler import Sampler, renormalized, softmax


@dataclasses.dataclass(frozen=True)
class TopP(Sampler):
    r"""Draw from the nucleus: the fewest best tokens that hold probability $p$.

    $$p'(v) \propto p_\tau(v)\ \text{if}\ v \in V^{(p)},\ \text{else}\ 0,\qquad
    \sum_{v \in V^{(p)}} p_\tau(v) \ge p$$

    Where the model is sure, the nucleus is small; where it is not, it is large. The
    best token is always in it.

    Args:
        p: The share, above 0 and at most 1.
        temperature: $\tau$, which also changes who is in the nucleus.

    Raises:
        TypeError: If an argument is no number.
        ValueError: If p is not in (0, 1], or the temperature not above 0.

    Examples:
        >>> logits = np.log(np.array([[0.1, 0.6, 0.3]], "float32"))
        >>> p = TopP(0.8).distribution(logits)
        >>> print(keras.ops.convert_to_numpy(p).round(3))
        [[0.    0.667 0.333]]

    References:
        Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020.
    """

    p: float
    temperature: float = 1.0

    def __post_init__(self):
        arguments.share("p", self.p)
        arguments.temperature(self.temperature)

    def distribution(self, logits):
        p = softmax(logits, self.temperature)  # (B, V)
        if self.p == 1:  # rounding would cut off the last
            return p
        order = ops.argsort(-p, axis=-1)  # best first
        ranked = ops.take_along_axis(p, order, axis=-1)
        before = ops.cumsum(ranked, axis=-1) - ranked  # what better tokens hold
        size = ops.sum(ops.cast(before < self.p, "int32"), axis=-1, keepdims=True)
        rank = ops.argsort(order, axis=-1)  # of each token
        return renormalized(p, rank < size)

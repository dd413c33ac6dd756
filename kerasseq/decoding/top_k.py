"""Only the k best tokens."""

import dataclasses

from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.decoding import arguments
from kerasseq.decoding.sampler import Sampler, renormalized, softmax


@dataclasses.dataclass(frozen=True)
class TopK(Sampler):
    r"""Draw from the $k$ best tokens; of equal ones the first are the better.

    $$p'(v) \propto p_\tau(v)\ \text{if}\ v \in V^{(k)},\ \text{else}\ 0$$

    Args:
        k: How many tokens may be drawn. More than there are means all.
        temperature: $\tau$, which changes how often each is drawn.

    Raises:
        TypeError: If an argument is no number, or k is not whole.
        ValueError: If k is below 1, or the temperature not above 0.

    Examples:
        >>> logits = np.log(np.array([[0.1, 0.6, 0.3]], "float32"))
        >>> p = TopK(2).distribution(logits)
        >>> print(keras.ops.convert_to_numpy(p).round(3))
        [[0.    0.667 0.333]]

    References:
        Fan, Lewis and Dauphin, "Hierarchical Neural Story Generation", 2018.
    """

    k: int
    temperature: float = 1.0

    def __post_init__(self):
        checks.whole_number("k", self.k)
        arguments.temperature(self.temperature)

    def distribution(self, logits):
        logits = ops.convert_to_tensor(logits)  # (B, V)
        k = min(self.k, logits.shape[-1])
        worst = kernels.top_k(logits, k)[0][:, -1:]  # (B, 1): the k-th best
        above, equal = logits > worst, logits == worst
        room = k - ops.sum(ops.cast(above, "int32"), axis=-1, keepdims=True)
        order = ops.cumsum(ops.cast(equal, "int32"), axis=-1)
        kept = ops.logical_or(above, ops.logical_and(equal, order <= room))
        return renormalized(softmax(logits, self.temperature), kept)

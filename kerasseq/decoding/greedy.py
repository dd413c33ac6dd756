"""The best token, each time."""

import dataclasses

from keras import ops

from kerasseq.decoding.sampler import Sampler


@dataclasses.dataclass(frozen=True)
class Greedy(Sampler):
    r"""Take the token with the largest logit; of equal ones the first.

    $$x_t = \arg\max_v p(v \mid x_{<t})$$

    Examples:
        >>> logits = np.array([[0.0, 2.0, 1.0]], "float32")
        >>> keras.ops.convert_to_numpy(Greedy().distribution(logits)).tolist()
        [[0.0, 1.0, 0.0]]
    """

    def distribution(self, logits):
        logits = ops.convert_to_tensor(logits)
        best = self.choose(logits, None, None, None)
        return ops.cast(ops.arange(logits.shape[-1]) == best[:, None], logits.dtype)

    def choose(self, logits, u, state, step):
        return ops.cast(ops.argmax(logits, axis=-1), "int32")

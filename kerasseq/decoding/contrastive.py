"""Probable tokens that do not repeat what was said: contrastive search."""

import dataclasses

from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.decoding.sampler import Sampler, softmax
from kerasseq.decoding.steps import repeat_rows


@dataclasses.dataclass(frozen=True)
class Contrastive(Sampler):
    r"""Of the k best tokens take one whose hidden vector is unlike those before it.

    $$
    x_t = \arg\max_{v \in V^{(k)}} \Big\{ (1 - \alpha)\, p(v \mid x_{<t})
    - \alpha \max_{j < t} \cos(h_v, h_{x_j}) \Big\}
    $$

    $h_v$ is what the model would say inside after reading v, so each of the k tokens is
    tried: a token costs k + 1 steps of the model.

    The state of the step function must be a dictionary with the key `"hidden"`: the
    vector `(batch, units)` of the token that was read last, from which its logits come.

    Nothing is drawn, so a seed changes nothing; of equal tokens the more probable one
    is taken.

    Args:
        k: How many tokens are tried. More than there are means all.
        alpha: How much likeness counts, from 0, which is greedy, to 1.

    Raises:
        TypeError: If an argument is no number, or k is not whole.
        ValueError: If k is below 1, or alpha outside [0, 1].

    Examples:
        >>> Contrastive(4, alpha=0.6)
        Contrastive(k=4, alpha=0.6)

    References:
        Su et al., "A Contrastive Framework for Neural Text Generation", 2022.
    """

    k: int
    alpha: float

    def __post_init__(self):
        checks.whole_number("k", self.k)
        checks.fraction("alpha", self.alpha)

    def distribution(self, logits):
        raise TypeError(
            "Contrastive has no distribution: it compares hidden vectors, so use it "
            "in generate(step, state, prompt, sampler=Contrastive(k, alpha))"
        )

    def begin(self, state, room):
        if not isinstance(state, dict) or "hidden" not in state:
            has = sorted(state) if isinstance(state, dict) else type(state).__name__
            raise ValueError(
                'Contrastive needs a state that is a dictionary with the key "hidden", '
                f"of shape (batch, units); this one has {has}"
            )
        shape = tuple(state["hidden"].shape)
        if len(shape) != 2:
            raise ValueError(f'state["hidden"] must be (batch, units), got {shape}')
        batch, units = shape
        return {
            "model": state,
            "seen": ops.zeros((batch, room, units)),  # (B, N, H), of length 1 each
            "count": ops.zeros((batch,), "int32"),  # of what has been seen
        }

    def watch(self, step):
        def remember(state, token):
            logits, model = step(state["model"], token)
            seen, count = state["seen"], state["count"]
            here = ops.arange(seen.shape[1])[None] == count[:, None]  # (B, N)
            new = unit(model["hidden"])[:, None]  # (B, 1, H)
            seen = ops.where(here[..., None], new, seen)
            return logits, {"model": model, "seen": seen, "count": count + 1}

        return remember

    def choose(self, logits, u, state, step):
        V = logits.shape[-1]
        p, v = kernels.top_k(softmax(logits), min(self.k, V))  # (B, K)
        B, K = v.shape
        _, after = step(repeat_rows(state["model"], K), ops.reshape(v, (B * K,)))
        h = ops.reshape(unit(after["hidden"]), (B, K, -1))
        alike = ops.matmul(h, ops.swapaxes(state["seen"], 1, 2))  # (B, K, N)
        was_read = ops.arange(alike.shape[-1])[None] < state["count"][:, None]
        alike = ops.where(was_read[:, None], alike, -2.0)  # less than any cosine
        score = (1 - self.alpha) * p - self.alpha * ops.max(alike, axis=-1)
        best = ops.argmax(score, axis=-1)[:, None]  # (B, 1)
        return ops.cast(ops.take_along_axis(v, best, axis=1)[:, 0], "int32")


def unit(h):
    """Vectors `(..., H)` at length 1; zero stays zero.

    Examples:
        >>> keras.ops.convert_to_numpy(unit(np.array([3.0, 4.0], "float32"))).round(1)
        array([0.6, 0.8], dtype=float32)
    """
    h = ops.cast(h, "float32")
    length = ops.sqrt(ops.sum(h * h, axis=-1, keepdims=True))
    return h / ops.maximum(length, 1e-12)

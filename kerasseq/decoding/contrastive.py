"""Contrastive search: probable tokens whose hidden states are new."""

import dataclasses
from typing import NoReturn

import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.types import Nested, Tensor
from kerasseq.decoding.inputs import Step, repeat_rows
from kerasseq.decoding.samplers import Sampler, softmax


@dataclasses.dataclass(frozen=True)
class Contrastive(Sampler):
    r"""Takes, of the k best tokens, one whose hidden state is unlike those before.

    $$
    x_t = \arg\max_{v \in V^{(k)}} \Big\{ (1 - \alpha)\, p(v \mid x_{<t})
    - \alpha \max_{j < t} \cos(h_v, h_{x_j}) \Big\}
    $$

    $h_v$ is the hidden state after reading v, so the model reads each of the k
    candidates: a token costs k + 1 steps of the model.

    The state of the step function must be a dictionary with the key `"hidden"`: the
    vector `(batch, units)` of the last token, from which its logits are computed.

    The search is deterministic and ignores the seed. Ties go to the more probable
    token.

    Args:
        k: Number of candidates. At most the whole vocabulary is used.
        alpha: Weight of the similarity, from 0, which is greedy, to 1.

    Raises:
        TypeError: If an argument is not a number, or k not an integer.
        ValueError: If k is below 1, or alpha outside [0, 1].

    Examples:
        >>> Contrastive(4, alpha=0.6)
        Contrastive(k=4, alpha=0.6)

    References:
        Su et al., "A Contrastive Framework for Neural Text Generation", 2022.
    """

    k: int
    alpha: float

    def __post_init__(self) -> None:
        checks.whole_number("k", self.k)
        checks.fraction("alpha", self.alpha)

    def distribution(self, logits: Tensor) -> NoReturn:
        raise TypeError(
            "Contrastive has no distribution, since it compares hidden states. Pass it "
            "to generate(step, state, prompt, sampler=Contrastive(k, alpha))"
        )

    def initial_state(self, state: Nested, num_steps: int) -> Nested:
        if not isinstance(state, dict) or "hidden" not in state:
            has = sorted(state) if isinstance(state, dict) else type(state).__name__
            raise ValueError(
                'Contrastive needs a state that is a dictionary with the key "hidden", '
                f"of shape (batch, units); this one has {has}"
            )
        shape = tuple(state["hidden"].shape)
        if len(shape) != 2:
            raise ValueError(
                f'state["hidden"] must be (batch, units), received {shape}'
            )
        batch, units = shape
        return {
            "model": state,
            "hidden": ops.zeros((batch, num_steps, units)),  # (B, N, H), unit vectors
            "count": ops.zeros((batch,), "int32"),  # of tokens read
        }

    def wrap_step(self, step: Step) -> Step:
        def step_with_history(state: Nested, token: Tensor) -> tuple[Tensor, Nested]:
            logits, model = step(state["model"], token)
            hidden, count = state["hidden"], state["count"]
            here = ops.arange(hidden.shape[1])[None] == count[:, None]  # (B, N)
            new = unit(model["hidden"])[:, None]  # (B, 1, H)
            hidden = ops.where(here[..., None], new, hidden)
            return logits, {"model": model, "hidden": hidden, "count": count + 1}

        return step_with_history

    def choose(self, logits: Tensor, u: Tensor, state: Nested, step: Step) -> Tensor:
        V = logits.shape[-1]
        p, v = kernels.top_k(softmax(logits), min(self.k, V))  # (B, K)
        B, K = v.shape
        _, after = step(repeat_rows(state["model"], K), ops.reshape(v, (B * K,)))
        h = ops.reshape(unit(after["hidden"]), (B, K, -1))
        cosine = ops.matmul(h, ops.swapaxes(state["hidden"], 1, 2))  # (B, K, N)
        was_read = ops.arange(cosine.shape[-1])[None] < state["count"][:, None]
        cosine = ops.where(was_read[:, None], cosine, -2.0)  # below any cosine
        score = (1 - self.alpha) * p - self.alpha * ops.max(cosine, axis=-1)
        score = ops.where(p > 0, score, -np.inf)  # fewer than K are possible
        best = ops.argmax(score, axis=-1)[:, None]  # (B, 1)
        return ops.cast(ops.take_along_axis(v, best, axis=1)[:, 0], "int32")


def unit(h: Tensor) -> Tensor:
    """Normalizes vectors `(..., H)` to length 1; zero stays zero.

    Examples:
        >>> keras.ops.convert_to_numpy(unit(np.array([3.0, 4.0], "float32"))).round(1)
        array([0.6, 0.8], dtype=float32)
    """
    h = ops.cast(h, "float32")
    length = ops.sqrt(ops.sum(h * h, axis=-1, keepdims=True))
    return h / ops.maximum(length, 1e-12)  # a state of zeros stays zeros

r"""Samplers: from the logits of the next token to a token.

A sampler defines a distribution over the vocabulary. A token is drawn from it with a
number $u$, uniform in $[0, 1)$: the first token at which the cumulative probability
exceeds $u$. All randomness is an input, so the same numbers give the same tokens,
whether the loop is compiled or not.
"""

import dataclasses

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.types import Nested, Tensor
from kerasseq.decoding import inputs
from kerasseq.decoding.inputs import Step


class Sampler:
    """Base class of the samplers. A subclass overrides `distribution`.

    Samplers are frozen data classes: equal arguments make equal samplers.
    """

    def distribution(self, logits: Tensor) -> Tensor:
        """Returns the probabilities from which the next token is drawn.

        Args:
            logits: Tensor `(batch, vocabulary)`.

        Returns:
            Tensor `(batch, vocabulary)` whose rows sum to 1. A token that is filtered
            out has probability 0.
        """
        raise NotImplementedError(f"{type(self).__name__} must define distribution")

    def stages(self, logits: Tensor) -> dict[str, Tensor]:
        """Returns the distribution after each stage of the sampler, in their order.

        Args:
            logits: Tensor `(batch, vocabulary)`.

        Returns:
            Probabilities `(batch, vocabulary)` by stage: first "model", those of the
            model; last those of `distribution`.

        Examples:
            >>> logits = np.log(np.array([[0.1, 0.4, 0.3, 0.2]], "float32"))
            >>> stages = RandomSampler(top_k=3, top_p=0.7).stages(logits)
            >>> for name, p in stages.items():
            ...     print(name, keras.ops.convert_to_numpy(p)[0].round(3))
            model [0.1 0.4 0.3 0.2]
            temperature [0.1 0.4 0.3 0.2]
            top_k [0.    0.444 0.333 0.222]
            top_p [0.    0.571 0.429 0.   ]
        """
        return {"model": softmax(logits), "sampler": self.distribution(logits)}

    def choose(self, logits: Tensor, u: Tensor, state: Nested, step: Step) -> Tensor:
        """Chooses the next token of each row.

        Args:
            logits: Tensor `(batch, vocabulary)`.
            u: Uniform random numbers in [0, 1), `(batch,)`.
            state: The state that the step function returned with the logits.
            step: The step function, for a sampler that looks ahead.

        Returns:
            int32 tensor `(batch,)`.
        """
        return draw(self.distribution(logits), u)

    def wrap_step(self, step: Step) -> Step:
        """Wraps the step function, for a sampler that extends the state."""
        return step

    def initial_state(self, state: Nested, num_steps: int) -> Nested:
        """Extends the initial state for at most `num_steps` calls of the step."""
        return state


@dataclasses.dataclass(frozen=True)
class Greedy(Sampler):
    r"""Takes the token with the largest logit, of equal ones the first.

    $$x_t = \arg\max_v p(v \mid x_{<t})$$

    Examples:
        >>> logits = np.array([[0.0, 2.0, 1.0]], "float32")
        >>> keras.ops.convert_to_numpy(Greedy().distribution(logits)).tolist()
        [[0.0, 1.0, 0.0]]
    """

    def distribution(self, logits: Tensor) -> Tensor:
        logits = ops.convert_to_tensor(logits)
        best = self.choose(logits, None, None, None)
        return ops.cast(ops.arange(logits.shape[-1]) == best[:, None], logits.dtype)

    def choose(self, logits: Tensor, u: Tensor, state: Nested, step: Step) -> Tensor:
        return ops.cast(ops.argmax(logits, axis=-1), "int32")


@dataclasses.dataclass(frozen=True)
class Temperature(Sampler):
    r"""Samples from the whole distribution at a temperature $\tau$.

    $$p_\tau(v) = \frac{e^{z_v/\tau}}{\sum_w e^{z_w/\tau}}$$

    Args:
        temperature: $\tau$. 1 samples from the model's distribution. Lower is more
            deterministic, higher more random.

    Raises:
        TypeError: If the temperature is not a number.
        ValueError: If it is not above 0, or not finite.

    Examples:
        >>> logits = np.log(np.array([[0.2, 0.8]], "float32"))
        >>> p = Temperature(0.5).distribution(logits)  # proportional to the squares
        >>> print(keras.ops.convert_to_numpy(p).round(3))
        [[0.059 0.941]]

    References:
        Ackley, Hinton and Sejnowski, "A Learning Algorithm for Boltzmann Machines",
        1985.
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        inputs.temperature(self.temperature)

    def distribution(self, logits: Tensor) -> Tensor:
        return softmax(logits, self.temperature)


@dataclasses.dataclass(frozen=True)
class TopK(Sampler):
    r"""Samples from the $k$ most probable tokens; ties go to the smaller ids.

    $$p'(v) \propto p_\tau(v)\ \text{if}\ v \in V^{(k)},\ \text{else}\ 0$$

    Args:
        k: Number of tokens to sample from. At most the whole vocabulary is used.
        temperature: $\tau$ of the distribution, which does not change the set.

    Raises:
        TypeError: If an argument is not a number, or k not an integer.
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

    def __post_init__(self) -> None:
        checks.whole_number("k", self.k)
        inputs.temperature(self.temperature)

    def distribution(self, logits: Tensor) -> Tensor:
        p = softmax(logits, self.temperature)
        return renormalize(p, in_top_k(logits, self.k))


@dataclasses.dataclass(frozen=True)
class TopP(Sampler):
    r"""Samples from the nucleus: the fewest tokens with cumulative probability $p$.

    $$p'(v) \propto p_\tau(v)\ \text{if}\ v \in V^{(p)},\ \text{else}\ 0,\qquad
    \sum_{v \in V^{(p)}} p_\tau(v) \ge p$$

    The nucleus is small for a peaked distribution and large for a flat one. It always
    includes the most probable token.

    Args:
        p: Cumulative probability, above 0 and at most 1.
        temperature: $\tau$, applied before the nucleus is computed.

    Raises:
        TypeError: If an argument is not a number.
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

    def __post_init__(self) -> None:
        inputs.share("p", self.p)
        inputs.temperature(self.temperature)

    def distribution(self, logits: Tensor) -> Tensor:
        p = softmax(logits, self.temperature)
        return renormalize(p, in_top_p(p, self.p))


@dataclasses.dataclass(frozen=True)
class MinP(Sampler):
    r"""Samples from the tokens with at least $p$ times the largest probability.

    $$p'(v) \propto p_\tau(v)\ \text{if}\ p_\tau(v) \ge p \cdot \max_w p_\tau(w),\
    \text{else}\ 0$$

    Args:
        p: Above 0 and at most 1. With 1 only the most probable tokens are left.
        temperature: $\tau$, applied before the threshold.

    Raises:
        TypeError: If an argument is not a number.
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

    def __post_init__(self) -> None:
        inputs.share("p", self.p)
        inputs.temperature(self.temperature)

    def distribution(self, logits: Tensor) -> Tensor:
        p = softmax(logits, self.temperature)
        return renormalize(p, in_min_p(p, self.p))


@dataclasses.dataclass(frozen=True)
class RandomSampler(Sampler):
    """Samples after temperature, top-k, top-p and min-p, in this order.

    The order is that of Hugging Face's `generate`: each filter reads the distribution
    that the one before left, renormalized.

    Args:
        temperature: As for `Temperature`.
        top_k: As `k` of `TopK`; None for no limit.
        top_p: As `p` of `TopP`; None for no limit.
        min_p: As `p` of `MinP`; None for no limit.

    Raises:
        TypeError: If an argument is not a number, or `top_k` not an integer.
        ValueError: If an argument is out of range.

    Examples:
        >>> logits = np.log(np.array([[0.1, 0.4, 0.3, 0.2]], "float32"))
        >>> p = RandomSampler(top_k=3, top_p=0.7).distribution(logits)
        >>> print(keras.ops.convert_to_numpy(p).round(3))  # of 4/9, 3/9 and 2/9
        [[0.    0.571 0.429 0.   ]]
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def __post_init__(self) -> None:
        inputs.temperature(self.temperature)
        if self.top_k is not None:
            checks.whole_number("top_k", self.top_k)
        if self.top_p is not None:
            inputs.share("top_p", self.top_p)
        if self.min_p is not None:
            inputs.share("min_p", self.min_p)

    def distribution(self, logits: Tensor) -> Tensor:
        return list(self._filtered(logits).values())[-1]

    def stages(self, logits: Tensor) -> dict[str, Tensor]:
        return {"model": softmax(logits), **self._filtered(logits)}

    def _filtered(self, logits: Tensor) -> dict[str, Tensor]:
        stages = {"temperature": softmax(logits, self.temperature)}
        p = stages["temperature"]
        if self.top_k is not None:
            p = stages["top_k"] = renormalize(p, in_top_k(logits, self.top_k))
        if self.top_p is not None:
            p = stages["top_p"] = renormalize(p, in_top_p(p, self.top_p))
        if self.min_p is not None:
            stages["min_p"] = renormalize(p, in_min_p(p, self.min_p))
        return stages


def in_top_k(logits: Tensor, k: int) -> Tensor:
    """Returns whether each token is among the k best of its row, boolean `(B, V)`."""
    logits = ops.convert_to_tensor(logits)
    k = min(k, logits.shape[-1])
    kth = kernels.top_k(logits, k)[0][:, -1:]  # (B, 1)
    above, equal = logits > kth, logits == kth
    # Exactly k tokens, also where several are equal to the k-th.
    room = k - ops.sum(ops.cast(above, "int32"), axis=-1, keepdims=True)
    order = ops.cumsum(ops.cast(equal, "int32"), axis=-1)
    return ops.logical_or(above, ops.logical_and(equal, order <= room))


def in_top_p(p: Tensor, share: float) -> Tensor:
    """Returns whether each token is in the nucleus of its row, boolean `(B, V)`."""
    if share == 1:  # rounding would remove the last token
        return ops.ones_like(p, "bool")
    order = ops.argsort(-p, axis=-1)  # most probable first
    ranked = ops.take_along_axis(p, order, axis=-1)
    before = ops.cumsum(ranked, axis=-1) - ranked  # held by more probable tokens
    size = ops.sum(ops.cast(before < share, "int32"), axis=-1, keepdims=True)
    rank = ops.argsort(order, axis=-1)  # of each token
    return rank < size


def in_min_p(p: Tensor, share: float) -> Tensor:
    """Returns where p is at least `share` of its maximum, boolean `(B, V)`."""
    return p >= share * ops.max(p, axis=-1, keepdims=True)


def renormalize(p: Tensor, kept: Tensor) -> Tensor:
    """Returns the distribution restricted to the tokens that are `kept`."""
    p = ops.where(kept, p, 0.0)
    return p / ops.sum(p, axis=-1, keepdims=True)


def softmax(logits: Tensor, temperature: float = 1.0) -> Tensor:
    r"""Computes $\mathrm{softmax}(\text{logits}/\tau)$ in float32, for any $\tau > 0$.

    Examples:
        >>> p = softmax(np.array([[0.0, 3e38]], "float32"), 1e-9)
        >>> keras.ops.convert_to_numpy(p).tolist()
        [[0.0, 1.0]]
    """
    logits = ops.cast(logits, "float32")
    best = ops.max(logits, axis=-1, keepdims=True)
    return keras.activations.softmax((logits - best) / float(temperature))


def draw(p: Tensor, u: Tensor) -> Tensor:
    """Finds the token of each row at which the cumulative probability exceeds u.

    Args:
        p: Probabilities, or anything proportional to them, `(batch, vocabulary)`.
        u: `(batch,)`, in [0, 1).

    Returns:
        int32 tensor `(batch,)`.

    Examples:
        >>> p = np.array([[0.2, 0.0, 0.8]] * 3, "float32")
        >>> np.asarray(draw(p, np.array([0.0, 0.19, 0.21], "float32"))).tolist()
        [0, 0, 2]
    """
    p = ops.convert_to_tensor(p)
    # A parallel cumulative sum differs in its last bits even where 0 was added: without
    # this a token of probability 0 could be drawn.
    sums = ops.where(p > 0, ops.cumsum(p, axis=-1), 0.0)
    drawn = ops.convert_to_tensor(u)[:, None] * ops.max(sums, axis=-1, keepdims=True)
    exceeds = ops.cast(sums > drawn, "int32")
    return ops.cast(ops.argmax(exceeds, axis=-1), "int32")

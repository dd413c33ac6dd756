r"""What all samplers have in common: from logits to a distribution, and a draw from it.

A draw takes a number $u$, even between 0 and 1, and gives the first token at which the
sum of the probabilities so far exceeds $u$. So all chance comes in from outside: the
same numbers give the same tokens, whether the loop is compiled or not.
"""

import keras
from keras import ops


class Sampler:
    """The base of the samplers. A new one overrides `distribution`.

    Samplers are frozen data classes: equal arguments make equal samplers.
    """

    def distribution(self, logits):
        """The probabilities with which tokens are drawn.

        Args:
            logits: Tensor `(batch, vocabulary)`.

        Returns:
            Tensor `(batch, vocabulary)` whose rows sum to 1. A token that may not be
            drawn has exactly 0.
        """
        raise NotImplementedError(f"{type(self).__name__} must define distribution")

    def choose(self, logits, u, state, step):
        """The next token of each row.

        Args:
            logits: Tensor `(batch, vocabulary)`.
            u: Numbers from 0 up to, not including, 1: `(batch,)`.
            state: The state that came with the logits.
            step: The step function, for a sampler that looks ahead.

        Returns:
            int32 tensor `(batch,)`.
        """
        return draw(self.distribution(logits), u)

    def watch(self, step):
        """The step function, or one around it that remembers more."""
        return step

    def begin(self, state, room: int):
        """The state from which `watch(step)` starts; `room` steps will be taken."""
        return state


def draw(p, u):
    """The first token of each row at which the running sum of p exceeds u.

    Args:
        p: Probabilities, or anything in proportion to them, `(batch, vocabulary)`.
        u: `(batch,)`, from 0 up to, not including, 1.

    Returns:
        int32 tensor `(batch,)`.

    Examples:
        >>> p = np.array([[0.2, 0.0, 0.8]] * 3, "float32")
        >>> np.asarray(draw(p, np.array([0.0, 0.19, 0.21], "float32"))).tolist()
        [0, 0, 2]
    """
    p = ops.convert_to_tensor(p)
    # Sums that are computed in parallel differ in their last bits, also where nothing
    # was added: without this a token of probability 0 could be drawn.
    sums = ops.where(p > 0, ops.cumsum(p, axis=-1), 0.0)
    drawn = ops.convert_to_tensor(u)[:, None] * ops.max(sums, axis=-1, keepdims=True)
    return first(sums > drawn)


def first(true):
    """The place of the first True of each row, as int32."""
    return ops.cast(ops.argmax(ops.cast(true, "int32"), axis=-1), "int32")


def softmax(logits, temperature=1.0):
    r"""$\mathrm{softmax}(\text{logits}/\tau)$, however small $\tau$ is.

    Examples:
        >>> p = softmax(np.array([[0.0, 3e38]], "float32"), 1e-9)
        >>> keras.ops.convert_to_numpy(p).tolist()
        [[0.0, 1.0]]
    """
    logits = ops.cast(logits, "float32")
    best = ops.max(logits, axis=-1, keepdims=True)
    return keras.activations.softmax((logits - best) / temperature)


def renormalized(p, kept):
    """What is left of a distribution when only `kept` tokens may be drawn."""
    p = ops.where(kept, p, 0.0)
    return p / ops.sum(p, axis=-1, keepdims=True)

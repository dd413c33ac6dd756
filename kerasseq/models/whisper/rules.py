r"""Rules of Whisper about the next token: functions of logits.

A token that a rule forbids gets the logit $-\infty$. With $z$ the logits, $e$ the id of
the end, $m$ the mark of no times, and $a$ the id of 0.00 s, which those of all other
times follow:

| rule | forbidden |
|---|---|
| suppressed | $S$; at the beginning also $S_1$ |
| pairs | after two times, or one at the beginning: times; after text and a time: text |
| order | times before the latest; after text also the latest |
| beginning | all but the times up to $a + i$, with $i$ the largest initial index |
| probability | text, if $\log \sum_{v \ge a} e^{z_v} > \max_{v < a} z_v$ |

Radford et al. 2022, sections 2.3 and 4.5, and its published code; the processors of
logits of Hugging Face do the same.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core.types import Tensor

# The tokens that were written, as far as the rules need them: tensors `(B,)`.
History = dict[str, Tensor]


def suppress(logits: Tensor, tokens: Sequence[int]) -> Tensor:
    """Forbids some tokens.

    Args:
        logits: `(B, V)`.
        tokens: Their ids.

    Examples:
        >>> z = suppress(keras.ops.zeros((1, 3)), [1])
        >>> keras.ops.convert_to_numpy(z).tolist()
        [[0.0, -inf, 0.0]]
    """
    ids = np.arange(logits.shape[-1])
    return forbid(logits, kernels.constant(np.isin(ids, tokens), like=logits))


def forbid(logits: Tensor, forbidden: Tensor) -> Tensor:
    r"""Returns logits, with $-\infty$ where `forbidden` is True."""
    return ops.where(forbidden, -float("inf"), logits)


def start_history(lengths: Tensor) -> History:
    """Returns the history before the first token of prompts.

    Args:
        lengths: `(B,)`, the tokens of each prompt.
    """
    no = ops.zeros_like(lengths, "bool")
    return {
        "unread": ops.cast(lengths, "int32"),
        "last": no,
        "before": ops.logical_not(no),
        "latest": ops.zeros_like(lengths, "int32"),
    }


def extend_history(history: History, token: Tensor, first_timestamp: int) -> History:
    """Returns the history after a token, of the prompt or written.

    Args:
        history: "unread": tokens of the prompt that follow; below 0, the tokens that
            were written. "last": whether the last that was written is a time. "before":
            whether that before it is one, or there is none. "latest": the latest time.
        token: `(B,)`, the token that is read.
        first_timestamp: a.

    Examples:
        >>> history = start_history(keras.ops.array([1]))
        >>> for token in (7, 12, 3, 15):  # a prompt of one token, and three tokens
        ...     history = extend_history(history, keras.ops.array([token]), 10)
        >>> [int(history[name][0]) for name in ("unread", "last", "before", "latest")]
        [-3, 1, 0, 15]
    """
    unread = history["unread"] - 1
    written, is_first = unread < 0, unread == -1
    is_time = token >= first_timestamp
    token = ops.cast(token, "int32")
    return {
        "unread": unread,
        "last": ops.logical_and(written, is_time),
        "before": ops.logical_or(
            ops.logical_or(is_first, unread >= 0), history["last"]
        ),
        "latest": ops.where(
            ops.logical_and(written, is_time), token, history["latest"]
        ),
    }


@dataclasses.dataclass(frozen=True)
class TimestampRules:
    """The rules of times.

    Attributes:
        end: e.
        no_timestamps: m.
        first: a.
        last: The id of the end of the window.
        max_initial_index: i; None for no limit.
    """

    end: int
    no_timestamps: int
    first: int
    last: int
    max_initial_index: int | None = None

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """Applies all rules in their order.

        Args:
            logits: `(B, V)`.
            history: Of `extend_history`.
        """
        v = np.arange(logits.shape[-1])
        outside = np.logical_or(v == self.no_timestamps, v > self.last)
        logits = forbid(logits, kernels.constant(outside, like=logits))
        z = self.order(self.pairs(logits, history), history)
        return self.probability(self.beginning(z, history))

    def pairs(self, logits: Tensor, history: History) -> Tensor:
        """Makes times come in pairs, as one segment ends where the next begins."""
        v = np.arange(logits.shape[-1])
        last, before = history["last"][:, None], history["before"][:, None]
        times = kernels.constant(v >= self.first, like=logits)
        text = kernels.constant(v < self.end, like=logits)
        return forbid(logits, ops.logical_and(last, ops.where(before, times, text)))

    def order(self, logits: Tensor, history: History) -> Tensor:
        """Forbids times that decrease, and a segment that ends where it begins."""
        v = ops.arange(logits.shape[-1], dtype="int32")
        ends = ops.logical_and(history["last"], ops.logical_not(history["before"]))
        least = history["latest"] + ops.cast(ops.logical_not(ends), "int32")
        earlier = ops.logical_and(v >= self.first, v[None] < least[:, None])
        return forbid(logits, earlier)

    def beginning(self, logits: Tensor, history: History) -> Tensor:
        """Begins a transcript with a time, and not too late."""
        v = np.arange(logits.shape[-1])
        forbidden = v < self.first
        if self.max_initial_index is not None:
            forbidden |= v > self.first + self.max_initial_index
        is_first = history["unread"][:, None] == 0
        forbidden = kernels.constant(forbidden, like=logits)
        return forbid(logits, ops.logical_and(is_first, forbidden))

    def probability(self, logits: Tensor) -> Tensor:
        r"""Forbids text where the times together are more probable than any text.

        $$\log \sum_{v \ge a} e^{z_v} > \max_{v < a} z_v$$
        """
        z, a = ops.cast(logits, "float32"), self.first
        times = ops.logsumexp(z[:, a:], axis=-1, keepdims=True)
        best = ops.max(z[:, :a], axis=-1, keepdims=True)
        text = kernels.constant(np.arange(z.shape[-1]) < a, like=z)
        return forbid(logits, ops.logical_and(times > best, text))


def no_speech_probability(logits: Tensor, token: int) -> Tensor:
    """Returns the probability of no speech, `(B,)`.

    Args:
        logits: `(B, V)`, of the token after the start of the transcript.
        token: The id of no speech.
    """
    return keras.activations.softmax(ops.cast(logits, "float32"))[:, token]


def language_probabilities(logits: Any, ids: Sequence[int]) -> np.ndarray:
    r"""Computes the probability of each language, `(B, languages)`.

    $$p_l = \frac{e^{z_l}}{\sum_{k \in \text{languages}} e^{z_k}}$$

    Args:
        logits: `(B, V)`, of the token after the start of the transcript.
        ids: The ids of the languages.

    Examples:
        >>> language_probabilities(np.log([[1.0, 8.0, 3.0, 1.0]]), [2, 3])
        array([[0.75, 0.25]])
    """
    z = np.asarray(ops.convert_to_numpy(logits), "float64")[:, list(ids)]
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)

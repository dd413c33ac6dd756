r"""Forced alignment: the frames of each token of a given text.

The states of a text $l$ are $l' = (\varnothing, l_1, \varnothing, \dots, l_U,
\varnothing)$, with the blank $\varnothing$. The best path through them is found by the
algorithm of Viterbi, the recurrence of the CTC loss with a maximum in place of the sum:

$$
\delta_t(s) = \log y_t(l'_s) + \max\big(\delta_{t-1}(s),\ \delta_{t-1}(s-1),\
\delta_{t-1}(s-2) \text{ if } l'_s \neq l'_{s-2}\big)
$$

From: Viterbi, "Error bounds for convolutional codes", 1967; Graves et al.,
"Connectionist Temporal Classification", ICML 2006.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np

from kerasseq.core.ctc_labels import check_rows, label_rows
from kerasseq.core.types import Tensor
from kerasseq.decoding.ctc import Scores, as_scores, padded


class CTCAlignment(NamedTuple):
    """The best paths of given texts.

    Attributes:
        frames: int32 `(batch, length, 2)`: the first frame of each token, and the frame
            after its last; -1 after the end of a text.
        log_probabilities: float64 `(batch,)`, of the best paths.
    """

    frames: np.ndarray
    log_probabilities: np.ndarray


def ctc_align(
    logits: Tensor,
    tokens: Sequence[Sequence[int]] | Tensor,
    lengths: Sequence[int] | None = None,
    blank: int = -1,
) -> CTCAlignment:
    """Finds the most probable path of each text, and so the frames of each token.

    Args:
        logits: `(batch, frames, symbols)`.
        tokens: A row of ids for each text, or an array `(batch, length)`, negative
            after the end.
        lengths: Number of real frames of each row, `(batch,)`. All are real if None.
        blank: The id of the blank, from the end if negative.

    Returns:
        A `CTCAlignment`. Of equal paths it has the one that advances first.

    Raises:
        TypeError: If an argument is not an array of numbers.
        ValueError: If shapes do not fit, logits are NaN, or a text has an unknown id or
            the blank, needs more frames, or has probability 0. The message names the
            row.

    Examples:
        >>> path = [0, 0, 3, 0, 1, 1]  # 3 is the blank
        >>> ctc_align(5 * np.eye(4)[None, path], [[0, 0, 1]]).frames.tolist()
        [[[0, 2], [3, 4], [4, 6]]]
    """
    scores = as_scores(logits, lengths, blank)
    B, _, V = scores.log_y.shape
    if keras.ops.is_tensor(tokens):
        tokens = keras.ops.convert_to_numpy(tokens)
    rows = label_rows("tokens", tokens)
    if len(rows) != B:
        raise ValueError(
            f"tokens must have one row for each of the {B} rows of logits, received "
            f"{len(rows)}"
        )
    check_rows("tokens", rows, scores.lengths, V, scores.blank)
    frames, log_p = align(scores, rows)
    impossible = np.flatnonzero(log_p == -np.inf)
    if len(impossible):
        raise ValueError(
            f"tokens[{impossible[0]}] has probability 0: its path needs logits of "
            "-infinity. Use large negative numbers instead"
        )
    return CTCAlignment(frames, log_p)


def align(scores: Scores, rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the frames of each token `(B, L, 2)`, and log-probabilities `(B,)`.

    Args:
        scores: The checked logits.
        rows: The ids of each text, checked.
    """
    counts = np.array([len(ids) for ids in rows])
    labels = padded(rows)
    states, log_p = _best_paths(scores, labels, counts)  # (B, T)
    T = states.shape[1]
    spans = []
    for state, count, length in zip(states, counts, scores.lengths, strict=True):
        here = state[:length, None] == 2 * np.arange(count) + 1  # (frames, tokens)
        first = here.argmax(axis=0) if T and count else np.zeros(count, int)
        spans.append(np.stack([first, first + here.sum(axis=0)], axis=1))
    return padded(spans, (2,)), log_p


def _best_paths(scores, labels, counts):
    """Returns the states of the best paths, from 0, and their log-probabilities."""
    (B, T, _), S = scores.log_y.shape, 2 * labels.shape[1] + 1
    symbols = np.full((B, S), scores.blank)
    symbols[:, 1::2] = labels
    skipped = np.zeros((B, S), bool)
    skipped[:, 3::2] = labels[:, 1:] != labels[:, :-1]
    is_real = np.arange(S) <= 2 * counts[:, None]
    log_y = np.take_along_axis(scores.log_y, symbols[:, None], axis=2)
    log_y = np.where(is_real[:, None], log_y, -np.inf)
    # Two states in which no path is, and before the first frame one where all begin.
    delta = np.full((B, S + 2), -np.inf)
    delta[:, 1] = 0.0
    skipped[:, 1:2] = True
    came = np.zeros((T, B, S), "int8")
    rows = np.arange(B)
    for t in range(T):
        n = scores.lengths > t
        steps = np.stack([delta[:, 2:], delta[:, 1:-1], delta[:, :-2]])
        steps[2][~skipped] = -np.inf
        came[t] = steps.argmax(axis=0)
        new = steps.max(axis=0) + log_y[:, t]
        delta[n, 2:] = new[n]
        delta[n, 1] = -np.inf
    last = np.stack([2 * counts, np.maximum(2 * counts - 1, 0)])
    log_p = delta[rows, last + 2]
    state = last[log_p.argmax(axis=0), rows]
    log_p = np.where(scores.lengths > 0, log_p.max(axis=0), 0.0)
    states = np.zeros((B, T), int)
    for t in reversed(range(T)):
        states[:, t] = state
        state = np.where(scores.lengths > t, state - came[t, rows, state], state)
    return states, log_p

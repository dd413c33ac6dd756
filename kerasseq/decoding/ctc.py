"""Texts from the logits of connectionist temporal classification: the best path.

At each frame logits score the symbols and a blank. A path, one symbol a frame, reads as
a text once equal neighbors are merged and blanks left out. `ctc_greedy` reads the best
path; `ctc_beam` in `ctc_beam.py` sums over the paths of a text; `ctc_align` in
`ctc_align.py` finds the best path of a given text.

From: Graves, Fernández, Gomez and Schmidhuber, "Connectionist Temporal Classification",
ICML 2006.
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np

from kerasseq.core import checks
from kerasseq.core.ctc_labels import checked_blank, whole_numbers
from kerasseq.core.types import Tensor


class CTCResult(NamedTuple):
    """The texts read from a batch of logits.

    Attributes:
        ids: int32 `(batch, length)`, -1 after the end of a text.
        lengths: int32 `(batch,)`, the number of ids of each text.
        log_probabilities: float64 `(batch,)`, of the texts, given the logits alone.
        frames: int32 `(batch, length, 2)`: the first frame of each id on the best path
            of the text, and the frame after its last; -1 after the end.
    """

    ids: np.ndarray
    lengths: np.ndarray
    log_probabilities: np.ndarray
    frames: np.ndarray


class Scores(NamedTuple):
    """Checked logits.

    Attributes:
        log_y: Log-probabilities of the symbols, float64 `(B, T, V)`; 0 at frames that
            are not real.
        lengths: Number of real frames, `(B,)`.
        blank: The id of the blank, from 0.
    """

    log_y: np.ndarray
    lengths: np.ndarray
    blank: int


def ctc_greedy(
    logits: Tensor, lengths: Sequence[int] | None = None, blank: int = -1
) -> CTCResult:
    """Reads the best path: the most probable symbol of each frame.

    It is not always a path of the most probable text, which `ctc_beam` looks for.

    Args:
        logits: `(batch, frames, symbols)`.
        lengths: Number of real frames of each row, `(batch,)`. All are real if None.
        blank: The id of the blank, from the end if negative.

    Returns:
        A `CTCResult`, whose log-probabilities are those of the best paths.

    Raises:
        TypeError: If an argument is not an array of numbers.
        ValueError: If shapes do not fit, or a real frame has NaN or positive infinity.
            The message names the row.

    Examples:
        >>> path = [0, 0, 3, 0, 1, 1]  # 3 is the blank
        >>> result = ctc_greedy(5 * np.eye(4)[None, path])
        >>> result.ids.tolist(), result.frames.tolist()
        ([[0, 0, 1]], [[[0, 2], [3, 4], [4, 6]]])
    """
    log_y, lengths, blank = as_scores(logits, lengths, blank)
    B, T, _ = log_y.shape
    best = log_y.argmax(axis=2)
    real = np.arange(T) < lengths[:, None]
    begins = np.ones((B, T + 1), bool)  # where a run of one symbol begins, or the end
    begins[:, 1:T] = best[:, 1:] != best[:, :-1]
    begins[:, :T] |= ~real
    row, first = np.nonzero(begins[:, :T] & real & (best != blank))
    ends = np.where(begins, np.arange(T + 1), T)
    ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    spans = np.stack([first, ends[row, first + 1]], axis=1)
    counts = np.bincount(row, minlength=B)
    # At frames that are not real all log-probabilities are 0.
    log_p = log_y.max(axis=2).sum(axis=1)
    cuts = np.cumsum(counts)[:-1]
    return CTCResult(
        padded(np.split(best[row, first], cuts)),
        counts.astype("int32"),
        log_p,
        padded(np.split(spans, cuts), (2,)),
    )


def as_scores(logits: Tensor, lengths: Sequence[int] | None, blank: int) -> Scores:
    """Returns log-probabilities on the host, after a check of the arguments.

    Args:
        logits: `(batch, frames, symbols)`.
        lengths: `(batch,)`, or None.
        blank: The id of the blank, from the end if negative.

    Raises:
        TypeError: If they are not numbers.
        ValueError: If the shapes do not fit, or a real frame has no distribution.
    """
    logits = _numbers(logits)
    B, T, V = logits.shape
    blank = checked_blank(blank, V)
    lengths = _checked_lengths(lengths, B, T)
    z = np.where((np.arange(T) < lengths[:, None])[..., None], logits, 0.0)
    wrong = np.isnan(z) | (z == np.inf)
    wrong |= (z == -np.inf).all(axis=2, keepdims=True)
    if wrong.any():
        row, t, k = np.argwhere(wrong)[0]
        raise ValueError(
            "logits must be numbers, not NaN or infinity, received "
            f"{z[row, t, k]} in row {row} at frame {t}. If the frame is padding, pass "
            "`lengths`"
        )
    z -= z.max(axis=2, keepdims=True)
    log_y = z - np.log(np.exp(z).sum(axis=2, keepdims=True))
    return Scores(
        np.where((np.arange(T) < lengths[:, None])[..., None], log_y, 0.0),
        lengths,
        blank,
    )


def _numbers(logits: Tensor) -> np.ndarray:
    """Returns logits as an array of float64 with three axes."""
    try:
        array = keras.ops.convert_to_numpy(logits)
    except (TypeError, ValueError):
        array = np.empty(0, object)
    if array.dtype.kind not in "fiu" and str(array.dtype) != "bfloat16":
        raise TypeError(
            "logits must be an array of numbers (batch, frames, symbols), received "
            f"{checks.short(logits)}"
        )
    if array.ndim != 3 or 0 in array.shape:
        hint = ". For one row write logits[None]" if array.ndim == 2 else ""
        raise ValueError(
            "logits must have the shape (batch, frames, symbols), each at least 1, "
            f"received shape {array.shape}{hint}"
        )
    return array.astype("float64")


def _checked_lengths(
    lengths: Sequence[int] | None, batch: int, frames: int
) -> np.ndarray:
    if lengths is None:
        return np.full(batch, frames)
    if keras.ops.is_tensor(lengths):
        lengths = keras.ops.convert_to_numpy(lengths)
    array = whole_numbers("lengths", lengths)
    if array.shape != (batch,):
        raise ValueError(
            f"lengths must have one number for each of the {batch} rows of logits, "
            f"received {checks.short(lengths)}"
        )
    wrong = np.flatnonzero((array < 0) | (array > frames))
    if len(wrong):
        raise ValueError(
            f"lengths must be from 0 to {frames}, the number of frames of logits, "
            f"received {array[wrong[0]]} in row {wrong[0]}"
        )
    return array


def padded(rows: Sequence[np.ndarray], shape: tuple[int, ...] = ()) -> np.ndarray:
    """Returns rows of unequal length as one int32 array, -1 after the end.

    Args:
        rows: Arrays `(length, *shape)`.
        shape: The shape of an entry.

    Examples:
        >>> padded([np.array([3, 1]), np.array([2])]).tolist()
        [[3, 1], [2, -1]]
    """
    longest = max(map(len, rows))
    array = np.full((len(rows), longest, *shape), -1, "int32")
    for row, values in zip(array, rows, strict=True):
        row[: len(values)] = values
    return array

r"""The loss of connectionist temporal classification, and the check of its labels.

The sum over all paths and its gradient are in `ctc_paths.py`.

From: Graves, Fernández, Gomez and Schmidhuber, "Connectionist Temporal Classification",
ICML 2006.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.masks import attached_mask
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Tensor
from kerasseq.training.ctc_paths import ctc_loss


@register
class CTC(keras.losses.Loss):
    r"""Computes $-\log p(l \mid x)$ of labels whose times are not known.

    A path has one symbol, or the blank, at each frame. It reads as the label once equal
    neighbors are merged and blanks left out. The loss sums over all paths that do; the
    equation is in `ctc_paths.py`.

    Only real frames count: those that the mask attached to the predictions has. A label
    that does not fit in its frames has an infinite loss, and a gradient of zero.
    `check_ctc_labels` finds it before training.

    Args:
        blank: The id of the blank, from the end if negative. By default it is the last
            id, after those of a tokenizer.
        **kwargs: `name`, `reduction` and `dtype`, as for `keras.losses.Loss`. The loss
            is computed in float32 or float64.

    Call arguments:
        y_true: The labels, integers `(batch, length)`; -1 after the end of a label.
        y_pred: The logits, `(batch, frames, symbols)`.
        sample_weight: Weights of the rows, `(batch,)`, or None.

    Raises:
        TypeError: If `blank` is not a whole number.
        ValueError: If the logits have another rank, or none of the blank.

    Examples:
        >>> loss = CTC()  # the label A in 2 frames: AA, A_ or _A, of 9 paths
        >>> value = loss(np.array([[0, -1]]), np.zeros((1, 2, 3)))
        >>> round(float(value), 4), round(float(np.log(9 / 3)), 4)
        (1.0986, 1.0986)

    References:
        Graves et al. 2006.
    """

    def __init__(self, blank: int = -1, **kwargs: Any) -> None:
        dtype = kwargs.pop("dtype", None) or kernels.state_dtype(keras.config.floatx())
        super().__init__(dtype=dtype, **kwargs)
        self.blank: int = checks.whole_number("blank", blank, -(2**31))

    def __call__(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        # Keras would multiply the losses of the rows by the mask of the frames.
        check_logits(y_pred, self.blank)
        frames = {"logits": y_pred, "mask": attached_mask(y_pred)}
        return super().__call__(y_true, frames, sample_weight)

    def call(self, y_true: Tensor, y_pred: Tensor | dict[str, Tensor]) -> Tensor:
        """Computes the loss of each row, `(batch,)`.

        Args:
            y_true: The labels, `(batch, length)`.
            y_pred: The logits, `(batch, frames, symbols)`; or these and a mask in a
                dictionary with the keys "logits" and "mask".
        """
        if not isinstance(y_pred, dict):
            y_pred = {"logits": y_pred, "mask": attached_mask(y_pred)}
        return ctc_loss(y_pred["logits"], y_true, y_pred["mask"], self.blank)

    def get_config(self) -> Config:
        return {**super().get_config(), "blank": self.blank}


def check_logits(logits: Tensor, blank: int) -> None:
    """Raises unless logits have three axes, and one of them is that of the blank."""
    shape = getattr(logits, "shape", None)
    if shape is None or len(shape) != 3:
        raise ValueError(
            "y_pred must be logits of shape (batch, frames, symbols), received "
            f"{checks.short(logits) if shape is None else f'shape {tuple(shape)}'}"
        )
    checked_blank(blank, shape[-1])


def checked_blank(blank: int, num_symbols: int) -> int:
    """Returns the id of the blank, from 0.

    Examples:
        >>> checked_blank(-1, 5), checked_blank(0, 5)
        (4, 0)
    """
    blank = checks.whole_number("blank", blank, -(2**31))
    if not -num_symbols <= blank < num_symbols:
        raise ValueError(
            f"blank must be one of the {num_symbols} symbols, an id from 0 to "
            f"{num_symbols - 1} or -1 for the last, received {blank}"
        )
    return blank % num_symbols


def check_ctc_labels(
    labels: Sequence[Sequence[int]] | np.ndarray,
    frames: Sequence[int] | np.ndarray,
    num_symbols: int,
    *,
    blank: int = -1,
) -> None:
    """Raises unless every label can be read from as many frames as its row has.

    A label needs a frame for each id, and one more for a blank between equal neighbors.
    The loss cannot raise: it is computed in a compiled graph.

    Args:
        labels: A row of ids for each label, or an array `(rows, length)`, negative
            after the end.
        frames: The number of real frames of each row, `(rows,)`.
        num_symbols: Number of symbols, with the blank.
        blank: The id of the blank, from the end if negative.

    Raises:
        TypeError: If ids or frames are not whole numbers.
        ValueError: If a label does not fit, has the blank, or an id that has no logits,
            or if the numbers of rows differ. The message names the row.

    Examples:
        >>> check_ctc_labels([[0, 1], [2, 2]], [2, 3], num_symbols=4)
        >>> check_ctc_labels([[0, 1], [2, 2]], [2, 2], num_symbols=4)
        Traceback (most recent call last):
        ...
        ValueError: row 1 of `labels` needs at least 3 frames, for 2 ids and a blank \
between each of 1 pairs of equal neighbors, received 2 frames. Leave the row out, or \
use less subsampling
    """
    num_symbols = checks.whole_number("num_symbols", num_symbols)
    blank = checked_blank(blank, num_symbols)
    rows = [label_ids(i, row) for i, row in enumerate(checks.several("labels", labels))]
    lengths = whole_numbers("frames", frames)
    if lengths.shape != (len(rows),):
        raise ValueError(
            f"frames must have one number for each of the {len(rows)} labels, received "
            f"shape {lengths.shape}"
        )
    for i, (ids, length) in enumerate(zip(rows, lengths.tolist(), strict=True)):
        wrong = ids[(ids < 0) | (ids >= num_symbols) | (ids == blank)]
        if len(wrong):
            what = "the blank" if wrong[0] == blank else "outside the symbols"
            raise ValueError(
                f"row {i} of `labels` has the id {wrong[0]}, which is {what}: ids must "
                f"lie from 0 to {num_symbols - 1}, without the blank, {blank}. Pad by "
                "-1 after the end of a label only"
            )
        pairs = int((ids[1:] == ids[:-1]).sum())
        if len(ids) + pairs > length:
            raise ValueError(
                f"row {i} of `labels` needs at least {len(ids) + pairs} frames, for "
                f"{len(ids)} ids and a blank between each of {pairs} pairs of equal "
                f"neighbors, received {length} frames. Leave the row out, or use less "
                "subsampling"
            )


def label_ids(row: int, label: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns the ids of a label, without the padding at its end.

    Examples:
        >>> label_ids(0, [3, 1, -1, -1])
        array([3, 1])
    """
    ids = whole_numbers(f"labels[{row}]", label)
    real = np.flatnonzero(ids >= 0)
    return ids[: real[-1] + 1] if len(real) else ids[:0]


def whole_numbers(name: str, values: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns a row of whole numbers as an array.

    Examples:
        >>> whole_numbers("frames", [2.5])
        Traceback (most recent call last):
        ...
        TypeError: frames must be a row of whole numbers, received [2.5]
    """
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # rows of unequal length, or a tensor of a GPU
        array = np.empty((0, 0))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"{name} must be a row of whole numbers, received {checks.short(values)}"
        )
    return array.astype("int64")

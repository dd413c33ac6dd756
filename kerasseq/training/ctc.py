r"""The loss of connectionist temporal classification.

The sum over all paths and its gradient are in `ctc_paths.py`; `core/ctc_labels.py` has
the check of labels.

From: Graves, Fernández, Gomez and Schmidhuber, "Connectionist Temporal Classification",
ICML 2006.
"""

from typing import Any

import keras
from keras import ops

from kerasseq import kernels
from kerasseq.core import checks
from kerasseq.core.ctc_labels import checked_blank
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.masks import attached_mask
from kerasseq.core.serialization import register
from kerasseq.core.types import Tensor
from kerasseq.training.ctc_paths import ctc_loss


@register
class CTC(ListedConfig, keras.losses.Loss):
    r"""Computes $-\log p(l \mid x)$ of labels whose times are not known.

    A path has one symbol, or the blank, at each frame. It reads as the label once equal
    neighbors are merged and blanks left out. The loss sums over all paths that do; the
    equation is in `ctc_paths.py`.

    Only real frames count: those that the mask attached to the predictions has. A label
    that does not fit in its frames has an infinite loss, 0 in a row of weight 0, and a
    gradient of zero. `check_ctc_labels` finds it before training.

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

    per_row: bool = True  # and not for each frame: see `loss_means.averaged_over`

    def __init__(self, blank: int = -1, **kwargs: Any) -> None:
        dtype = kwargs.pop("dtype", None) or kernels.state_dtype(keras.config.floatx())
        super().__init__(dtype=dtype, **kwargs)
        self.blank: int = checks.whole_number("blank", blank, -(2**31))

    def __call__(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        # Keras would multiply the losses of the rows by the mask of the frames.
        check_logits(y_pred, self.blank)
        # So that 0 times an infinite loss is 0.
        counts = ops.not_equal(1 if sample_weight is None else sample_weight, 0)
        frames = {"logits": y_pred, "mask": attached_mask(y_pred), "counts": counts}
        return super().__call__(y_true, frames, sample_weight)

    def call(self, y_true: Tensor, y_pred: Tensor | dict[str, Tensor]) -> Tensor:
        """Computes the loss of each row, `(batch,)`.

        Args:
            y_true: The labels, `(batch, length)`.
            y_pred: The logits, `(batch, frames, symbols)`; or a dictionary of "logits",
                "mask", and "counts", which is False for rows of weight 0.
        """
        if not isinstance(y_pred, dict):
            y_pred = {"logits": y_pred, "mask": attached_mask(y_pred), "counts": True}
        loss = ctc_loss(y_pred["logits"], y_true, y_pred["mask"], self.blank)
        counts = ops.reshape(ops.cast(y_pred["counts"], "bool"), (-1,))
        return ops.where(ops.broadcast_to(counts, ops.shape(loss)), loss, 0.0)


def check_logits(logits: Tensor, blank: int) -> None:
    """Raises unless logits have three axes, and one of them is that of the blank."""
    shape = getattr(logits, "shape", None)
    if shape is None or len(shape) != 3:
        raise ValueError(
            "y_pred must be logits of shape (batch, frames, symbols), received "
            f"{checks.short(logits) if shape is None else f'shape {tuple(shape)}'}"
        )
    checked_blank(blank, shape[-1])

"""The loss of forecasts with intervals."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Tensor


def checked_quantiles(quantiles: Sequence[float] | None) -> tuple[float, ...] | None:
    """Returns quantiles as a tuple of floats; None for None.

    Raises:
        TypeError: If they are not a row of numbers.
        ValueError: If they do not rise within 0 and 1, or 0.5 is not one of them.

    Examples:
        >>> checked_quantiles([0.1, 0.9])
        Traceback (most recent call last):
        ...
        ValueError: quantiles must contain 0.5, the forecast itself, received (0.1, \
0.9). Try (0.1, 0.5, 0.9)
    """
    if quantiles is None:
        return None
    values = tuple(
        checks.fraction("quantiles", q)
        for q in checks.several("quantiles", quantiles, "numbers")
    )
    if 0.5 not in values:
        raise ValueError(
            "quantiles must contain 0.5, the forecast itself, received "
            f"{values}. Try (0.1, 0.5, 0.9)"
        )
    if list(values) != sorted(set(values)) or values[0] == 0 or values[-1] == 1:
        raise ValueError(
            f"quantiles must rise from above 0 to below 1, received {values}. "
            "Try (0.1, 0.5, 0.9)"
        )
    return values


@register
class QuantileLoss(keras.losses.Loss):
    r"""Loss whose minimum are quantiles of the target, the pinball loss.

    $$L = \frac{1}{Q} \sum_q \max(q\,(y - \hat y_q),\ (q - 1)(y - \hat y_q))$$

    Args:
        quantiles: The quantiles $q$, between 0 and 1.
        **kwargs: For `keras.losses.Loss`.

    Examples:
        >>> loss = QuantileLoss([0.1, 0.5, 0.9])
        >>> y, forecast = np.array([[2.0]]), np.array([[[1.0, 2.0, 4.0]]])
        >>> round(float(loss(y, forecast)), 3)
        0.1

    References:
        Koenker and Bassett, "Regression Quantiles", 1978.
    """

    def __init__(self, quantiles: Sequence[float], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.quantiles: tuple[float, ...] = checked_quantiles(quantiles) or ()

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Computes the loss `(batch, horizon)` of y and its quantiles.

        Args:
            y_true: Targets, `(batch, horizon)`.
            y_pred: Forecasts, `(batch, horizon, quantiles)`.
        """
        if len(y_pred.shape) == len(y_true.shape):  # Keras drops an axis of size 1
            y_pred = y_pred[..., None]
        q = ops.convert_to_tensor(self.quantiles, y_pred.dtype)
        error = ops.cast(y_true, y_pred.dtype)[..., None] - y_pred
        return ops.mean(ops.maximum(q * error, (q - 1) * error), axis=-1)

    def get_config(self) -> Config:
        return {**super().get_config(), "quantiles": list(self.quantiles)}

r"""How far forecasts are from the best possible ones, where the process is known.

On the same windows, the excess of forecasts $\hat y$ over the best ones $y^*$, the
expectations given the values so far, is

$$
\bar d = \frac{1}{N} \sum_n d_n \qquad
d_n = \frac{1}{h} \sum_i (\hat y_{ni} - y_{ni})^2 - (y^*_{ni} - y_{ni})^2
$$

Its expectation is the mean of $(\hat y - y^*)^2$, never below 0. So forecasts with
$\bar d < -3 s$ know what they must predict. Neighboring windows forecast the same
values: the standard error s is that of the means of blocks of h windows.
"""

from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
from numpy.typing import ArrayLike

from kerasseq.core import checks
from kerasseq.training.known_optimum import LEAST, add_to_logs


class KnownProcess(Protocol):
    """A process whose best forecasts are known, as `AutoregressiveProcess`."""

    def forecast(self, x: ArrayLike, horizon: int) -> np.ndarray:
        """Computes the best forecasts of windows, `(N, horizon)`."""


class ForecastExcess(NamedTuple):
    """The mean squared error of forecasts beside the least one, on the same windows.

    Attributes:
        mse: That of the model.
        optimum: That of the best forecasts.
        excess: The difference.
        error: Its standard error.
    """

    mse: float
    optimum: float
    excess: float
    error: float

    @property
    def leaks(self) -> bool:
        """Whether the model is better than the best by 3 standard errors."""
        return self.excess < LEAST * self.error


def forecast_excess(
    forecasts: ArrayLike, process: KnownProcess, x: ArrayLike, y: ArrayLike
) -> ForecastExcess:
    """Compares forecasts with the best ones of the process that made the series.

    Args:
        forecasts: Forecasts `(N, horizon)` in the unit of the series, such as
            `Forecaster.predict(x)`.
        process: What generated the series, such as `datasets.series("ar").process`.
        x: Windows `(N, T, 1)` of values that training has not, in their order.
        y: The values that came, `(N, horizon)`, as from `datasets.windows`.

    Returns:
        The errors and their difference, as a `ForecastExcess`.

    Raises:
        TypeError: If the arrays are not numbers.
        ValueError: If their shapes do not match, or there are less than two blocks of
            as many windows as the horizon.

    Examples:
        >>> from kerasseq import datasets
        >>> data = datasets.series("ar", seed=0)
        >>> x, y = datasets.windows(data.values, length=7)
        >>> result = forecast_excess(0 * y, data.process, x, y)  # the mean
        >>> result.excess > 0, result.leaks
        (True, False)
    """
    try:
        given, actual = (np.asarray(each, "float64") for each in (forecasts, y))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"forecasts and y must be numbers, received {checks.short(forecasts)} and "
            f"{checks.short(y)}"
        ) from error
    if actual.ndim != 2 or given.shape != actual.shape or len(x) != len(actual):
        raise ValueError(
            "forecasts and y must have the shape (N, horizon), with a row for each of "
            f"the N windows x, received shapes {given.shape}, {actual.shape} and "
            f"{np.shape(x)}. Of a model with quantiles pass the median"
        )
    horizon = actual.shape[1]
    blocks = len(actual) // max(1, horizon)
    if blocks < 2:
        raise ValueError(
            f"x must have at least {2 * horizon} windows, two blocks of the horizon, "
            f"received {len(actual)}"
        )
    best = process.forecast(x, horizon)
    own, least = (np.mean((f - actual) ** 2, axis=1) for f in (given, best))
    d = own - least
    means = [np.mean(block) for block in np.array_split(d, blocks)]
    error = float(np.std(means, ddof=1) / np.sqrt(blocks))
    return ForecastExcess(*(float(np.mean(v)) for v in (own, least, d)), error)


class ForecastOptimum(keras.callbacks.Callback):
    """Compares a model with the best forecasts while it is trained.

    After each epoch the logs, and so the history, have `held_out_mse`, `optimum`,
    `excess` and `excess_error`, see `forecast_excess`. A model that is better than the
    best forecasts by more than 3 standard errors is warned about.

    Args:
        process: As for `forecast_excess`.
        x: As for `forecast_excess`.
        y: As for `forecast_excess`.
        inputs: What the model reads for `x`, if it is something else.
        batch_size: Windows that are processed at once.

    Examples:
        >>> from kerasseq import datasets, models
        >>> data = datasets.series("ar", seed=0)
        >>> x, y = datasets.windows(data.values, length=7)
        >>> model = models.Forecaster("gru", units=3)
        >>> model.compile("adam")
        >>> optimum = ForecastOptimum(data.process, x[800:], y[800:])
        >>> history = model.fit(
        ...     x[:800], y[:800], epochs=1, callbacks=[optimum], verbose=0
        ... )
        >>> [name for name in history.history if name.startswith("excess")]
        ['excess', 'excess_error']
    """

    def __init__(
        self,
        process: KnownProcess,
        x: ArrayLike,
        y: ArrayLike,
        *,
        inputs: Any = None,
        batch_size: int = 256,
    ) -> None:
        super().__init__()
        self.process: KnownProcess = process
        self.x: np.ndarray = np.asarray(x)
        self.y: np.ndarray = np.asarray(y)
        self.inputs: Any = inputs
        self.batch_size: int = checks.whole_number("batch_size", batch_size)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Adds the excess to the logs, and warns of a leak."""
        inputs = self.x if self.inputs is None else self.inputs
        forecasts = self.model.predict(inputs, batch_size=self.batch_size, verbose=0)
        measured = forecast_excess(forecasts, self.process, self.x, self.y)
        leak = (
            "the forecasts are better than the best possible ones by {:.4g} in mean "
            "squared error",
            "their inputs tell what they must predict",
        )
        add_to_logs(logs, "held_out_mse", measured, leak)

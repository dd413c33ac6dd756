"""Layers of a forecaster: scales, the baseline, the known future."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core.dense import Dense
from kerasseq.core.listed_config import ListedConfig
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.types import Shape, Tensor

MAX_LAG = 64  # steps before the forecast that a linear baseline reads
PART = 8192  # windows that a baseline is computed for at a time


@register
class Standardize(ListedConfig, keras.layers.Layer):
    r"""Standardizes features, $(x - \mu)/\sigma$, with constants set from data.

    Args:
        width: Number of features.
        invert: Whether to invert it, $\mu + \sigma x$.
        **kwargs: For `keras.layers.Layer`.

    Examples:
        >>> layer = Standardize(1)
        >>> layer.set(np.array([[3.0], [7.0]]))
        >>> keras.ops.convert_to_numpy(layer(np.array([[7.0]]))).tolist()
        [[1.0]]
    """

    def __init__(self, width: int, *, invert: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width = width
        self.invert = invert
        self.build((None, width))

    def build(self, input_shape: Shape) -> None:
        if self.built:
            return
        options = {"shape": (self.width,), "trainable": False}
        self.mean: keras.Variable = self.add_weight(
            name="mean", initializer="zeros", **options
        )
        self.scale: keras.Variable = self.add_weight(
            name="scale", initializer="ones", **options
        )
        self.built = True

    @property
    def fresh(self) -> bool:
        """Whether mean and standard deviation have not been set yet."""
        mean, scale = map(ops.convert_to_numpy, (self.mean, self.scale))
        return bool(np.all(mean == 0) and np.all(scale == 1))

    def set(self, values: Tensor) -> None:
        """Sets mean and standard deviation from `values` of shape `(..., width)`."""
        values = np.asarray(values, "float64").reshape(-1, self.width)
        self.set_constants(values.mean(axis=0), values.std(axis=0))

    def set_constants(self, mean: np.ndarray, spread: np.ndarray) -> None:
        """Sets mean and standard deviation `(width,)`; a deviation of 0 becomes 1."""
        self.mean.assign(mean)
        self.scale.assign(np.where(spread > 0, spread, 1.0))

    def call(self, x: Tensor) -> Tensor:
        if self.invert:
            return self.mean + self.scale * x
        return (x - self.mean) / self.scale


@register
class SubtractLast(keras.layers.Layer):
    """Subtracts the last value from the values of a window, if it is switched on.

    A network that gets no level cannot depend on it, and forecasts values above all
    those of the training as well as others.

    Args:
        **kwargs: For `keras.layers.Layer`.

    Examples:
        >>> layer = SubtractLast()
        >>> layer.switch_on()
        >>> x = np.array([[[1.0, 5.0], [3.0, 7.0]]])
        >>> keras.ops.convert_to_numpy(layer(x)).tolist()
        [[[-2.0, 5.0], [0.0, 7.0]]]
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.build()

    def build(self, *shapes: Shape) -> None:
        if self.built:
            return
        self.active: keras.Variable = self.add_weight(
            name="active", shape=(), initializer="zeros", trainable=False
        )
        self.built = True

    def switch_on(self) -> None:
        """Subtracts the last value from now on."""
        self.active.assign(1.0)

    def call(self, x: Tensor) -> Tensor:
        """Subtracts from the first feature of `(batch, time, features)`."""
        last = x[:, -1:, :1] * ops.cast(self.active, x.dtype)
        return x - ops.pad(last, ((0, 0), (0, 0), (0, x.shape[2] - 1)))

    def load_own_variables(self, store: Any) -> None:
        """Loads the weight; files of earlier versions have none."""
        if len(store.keys()):
            super().load_own_variables(store)


@register
class Baseline(ListedConfig, keras.layers.Layer):
    r"""Adds to a forecast that of an autoregression, a linear map of the last values.

    $$\hat y_{T+i} = f_i + \sum_{j=1}^{p} w_{ji}\, y_{T+1-j} + c_i$$

    If the values were too few for one, or a season too long, it adds the value one
    season before, $y_{T+i-m\lceil i/m\rceil}$: the last one with $m = 1$, nothing with
    $m = 0$. To quantiles it adds the quantiles of the errors, too.

    Args:
        horizon: Number of steps of the forecast, $k$.
        quantiles: Number of quantiles; 0 if there are none.
        **kwargs: For `keras.layers.Layer`.

    Examples:
        >>> layer = Baseline(horizon=3)
        >>> x = np.array([[[1.0], [2.0], [3.0]]])
        >>> layer.set(2)
        >>> keras.ops.convert_to_numpy(layer(np.zeros((1, 3)), x)).tolist()
        [[2.0, 3.0, 2.0]]
        >>> layer.set_map(np.array([[0.0, 0.0, 1.0], [1.0, 2.0, 0.0]]), np.ones(3))
        >>> keras.ops.convert_to_numpy(layer(np.zeros((1, 3)), x)).tolist()
        [[4.0, 7.0, 3.0]]
    """

    def __init__(self, horizon: int, quantiles: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.horizon = horizon
        self.quantiles = quantiles
        self.build()

    def build(self, *shapes: Shape) -> None:
        if self.built:
            return
        fixed = {"initializer": "zeros", "trainable": False}
        self.season: keras.Variable = self.add_weight(
            name="season", shape=(), dtype="int32", **fixed
        )
        # The order is not known before the data are: unused rows are 0.
        self.coefficients: keras.Variable = self.add_weight(
            name="coefficients", shape=(MAX_LAG, self.horizon), **fixed
        )
        self.constants: keras.Variable = self.add_weight(
            name="constants", shape=(self.horizon,), **fixed
        )
        if self.quantiles:
            self.errors: keras.Variable = self.add_weight(
                name="errors", shape=(self.horizon, self.quantiles), **fixed
            )
        self.built = True

    def set(self, season: int) -> None:
        """Adds the value one season $m$ before; 0 for nothing."""
        self.season.assign(season)
        self.coefficients.assign(np.zeros((MAX_LAG, self.horizon)))
        self.constants.assign(np.zeros(self.horizon))

    def set_map(self, coefficients: np.ndarray, constants: np.ndarray) -> None:
        """Adds a linear map of the last values.

        Args:
            coefficients: $w$, `(p, horizon)`, those of the oldest value first.
            constants: $c$, `(horizon,)`.
        """
        self.set(0)
        above = ((MAX_LAG - len(coefficients), 0), (0, 0))
        self.coefficients.assign(np.pad(coefficients, above))
        self.constants.assign(constants)

    def set_errors(self, errors: np.ndarray) -> None:
        """Sets the quantiles of the errors of the baseline, `(horizon, quantiles)`."""
        self.errors.assign(errors)

    def call(self, forecast: Tensor, x: Tensor) -> Tensor:
        """Adds the baseline.

        Args:
            forecast: `(batch, horizon)` or `(batch, horizon, quantiles)`.
            x: Values so far, the first feature of `(batch, time, features)`.
        """
        values = self._forecasts(x[:, :, 0])  # (batch, horizon)
        if self.quantiles:
            values = values[..., None] + self.errors
        return forecast + ops.cast(values, forecast.dtype)

    def _forecasts(self, y):
        return self._one_season_before(y) + self._mapped(y)

    def _one_season_before(self, y):
        season = ops.convert_to_tensor(self.season)
        period = ops.maximum(season, 1)
        places = ops.shape(y)[1] - period + ops.arange(self.horizon) % period
        places = ops.broadcast_to(places, (ops.shape(y)[0], self.horizon))
        # Keras' `take` has an operation that ONNX lacks.
        values = kernels.take_steps(y, places)
        return ops.where(season > 0, values, ops.zeros_like(values))

    def _mapped(self, y):
        last = ops.pad(y, ((0, 0), (MAX_LAG, 0)))[:, -MAX_LAG:]
        # Not a matrix product, which some processors round to ten bits.
        return ops.sum(last[..., None] * self.coefficients, axis=1) + self.constants

    def forecasts_of(self, x: np.ndarray) -> np.ndarray:
        """Computes the forecasts of the baseline alone, without quantiles.

        Args:
            x: Windows, `(windows, time, features)`.

        Returns:
            Array `(windows, horizon)`.
        """
        parts = [x[start : start + PART, :, 0] for start in range(0, len(x), PART)]
        parts = [ops.convert_to_tensor(part, self.compute_dtype) for part in parts]
        forecasts = map(self._forecasts, parts)
        return np.concatenate(list(map(ops.convert_to_numpy, forecasts)))

    def compute_output_shape(self, forecast_shape: Shape, x_shape: Shape) -> Shape:
        return forecast_shape

    def load_own_variables(self, store: Any) -> None:
        """Loads the weights; files of earlier versions have the season alone."""
        if len(store.keys()) == 1:
            self.season.assign(np.array(store["0"]))
        else:
            super().load_own_variables(store)


@register
class SplitFuture(ListedConfig, keras.layers.Layer):
    """Splits windows into the steps so far and the known features of the future.

    Args:
        horizon: Number of steps of the future, at the end.
        ahead: Number of features that are known, the last ones.
        **kwargs: For `keras.layers.Layer`.

    Examples:
        >>> past, future = SplitFuture(horizon=2, ahead=1)(np.zeros((3, 7, 5)))
        >>> keras.ops.shape(past), keras.ops.shape(future)
        ((3, 5, 5), (3, 2, 1))
    """

    def __init__(self, horizon: int, ahead: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.horizon = horizon
        self.ahead = ahead

    def call(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Splits `(batch, time + horizon, features)`.

        Returns:
            `(batch, time, features)` and `(batch, horizon, ahead)`.
        """
        return x[:, : -self.horizon], x[:, -self.horizon :, -self.ahead :]


def add_outputs(
    state: keras.KerasTensor,
    future: keras.KerasTensor | None,
    horizon: int,
    units: int,
    quantiles: Sequence[float] | None,
) -> keras.KerasTensor:
    """Returns the outputs of the last state, and of the features known in advance.

    Args:
        state: The state after the window, `(batch, units)`.
        future: The features known in advance, `(batch, horizon, features)`, or None.
        horizon: Number of steps of the forecast.
        units: Units of the hidden layer of the known features.
        quantiles: The quantiles, or None for the mean.
    """
    count = len(quantiles or ())
    width = horizon * max(count, 1)
    outputs = Dense(width, dtype=scores_dtype(), name="output")(state)
    shape = (horizon, count) if quantiles else (horizon,)
    if quantiles:
        outputs = keras.layers.Reshape(shape, name="quantiles")(outputs)
    if future is None:
        return outputs
    repeated = keras.layers.RepeatVector(horizon, name="repeat_state")(state)
    joined = keras.layers.Concatenate(name="state_and_future")([repeated, future])
    hidden = Dense(units, "tanh", name="future_hidden")(joined)
    added = Dense(max(count, 1), dtype=scores_dtype(), name="future_output")
    added = keras.layers.Reshape(shape, name="future_effect")(added(hidden))
    return keras.layers.Add(name="with_future", dtype=scores_dtype())([outputs, added])


def start_at_zero(model: keras.Model) -> None:
    """Sets the output weights of a forecaster to 0, so that it adds nothing."""
    for layer in model.layers:
        if layer.name in ("output", "future_output"):
            for weight in layer.trainable_weights:
                weight.assign(np.zeros(weight.shape))

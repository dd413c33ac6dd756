"""Layers of a forecaster: scales, the naive forecast, the known future."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq import kernels
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Shape, Tensor


@register
class Standardize(keras.layers.Layer):
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

    def get_config(self) -> Config:
        config = {"width": self.width, "invert": self.invert}
        return {**super().get_config(), **config}


@register
class Baseline(keras.layers.Layer):
    r"""Adds the value one season before, $y_{T+i-m\lceil i/m\rceil}$, to a forecast.

    With $m = 1$ it adds the last value, with $m = 0$ nothing.

    Args:
        horizon: Number of steps of the forecast, $k$.
        **kwargs: For `keras.layers.Layer`.

    Examples:
        >>> layer = Baseline(horizon=3)
        >>> layer.set(2)
        >>> x = np.array([[[1.0], [2.0], [3.0]]])
        >>> keras.ops.convert_to_numpy(layer(np.zeros((1, 3)), x)).tolist()
        [[2.0, 3.0, 2.0]]
    """

    def __init__(self, horizon: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.horizon = horizon
        self.build()

    def build(self, *shapes: Shape) -> None:
        if self.built:
            return
        self.season: keras.Variable = self.add_weight(
            name="season", shape=(), initializer="zeros", dtype="int32", trainable=False
        )
        self.built = True

    def set(self, season: int) -> None:
        """Sets the season $m$; 0 switches the baseline off."""
        self.season.assign(season)

    def call(self, forecast: Tensor, x: Tensor) -> Tensor:
        """Adds the baseline.

        Args:
            forecast: `(batch, horizon)` or `(batch, horizon, quantiles)`.
            x: Values so far, the first feature of `(batch, time, features)`.
        """
        season = ops.convert_to_tensor(self.season)
        period = ops.maximum(season, 1)
        places = ops.shape(x)[1] - period + ops.arange(self.horizon) % period
        places = ops.broadcast_to(places, (ops.shape(x)[0], self.horizon))
        # Keras' `take` has an operation that ONNX lacks.
        values = kernels.take_steps(x[:, :, 0], places)  # (batch, horizon)
        values = ops.where(season > 0, values, ops.zeros_like(values))
        if len(forecast.shape) == 3:
            values = values[..., None]
        return forecast + ops.cast(values, forecast.dtype)

    def compute_output_shape(self, forecast_shape: Shape, x_shape: Shape) -> Shape:
        return forecast_shape

    def get_config(self) -> Config:
        return {**super().get_config(), "horizon": self.horizon}


@register
class SplitFuture(keras.layers.Layer):
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

    def get_config(self) -> Config:
        config = {"horizon": self.horizon, "ahead": self.ahead}
        return {**super().get_config(), **config}


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
    outputs = keras.layers.Dense(width, dtype="float32", name="output")(state)
    shape = (horizon, count) if quantiles else (horizon,)
    if quantiles:
        outputs = keras.layers.Reshape(shape, name="quantiles")(outputs)
    if future is None:
        return outputs
    repeated = keras.layers.RepeatVector(horizon, name="repeat_state")(state)
    joined = keras.layers.Concatenate(name="state_and_future")([repeated, future])
    hidden = keras.layers.Dense(units, "tanh", name="future_hidden")(joined)
    added = keras.layers.Dense(max(count, 1), dtype="float32", name="future_output")
    added = keras.layers.Reshape(shape, name="future_effect")(added(hidden))
    return keras.layers.Add(name="with_future", dtype="float32")([outputs, added])

"""Forecasts of a series, one or several steps ahead."""

from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import register
from kerasseq.core.types import Config, Shape, Tensor
from kerasseq.tasks.architectures import LastStep, build_layers, first_output
from kerasseq.tasks.base import TaskModel, check_sizes, sequence_input


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
        self.mean.assign(values.mean(axis=0))
        spread = values.std(axis=0)
        self.scale.assign(np.where(spread > 0, spread, 1.0))

    def call(self, x: Tensor) -> Tensor:
        if self.invert:
            return self.mean + self.scale * x
        return (x - self.mean) / self.scale

    def get_config(self) -> Config:
        config = {"width": self.width, "invert": self.invert}
        return {**super().get_config(), **config}


@register
class Forecaster(TaskModel):
    r"""Predicts the next values of a series from the values so far.

    $$\hat y_{T+1}, \dots, \hat y_{T+k} = W h_T + b$$

    The model standardizes the series with mean and standard deviation of the first data
    that it is fitted to; inputs and forecasts have the unit of the series.

    Args:
        architecture: A name, as for `SequenceClassifier`, or a layer.
        features: Number of features of a step.
        horizon: Number of steps that the model predicts at once, $k$.
        units: Units of each layer, for an architecture by name.
        num_layers: Number of layers, for an architecture by name.
        dropout: Dropout rate of the inputs of each layer.
        **kwargs: `name` and `trainable`.

    Raises:
        ValueError: If a name or number is wrong.

    Examples:
        >>> model = Forecaster("gru", horizon=2, units=3)
        >>> model.predict(np.ones((1, 7, 1)), verbose=0).shape
        (1, 2)

    References:
        Slides B: series of [day, month, year, value], forecasts fed back.
    """

    def __init__(
        self,
        architecture: str | keras.Layer,
        *,
        features: int = 1,
        horizon: int = 1,
        units: int = 64,
        num_layers: int = 1,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        dropout = checks.rate("dropout", dropout)
        rows = {"features": features, "horizon": horizon}
        check_sizes(architecture, units, num_layers, units, rows)
        inputs, x = sequence_input(None, features, None)
        standardize = Standardize(features, name="standardize")
        restore = Standardize(1, invert=True, name="restore", dtype="float32")
        x = standardize(x)
        for layer in build_layers(
            architecture,
            units=units,
            num_layers=num_layers,
            dropout=dropout,
            return_sequences=False,
        ):
            x = first_output(layer(x))
        if len(x.shape) == 3:
            x = LastStep(name="last_step")(x)
        outputs = restore(
            keras.layers.Dense(horizon, dtype="float32", name="output")(x)
        )
        arguments = {
            "architecture": architecture,
            "features": features,
            "horizon": horizon,
            "units": units,
            "num_layers": num_layers,
            "dropout": dropout,
        }
        super().__init__(inputs, outputs, arguments, **kwargs)

    def default_loss(self) -> str:
        return "mse"

    def default_metrics(self) -> list[str]:
        return ["mae"]

    def fit(
        self, x: Any = None, y: Any = None, **kwargs: Any
    ) -> keras.callbacks.History:
        """Trains the model, as `keras.Model.fit` does.

        The first arrays set mean and standard deviation of features and values.
        """
        of_x, of_y = self.get_layer("standardize"), self.get_layer("restore")
        if of_x.fresh and of_y.fresh and hasattr(x, "shape") and y is not None:
            of_x.set(ops.convert_to_numpy(x))
            of_y.set(ops.convert_to_numpy(y)[..., None])
        return super().fit(x, y, **kwargs)

    def forecast(self, history: Tensor, steps: int) -> np.ndarray:
        """Forecasts beyond the horizon, by feeding forecasts back as inputs.

        Errors are fed back as well, so they grow with the number of steps.

        Args:
            history: Values so far, `(time,)` or `(batch, time, 1)`.
            steps: Number of steps to forecast.

        Returns:
            NumPy array `(steps,)` or `(batch, steps)`.

        Raises:
            ValueError: If the model has several features, as it does not forecast them.

        Examples:
            >>> Forecaster("gru", units=3).forecast(np.ones(7), steps=5).shape
            (5,)
        """
        checks.whole_number("steps", steps)
        if self._arguments["features"] != 1:
            raise ValueError(
                "forecast feeds values back and needs features=1, received a model "
                f"with features={self._arguments['features']}. Use predict, window by "
                "window"
            )
        history = np.asarray(history, "float32")
        single = history.ndim == 1
        window = history.reshape(1, -1, 1) if single else history
        length, found = window.shape[1], []
        for _ in range(-(-steps // self._arguments["horizon"])):
            # The window keeps its length, so that the model is compiled once.
            predicted = np.asarray(self.predict_on_batch(window))
            found.append(predicted)
            window = np.concatenate([window, predicted[..., None]], axis=1)[:, -length:]
        forecasts = np.concatenate(found, axis=1)[:, :steps]
        return forecasts[0] if single else forecasts

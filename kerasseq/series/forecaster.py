"""Forecasts of a series, one or several steps ahead."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.core.serialization import register, scores_dtype
from kerasseq.core.types import Config, FilePath, Tensor
from kerasseq.series import table_training
from kerasseq.series.forecaster_arguments import (
    checked_calendar,
    checked_categories,
    number_ahead,
    number_of_features,
)
from kerasseq.series.forecaster_layers import (
    Baseline,
    SplitFuture,
    Standardize,
    SubtractLast,
    add_outputs,
)
from kerasseq.series.frames import is_frame
from kerasseq.series.quantile_loss import QuantileLoss, checked_quantiles
from kerasseq.series.selection import LEAST_EPOCHS
from kerasseq.series.sources import as_table, as_windows, is_table
from kerasseq.series.table_forecasts import TableForecasts
from kerasseq.series.table_training import OF_TABLE
from kerasseq.series.windows import Fitted
from kerasseq.tasks.architectures import build_layers, first_output
from kerasseq.tasks.base import TaskModel
from kerasseq.tasks.data_checks import as_array, number_array
from kerasseq.tasks.fit_call import FitCall, of_parts, parts_of
from kerasseq.tasks.input_rows import (
    are_batches,
    check_data,
    check_finite,
    check_not_empty,
    is_empty_list,
)
from kerasseq.tasks.sequence_layers import LastStep, check_sizes, sequence_input
from kerasseq.training.batches import KerasData, OrderedBatches

BASELINES = ("ar", "season")
# Arguments of the model that users look for in `fit`.
OF_LAYERS = ("known", "past", "calendar", "quantiles", "horizon")
UPDATES = 200  # training steps of `fit(table)` after the first


@register
class Forecaster(TableForecasts, TaskModel):
    r"""Predicts the next values of a series from the values so far.

    $$\hat y_{T+1}, \dots, \hat y_{T+k} = W h_T + b$$

    `fit(table)` reads a pandas DataFrame or Series with dates, `forecast(12)` returns
    the next 12 rows with their dates, and `backtest(table)` scores forecasts beside
    those of simple models. To a table's forecasts the model adds those of an
    autoregression, one for all series, and starts at adding nothing; `baseline` names
    it. Features $z$ that are known in advance add $v \tanh(A h_T + B z_{T+i} + c)$ to
    each step.

    With arrays of windows, `fit(x, y)` and `predict(x)`, the model standardizes inputs
    and targets with mean and standard deviation of the first data; inputs and forecasts
    have the unit of the series.

    Args:
        architecture: A name, as for `SequenceClassifier`, or a layer.
        features: Number of features of a step, for arrays; columns of a table are
            named instead.
        horizon: Number of steps that the model predicts at once, $k$.
        units: Units of each layer, for an architecture by name.
        num_layers: Number of layers, for an architecture by name; the stacks of a
            WaveNet.
        dropout: Dropout rate of the inputs of each layer.
        past: Columns of a table that are known up to the last value only, such as the
            number of visitors.
        known: Columns of a table that are known in advance, such as price and holiday.
        calendar: Features of the dates, from `"day"`, `"month"`, `"year"`, `"weekday"`
            and `"hour"`; True for the first three.
        quantiles: Quantiles to predict, such as (0.1, 0.5, 0.9), with 0.5 the forecast;
            or None for the mean. Outputs are then `(batch, horizon, quantiles)`.
        categories: Columns of `past` and `known` that have categories in place of
            numbers, such as the names of holidays, which the first table sets; or a
            dictionary of the categories of each. Another category is an error later.
        baseline: What the forecasts of a table are added to: "ar", an autoregression,
            with a network that starts at zero; or "season", the last value, the one a
            season before or nothing, whichever fits best, with a network as it is.
        **kwargs: `name` and `trainable`.

    Raises:
        ValueError: If a name or number is wrong.

    Examples:
        >>> model = Forecaster("gru", horizon=2, units=3)
        >>> model.predict(np.ones((1, 7, 1)), verbose=0).shape
        (1, 2)
        >>> import pandas
        >>> months = pandas.date_range("2020-01-01", periods=30, freq="MS")
        >>> table = pandas.DataFrame({"sales": np.sin(np.arange(30.0))}, index=months)
        >>> model = Forecaster("gru", horizon=2, units=3)
        >>> history = model.fit(table, epochs=1, verbose=0)
        >>> model.forecast(2).index.strftime("%Y-%m").tolist()
        ['2022-07', '2022-08']

    References:
        Slides B: series of [day, month, year, value], forecasts fed back.
        Wen et al., "A Multi-Horizon Quantile Recurrent Forecaster", 2017.
    """

    fit_options: tuple[str, ...] = (*OF_TABLE, *OF_LAYERS)
    baseline: property = property(table_training.baseline)
    selection: property = property(table_training.selection)
    training_verdict: Callable[..., Any] = table_training.training_verdict
    choose_steps: Callable[..., Any] = table_training.choose_steps

    def __init__(
        self,
        architecture: str | keras.Layer,
        *,
        features: int | None = None,
        horizon: int = 1,
        units: int = 64,
        num_layers: int = 1,
        dropout: float = 0.0,
        past: Sequence[str] = (),
        known: Sequence[str] = (),
        calendar: Sequence[str] | bool = (),
        quantiles: Sequence[float] | None = None,
        categories: Sequence[str] | Mapping[str, Sequence[str]] = (),
        baseline: str = "ar",
        **kwargs: Any,
    ) -> None:
        fitted = kwargs.pop("fitted", None)
        past, known = (
            checks.several(name, columns, "columns")
            for name, columns in (("past", past), ("known", known))
        )
        rows = {"features": features, "horizon": horizon}
        check_sizes(architecture, units, num_layers, units, rows)
        quantiles = checked_quantiles(quantiles)
        arguments = {
            "architecture": architecture,
            "features": features,
            "horizon": horizon,
            "units": units,
            "num_layers": num_layers,
            "dropout": checks.rate("dropout", dropout),
            "past": past,
            "known": known,
            "calendar": checked_calendar(calendar),
            "quantiles": quantiles and list(quantiles),
            "categories": checked_categories(categories, [*past, *known]),
            "baseline": checks.one_of("baseline", baseline, BASELINES),
        }
        if isinstance(arguments["categories"], list):
            self.await_fit(arguments, kwargs)
        else:
            self._build_layers(arguments, kwargs)
        if fitted is not None:
            self._fitted = Fitted.of_plain(fitted)

    def _build_layers(self, arguments: Config, kwargs: Config) -> None:
        architecture, horizon = arguments["architecture"], arguments["horizon"]
        units, quantiles = arguments["units"], arguments["quantiles"]
        features = number_of_features(arguments)
        inputs, sequence = sequence_input(None, features, None)
        x, future = Standardize(features, name="standardize")(sequence), None
        ahead = number_ahead(arguments)
        if ahead:
            split = SplitFuture(horizon, ahead, name="split_future")
            x, future = split(x)
            sequence, _ = split(sequence)
        x = SubtractLast(name="subtract_last")(x)
        for layer in build_layers(
            architecture,
            units=units,
            num_layers=arguments["num_layers"],
            dropout=arguments["dropout"],
            return_sequences=False,
        ):
            x = first_output(layer(x))
        if len(x.shape) == 3:
            x = LastStep(name="last_step")(x)
        outputs = add_outputs(x, future, horizon, units, quantiles)
        restore = Standardize(1, invert=True, name="restore", dtype=scores_dtype())
        count = len(quantiles or ())
        baseline = Baseline(horizon, count, name="baseline", dtype=scores_dtype())
        outputs = baseline(restore(outputs), sequence)
        super().__init__(inputs, outputs, {**arguments, "features": features}, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Configures training, as for every model of a task.

        If the model is to learn categories, `fit` does it.
        """
        if self.awaits_fit:
            self._compile_later(args, kwargs)
        else:
            super().compile(*args, **kwargs)

    def default_loss(self) -> keras.losses.Loss | str:
        quantiles = self._arguments["quantiles"]
        return QuantileLoss(quantiles) if quantiles else "mse"

    def default_metrics(self) -> list[str]:
        return [] if self._arguments["quantiles"] else ["mae"]

    def training_data(self, call: FitCall) -> KerasData:
        call.refuse("as keras.utils.set_random_seed determines the order", "seed")
        call.refuse("for a Forecaster, whose targets are no labels", "class_weight")
        of_table = {name: call.own[name] for name in OF_TABLE if name in call.own}
        for name in call.own.keys() - of_table:
            raise TypeError(
                f"fit has no argument {name}, which sets the layers. Name it when the "
                f'model is made: Forecaster("gru", {name}={call.own[name]!r})'
            )
        x = as_table(call.x) if call.y is None else call.x
        if not of_table and not is_table(x, call.y):
            return self._windows_of_arrays(x, call)
        is_first = self._fitted is None
        windows = table_training.prepare_named(self, x, of_table)
        if is_first and self._selects(call):
            return table_training.selected_windows(self, windows, call)
        if not is_first and call.keras.get("verbose", "auto"):
            table_training.print_verdict_on_baseline(self, windows)
        return self._windows_of_table(windows, call)

    def held_out_data(self, call: FitCall) -> Any:
        data = call.validation_data
        (data,) = data if isinstance(data, tuple) and len(data) == 1 else (data,)
        is_list = isinstance(data, list) and len(data) in (2, 3)
        x, y, weights = parts_of(tuple(data) if is_list else data)
        if y is None and x is not None:
            x = as_table(x)
            if is_table(x, None):
                x, y = self._held_out(x)
            else:
                sizes = call.keras.get("validation_steps"), call.held_out_size
                x, y, own = as_windows(x, None, *sizes)[:3]
                weights = weights if own is None else own
        check_not_empty(x, call.method)
        self._check_windows(x, y)
        return of_parts(x, y, weights)

    @contextlib.contextmanager
    def training_on(
        self, call: FitCall, source: Any, arguments: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """Says at the end whether the network helps, if it chose its steps."""
        yield arguments
        if isinstance(source, OrderedBatches) and call.keras.get("verbose", "auto"):
            print(self.training_verdict())

    def _selects(self, call):
        """Returns whether `fit` finds out how many steps help."""
        given = vars(call) | call.keras
        told = any(given.get(name) is not None for name in table_training.EXPLICIT)
        told |= bool(call.initial_epoch or call.validation_split)
        return not told and self._arguments["baseline"] == "ar"

    def _windows_of_table(self, windows, call):
        """Returns the windows of a table; completes the call of `fit`."""
        x, y, weights = *windows[:2], call.sample_weight
        if call.holds_out and not call.validation_split:
            parts = table_training.without_end(self, windows, call)
            (x, y, weights), call.validation_data = parts
        if call.epochs is None:
            batches = -(-len(x) // call.batch_size)
            call.epochs = max(LEAST_EPOCHS, -(-UPDATES // batches))
        return KerasData(x, y, weights)

    def _windows_of_arrays(self, x, call):
        """Windows that are given, checked."""
        windows = as_windows(x, call.y, call.steps_per_epoch, call.batch_size)
        x, y = windows.x, windows.y
        weights = call.sample_weight if windows.weights is None else windows.weights
        check_not_empty(x)
        self._check_windows(x, y)
        self._set_scales_of_arrays(*(windows.first or (x, y)))
        return KerasData(x, y, weights)

    def predicted(self, call: FitCall, outputs: Callable[..., Any]) -> Any:
        x = as_table(call.x)
        if is_empty_list(x):
            return outputs(x)
        if is_table(x, None):
            raise TypeError(
                "predict reads windows (rows, time, features), received a table, "
                f"{checks.short(x)}. Use forecast(table, steps), or prepare(table).x"
            )
        sizes = call.keras["validation_steps"], call.held_out_size
        return outputs(as_windows(x, None, *sizes, targets=False).x)

    def _check_windows(self, x, y):
        """Raises unless there are arrays of windows and targets, or batches."""
        if self.awaits_fit:
            raise ValueError(
                "categories are learned from a table, received windows "
                f"{checks.short(x)}. Pass the table, or make the model with the "
                'categories, such as {"holiday": ["easter", "none"]}'
            )
        check_data(x)
        if are_batches(x):
            return
        features = self._arguments["features"]
        shape = () if as_array(x) is None else np.shape(x)
        if y is None or len(shape) != 3 or shape[2] != features:
            raise ValueError(
                "expected a table, a series (time,), or windows x (rows, time, "
                f"{features}) with targets y, received x={checks.short(x)} and "
                f"y={checks.short(y)}{table_training.advice_on_several(x)}"
            )

    def _set_scales_of_arrays(self, x, y):
        x, y = map(check_finite, ("x", "y"), (x, y))
        of_x, of_y = self.get_layer("standardize"), self.get_layer("restore")
        if of_x.fresh and of_y.fresh and hasattr(x, "shape") and y is not None:
            x, y = map(ops.convert_to_numpy, (x, y))
            if self._ahead():  # the last steps have the known features alone
                x = x[:, : -self._arguments["horizon"]]
            of_x.set(x)
            of_y.set(y[..., None])

    def forecast(
        self,
        history: Any = None,
        steps: int | None = None,
        *,
        known: Any = None,
    ) -> Any:
        """Forecasts the next values: `forecast(12)`, or `forecast(history, 12)`.

        Beyond the horizon forecasts are fed back as inputs. Errors are fed back as
        well, so they grow with the number of steps, and intervals are too narrow.

        Args:
            history: Values so far: a table as for `fit`; for a model that was fitted
                to windows `(time,)` or `(batch, time, 1)`. Defaults to the table that
                the model was fitted to.
            steps: Number of steps to forecast. Defaults to the horizon.
            known: Table of the columns that are known in advance, for the dates of the
                forecast. Defaults to the rows of the table of `fit` after the last
                value.

        Returns:
            For a table a DataFrame with dates, the value, and each other quantile,
            such as `sales_0.9`. Otherwise a NumPy array `(steps,)` or `(batch, steps)`,
            with an axis of quantiles if there are any.

        Raises:
            ValueError: If there are no values to continue, or features of the future
                are missing.

        Examples:
            >>> Forecaster("gru", units=3).forecast(np.ones(7), steps=5).shape
            (5,)
        """
        history = as_table(history)
        has_values = history is None or hasattr(history, "values")  # of a series
        if not has_values and as_array(history) is None:
            raise TypeError(
                "history must be a table, or an array of numbers, received "
                f"{checks.short(history)}"
            )
        if steps is None and history is not None and np.ndim(history) == 0:
            history, steps = None, history
        if steps is None:
            steps = self._arguments["horizon"]
        steps = checks.whole_number("steps", steps)
        if self._fitted is not None or history is None or is_frame(history):
            return self._forecast_table(history, steps, known)
        return self._forecast_arrays(history, steps)

    def encode(self, x: Any = None, *, known: Any = None) -> np.ndarray:
        """Returns series as the windows that the model reads to forecast the horizon.

        Values of a table are scaled, and so is what the model computes of them:
        `decode` returns that in the unit of the series, as `forecast` does.

        Args:
            x: As the `history` of `forecast`, or windows as for `predict`.
            known: As for `forecast`.

        Returns:
            float32: of a table `(series, length, features)`, with `horizon` further
            steps if features are known in advance; of values `(time,)`, for a model
            that was not fitted to a table, `(1, time, 1)`. Windows stay as they are.

        Raises:
            TypeError: If there are no numbers.
            ValueError: As for `forecast`, or if windows have other features.

        Examples:
            >>> model = Forecaster("gru", horizon=2, units=3)
            >>> outputs = model(model.encode([1.0, 2.0, 4.0]))
            >>> forecast = model.forecast([1.0, 2.0, 4.0])
            >>> bool(np.allclose(model.decode(outputs)[0], forecast))
            True
        """
        x, features = as_table(x), self._arguments["features"]
        is_table = x is None or is_frame(x) or self.awaits_fit
        if is_table or (self._fitted is not None and np.ndim(x) != 3):
            return self._encode_table(x, known)
        x = check_finite("x", number_array("x", x))
        x = x.reshape(1, -1, 1) if features == x.ndim == 1 else x
        if not x.size or x.ndim != 3 or x.shape[2] != features:
            raise ValueError(
                f"expected a table, windows (rows, time, {features}), or values (time,)"
                f" for features=1, received the shape {x.shape}"
            )
        return x

    def _forecast_arrays(self, history: Tensor, steps: int) -> np.ndarray:
        """Forecasts `(time,)` or `(batch, time, 1)`."""
        if self._arguments["features"] != 1:
            raise ValueError(
                "forecast feeds values back and needs features=1, received a model "
                f"with features={self._arguments['features']}. Use predict, window by "
                "window"
            )
        history = check_finite("history", number_array("history", history))
        single = history.ndim == 1
        if not history.size or not (single or history.shape[2:] == (1,)):
            raise ValueError(
                "history must be values (time,) or (batch, time, 1), received the "
                f"shape {history.shape}"
            )
        window = history.reshape(1, -1, 1) if single else history
        length, parts = window.shape[1], []
        for _ in range(-(-steps // self._arguments["horizon"])):
            # The window keeps its length, so that the model is compiled once.
            predicted = self._predict_sorted(window)
            parts.append(predicted)
            values = self._median(predicted)[..., None]
            window = np.concatenate([window, values], axis=1)[:, -length:]
        forecasts = np.concatenate(parts, axis=1)[:, :steps]
        if not self._arguments["quantiles"]:
            forecasts = forecasts[..., 0]
        return forecasts[0] if single else forecasts

    def export(
        self,
        filepath: FilePath,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the model as `keras.Model.export` does.

        A program has no tables: it takes windows as from `prepare`, whose values are
        scaled, and its forecasts are scaled.

        Args:
            filepath: The file or folder.
            format: `"tf_saved_model"`, `"onnx"`, `"torch"` or another one of Keras.
            verbose: Whether to print a message.
            input_signature: Shapes of the inputs. After `fit(table)` it defaults to
                windows of the length of the training, as a network that runs step by
                step needs a fixed length.
            **kwargs: For the exporter of the format.

        Raises:
            ValueError: If the number of steps is needed and not known.
        """
        features, ahead = self._arguments["features"], bool(self._ahead())
        horizon = self._arguments["horizon"]
        if input_signature is None and self._fitted is not None:
            steps = self._steps_read()
            input_signature = [keras.InputSpec(shape=(None, steps, features))]
        if input_signature is None and ahead:
            raise ValueError(
                "a program with features known in advance needs its number of steps, "
                "those of a window and the horizon, received no input_signature. Pass "
                f"[keras.InputSpec(shape=(None, steps + {horizon}, {features}))]"
            )
        super().export(filepath, format, verbose, input_signature, **kwargs)

    def get_config(self) -> Config:
        fitted = None if self._fitted is None else self._fitted.plain()
        return {**super().get_config(), "fitted": fitted}

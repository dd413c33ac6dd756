"""Forecasts of the series of a table, and their scores by rolling origin."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from keras import ops

from kerasseq.core import checks
from kerasseq.series.columns import Columns
from kerasseq.series.forecast_frames import forecast_frame, with_future
from kerasseq.series.forecast_scores import Comparison, compare
from kerasseq.series.frames import SeriesTable
from kerasseq.series.intervals import shifted
from kerasseq.series.one_series import OneSeries
from kerasseq.series.sources import require_pandas
from kerasseq.series.table_fitting import TableFitting
from kerasseq.tracing import plots

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas

REFITS = ("once", "always", "never")


class TableForecasts(TableFitting):
    """What a `Forecaster` can do after `fit(table)`: a mixin."""

    def set_history(self, data: Any) -> None:
        """Replaces the values that `forecast` continues, without training.

        Args:
            data: A table with the columns of the one that the model was fitted to.
        """
        table = self._read_history(data)
        self._fitted.keep(table, self._arguments["horizon"])

    def last_steps(self) -> dict[Any, np.datetime64 | int]:
        """Returns where the values end that `forecast` continues.

        Returns:
            For each series, by its name, the date of its last value; without dates the
            number of its values.

        Raises:
            ValueError: If the model has not been fitted to a table.

        Examples:
            >>> from kerasseq.models import Forecaster
            >>> model = Forecaster("gru", horizon=2, units=3)
            >>> windows = model.prepare(np.sin(np.arange(20.0)))
            >>> model.last_steps()
            {None: 20}
        """
        self._check_fitted()
        pairs = zip(self._fitted.history, self._fitted.rows, strict=True)
        return {
            one.name: rows if one.dates is None else one.dates[len(one.values) - 1]
            for one, rows in pairs
        }

    def _read_history(self, data):
        self._check_fitted()
        table = self._read(data, Columns(), None)
        self._set_scales(table)
        return table

    def _forecast_table(self, data, steps, known):
        """Forecasts a table; the one that the model keeps if `data` is None."""
        series, rows, kind = self._history_of(data)
        parts = [with_future(one, self._fitted, steps, known) for one in series]
        forecasts = self._forecast_series(parts, steps)
        quantiles = self._arguments["quantiles"]
        if kind == "array":
            return forecasts[0] if quantiles else forecasts[0, :, 0]
        return forecast_frame(self._fitted, parts, rows, forecasts, quantiles)

    def _history_of(self, data):
        """Returns the series to continue, their numbers of values, and their kind."""
        self._check_fitted()
        if data is None:
            fitted = self._fitted
            return fitted.history, fitted.rows, fitted.kind
        table = self._read_history(data)
        return table.series, [len(one.values) for one in table.series], table.kind

    def _encode_table(self, data, known):
        """Returns the windows, scaled, that `forecast` reads of a table."""
        horizon = self._arguments["horizon"]
        series, *_ = self._history_of(data)
        parts = [with_future(one, self._fitted, horizon, known) for one in series]
        table, _ = self._rows_to_continue(parts, horizon)
        return table[:, : self._steps_read()].astype("float32")

    def decode(self, outputs: Any, history: Any = None) -> np.ndarray:
        """Returns outputs of the model in the unit of the series, as `forecast` does.

        Args:
            outputs: What `model(model.encode(history))` returned.
            history: As for `forecast`; the table of `fit` if None.

        Returns:
            Array `(series, horizon)`, with an axis of quantiles if there are any, in
            rising order. It has the unit of the series already if the model was fitted
            to windows.

        Raises:
            ValueError: If they have another shape, or not one row for each series.

        Examples:
            >>> from kerasseq.models import Forecaster
            >>> model, y = Forecaster("gru", horizon=2, units=3), np.arange(20.0)
            >>> history = model.fit(y, epochs=1, verbose=0)
            >>> outputs = model(model.encode(y))
            >>> bool(np.allclose(model.decode(outputs)[0], model.forecast(2)))
            True
        """
        y, shape = ops.convert_to_numpy(outputs), self.output_shape
        if y.shape[1:] != shape[1:]:
            raise ValueError(
                f"outputs must have the shape {shape} of those of the model, received "
                f"{y.shape}"
            )
        y = self._sorted(y)
        if self._fitted is not None:
            series, *_ = self._history_of(history)
            if len(series) != len(y):
                raise ValueError(
                    f"outputs must have {len(series)} rows, one for each series of "
                    f"history, received {len(y)}. Pass the history that was encoded"
                )
            y = self._inverted([self._scale_of(one) for one in series], y)
        return y if self._arguments["quantiles"] else y[..., 0]

    def _forecast_series(self, parts: list[OneSeries], steps: int) -> np.ndarray:
        """Forecasts series, in their units.

        Args:
            parts: Series with at least `steps` rows of the future.
            steps: Number of steps.

        Returns:
            Array `(series, steps, quantiles)`, one if there are none.
        """
        length, horizon = self._fitted.length, self._arguments["horizon"]
        forecasts = []
        if steps > horizon and self._arguments["past"]:
            raise ValueError(
                f"columns in past are not known beyond the horizon {horizon}, "
                f"received steps={steps}. Make a model with horizon={steps}"
            )
        blocks = -(-steps // horizon)
        table, scales = self._rows_to_continue(parts, blocks * horizon)
        for start in range(0, blocks * horizon, horizon):
            # The window keeps its length, so that the model is compiled once.
            x = table[:, start : start + self._steps_read()].astype("float32")
            y = self._predict_sorted(x)
            table[:, start + length : start + length + horizon, 0] = self._median(y)
            forecasts.append(y)
        return self._inverted(scales, np.concatenate(forecasts, axis=1)[:, :steps])

    def _inverted(self, scales, y):
        """Returns forecasts in the unit of their series, in float64."""
        pairs = zip(scales, y.astype("float64"), strict=True)
        return np.stack([scale.invert(row) for scale, row in pairs])

    def _steps_read(self):
        """Returns the steps of a window, with those known in advance."""
        return self._fitted.length + bool(self._ahead()) * self._arguments["horizon"]

    def _rows_to_continue(self, parts, future):
        """Returns the last rows of series and those of the future, and their scales."""
        scales = [self._scale_of(one) for one in parts]
        pairs = zip(parts, scales, strict=True)
        return np.stack([self._last_rows(*pair, future) for pair in pairs]), scales

    def _last_rows(self, one, scale, future):
        """Returns the features of the last window, and of steps to come."""
        length, time = self._fitted.length, len(one.values)
        if time < length:
            raise ValueError(
                f"{one.title} must have at least {length} values, which a forecast "
                f"continues, received {time}. Give more values, or make a model with a "
                "smaller length"
            )
        rows = self._features(one.after(time - length), scale)[: length + future]
        # Beyond the steps that are asked for the last row is repeated, and cut off.
        missing = length + future - len(rows)
        rows = np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)])
        rows[length:, : rows.shape[1] - self._ahead()] = 0.0
        return rows

    def _predict_sorted(self, x):
        """Predicts quantiles in rising order, `(batch, horizon, quantiles)`."""
        return self._sorted(ops.convert_to_numpy(self.predict_on_batch(x)))

    def _sorted(self, y):
        # Quantiles are trained one by one, and may cross.
        y = np.sort(y.reshape(len(y), self._arguments["horizon"], -1), axis=-1)
        if self._fitted is None or self._fitted.shifts is None:
            return y
        return shifted(y, self._fitted.shifts, self._arguments["quantiles"].index(0.5))

    def _median(self, y):
        quantiles = self._arguments["quantiles"]
        return y[..., quantiles.index(0.5) if quantiles else 0]

    def backtest(
        self,
        data: Any,
        *,
        origins: int = 5,
        steps: int | None = None,
        stride: int | None = None,
        refit: str = "once",
        value: Any = None,
        date: Any = None,
        group: Any = None,
        missing: str | None = None,
        season: int | None = None,
        length: int | None = None,
        **options: Any,
    ) -> "pandas.DataFrame":
        """Scores forecasts from several origins, beside those of simple models.

        An origin is the last value that a forecast may use. A copy of the model, with
        new weights, is trained on the values before the first origin; this model does
        not change. Known columns of the table are used beyond the origin.

        Args:
            data: A table, as for `fit`.
            origins: Number of origins. The last one is `steps` before the end.
            steps: Steps of each forecast. Defaults to the horizon.
            stride: Steps between two origins. Defaults to `steps`, so that each value
                is forecast once.
            refit: `"once"` trains before the first origin, `"always"` before each one,
                `"never"` uses this model, which must not have been trained on values
                beyond the first origin.
            value: The column to forecast, as for `fit`, as are the following.
            date: The column of dates.
            group: The column that tells several series apart.
            missing: What to do about empty cells and missing dates.
            season: Steps of a season, for seasonal naive forecasts and MASE.
            length: Steps of a window.
            **options: For training, as for `fit`.

        Returns:
            A DataFrame with a row for each of the model, naive, seasonal naive and AR,
            and the columns MAE, RMSE and MASE, averaged over series. MASE is NaN where
            it is undefined; see `kerasseq.series.forecast_scores`. With quantiles the
            row of the model has `coverage`, the part of the values between the lowest
            and the highest quantile, and `nominal`, what it should be.
            `attrs["verdict"]` is a sentence if the model does not beat the simple
            models, otherwise empty; `attrs["training"]` that of `training_verdict`.

        Raises:
            ValueError: If the series are too short, or the model was trained on values
                that it would forecast.

        References:
            Tashman, "Out-of-sample tests of forecasting accuracy", 2000.
        """
        pandas = require_pandas()
        checks.one_of("refit", refit, REFITS)
        origins = checks.whole_number("origins", origins)
        steps = checks.whole_number("steps", steps or self._arguments["horizon"])
        stride = checks.whole_number("stride", stride or steps)
        model = self
        if refit != "never":
            model = self._unfitted()
        else:
            self._check_fitted()
        if self._fitted is not None:
            season = season or self._fitted.season
            length = length or self._fitted.length
        reader = self if self._fitted is not None else model
        table = reader._read(data, Columns(value, date, group), missing)
        ends = _ends(table, origins, steps, stride)
        if refit == "never":
            self._check_not_seen(table, ends[0])
        comparisons = []
        for number, times in enumerate(ends):
            if refit == "always" or (refit == "once" and number == 0):
                model = self._unfitted()
                past = table.until(times)
                model.fit(past, season=season, length=length, **options)
            comparisons.append(model.compare(table, [times], steps, ends[0]))
        joined = Comparison.joined(comparisons)
        scores = pandas.DataFrame(joined.scores()).T
        if joined.intervals is not None:
            own = scores.index == model.title
            scores["coverage"] = np.where(own, joined.coverage(), np.nan)
            scores["nominal"] = np.where(own, joined.nominal, np.nan)
        scores.attrs["training"] = model.training_verdict()
        scores.attrs["verdict"] = joined.verdict(model.title)
        return scores

    def compare(
        self,
        table: SeriesTable,
        ends: list[list[int]],
        steps: int,
        training: list[int],
    ) -> Comparison:
        """Compares the forecasts of this model with those of simple models.

        Args:
            table: The series.
            ends: For each origin the number of values of each series before it.
            steps: Steps of each forecast.
            training: Number of values of each series in the training part.
        """
        parts = [one for times in ends for one in table.until(times, steps).series]
        forecasts = self._forecast_series(parts, steps)
        shape = (len(ends), len(table.series), *forecasts.shape[1:])
        forecasts = forecasts.reshape(shape).swapaxes(0, 1)
        values = [one.values for one in table.series]
        medians, season = self._median(forecasts), self._fitted.season
        comparison = compare(self.title, medians, values, ends, training, season)
        quantiles = self._quantiles()
        if len(quantiles) > 1:
            comparison.intervals = forecasts[..., [0, -1]]
            comparison.nominal = quantiles[-1] - quantiles[0]
        return comparison

    @property
    def title(self) -> str:
        """The name of the architecture, in tables and figures."""
        architecture = self._arguments["architecture"]
        if isinstance(architecture, str):
            return architecture
        return type(architecture).__name__

    def _unfitted(self) -> Self:
        """Returns a copy with new weights, fitted to nothing."""
        config = self.get_config()
        config.pop("fitted")
        copy = type(self).from_config(config)
        if self.awaits_fit:
            args, options = self._compile_arguments
            copy.compile(*args, **options)
        else:
            copy.compile_from_config(self.get_compile_config())
        return copy

    def _check_not_seen(self, table, times):
        for one, time in zip(table.series, times, strict=True):
            trained = self._fitted.trained.get(one.name, 0)
            if trained > time:
                raise ValueError(
                    f'refit="never" needs a model that was trained on the first {time} '
                    f"values of {one.title} at most, received one trained on {trained}."
                    ' Pass fewer origins, or refit="once"'
                )

    def plot(
        self, steps: int | None = None, *, known: Any = None
    ) -> "matplotlib.figure.Figure":
        """Plots the end of each series and its forecast, with intervals.

        Args:
            steps: Number of steps. Defaults to the horizon.
            known: Known columns of the future, as for `forecast`.

        Returns:
            A matplotlib `Figure`.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If the model has not been fitted to a table.
        """
        self._check_fitted()
        steps = checks.whole_number("steps", steps or self._arguments["horizon"])
        history = self._fitted.history
        parts = [with_future(one, self._fitted, steps, known) for one in history]
        return self._plot(parts, steps, [None] * len(parts))

    def plot_held_out(
        self, table: SeriesTable, ends: list[int], steps: int
    ) -> "matplotlib.figure.Figure":
        """Plots forecasts from within a table, and the values that came.

        Args:
            table: The series, as from `read`.
            ends: Number of values of each series before the forecast.
            steps: Number of steps.
        """
        parts = table.until(ends, steps).series
        actual = [
            one.values[end : end + steps]
            for one, end in zip(table.series, ends, strict=True)
        ]
        return self._plot(parts, steps, actual)

    def _plot(self, parts, steps, actual):
        forecasts, quantiles = self._forecast_series(parts, steps), self._quantiles()
        panels = []
        for one, y, came in zip(parts, forecasts, actual, strict=True):
            name = self._fitted.columns.value if one.name is None else one.name
            panel = plots.ForecastPanel(
                "" if name is None else str(name),
                one.values,
                self._median(y),
                None if one.dates is None else one.dates[: len(one.values) + steps],
                actual=came,
            )
            if len(quantiles) > 1:
                panel = panel._replace(lower=y[:, 0], upper=y[:, -1])
            panels.append(panel)
        return plots.plot_forecast(panels, f"{quantiles[0]:g} to {quantiles[-1]:g}")

    def _quantiles(self):
        return self._arguments["quantiles"] or [0.5]


def _ends(table, origins, steps, stride):
    """Returns the values of each series before each origin."""
    held = steps + (origins - 1) * stride
    for one in table.series:
        if len(one.values) <= held + steps:
            raise ValueError(
                f"{origins} origins with {steps} steps and stride={stride} take "
                f"{held} values at the end, but {one.title} has {len(one.values)}. "
                "Choose fewer origins, a smaller stride or fewer steps"
            )
    return [
        [len(one.values) - held + number * stride for one in table.series]
        for number in range(origins)
    ]

"""How a `Forecaster` is fitted to the series of a table."""

import dataclasses
from typing import Any

import numpy as np

from kerasseq.core import checks
from kerasseq.series.autoregression import fit_shared, forecast_map
from kerasseq.series.columns import Columns, learned_categories
from kerasseq.series.forecaster_arguments import named_features, number_ahead
from kerasseq.series.forecaster_layers import MAX_LAG, start_at_zero
from kerasseq.series.frames import SeriesTable, is_frame, read_series
from kerasseq.series.one_series import OneSeries
from kerasseq.series.sources import as_table
from kerasseq.series.windows import (
    Fitted,
    Scale,
    TableWindows,
    best_baseline,
    check_length,
    features,
    moments,
    training_windows,
    window_length,
)

LARGEST_SCALED = 1e18  # whose squares can be added in float32


class TableFitting:
    """Reads the tables that a `Forecaster` is fitted to: a mixin."""

    _arguments: dict[str, Any]
    _fitted: Fitted | None = None

    def prepare(
        self,
        data: Any,
        *,
        value: Any = None,
        date: Any = None,
        group: Any = None,
        missing: str | None = None,
        season: int | None = None,
        length: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the windows of a table, for a training loop of your own.

        `fit(data)` does the same, and then trains. The first table sets the scale of
        each series, the length of the windows, the season and the baseline, and the
        model then forecasts as the baseline does. Values are standardized
        by mean and standard deviation of their series. Rows without a value at the end
        of a series are its future. A constant series has no windows, and its forecast
        is the constant.

        Args:
            data: A pandas DataFrame or Series, a table of polars, Arrow or Hugging
                Face, an array or column `(time,)`, or a `datasets.Series`.
            value: The column to forecast. Defaults to the only column of numbers.
            date: The column of dates. Defaults to the index, or the only column of
                dates.
            group: The column that tells several series apart.
            missing: What to do about empty cells and missing dates: `"error"`, the
                default, `"interpolate"` linearly, or `"forward"`, which repeats the
                value before.
            season: Steps of a season. Defaults to that of the dates: 12 for months, 4
                for quarters, 52 for weeks, 7 for days, 5 for business days, 24 for
                hours; otherwise 1.
            length: Steps of a window. Defaults to two seasons, at least 25, and at most
                half of the shortest series.

        Returns:
            `x` of shape `(windows, length, features)` and `y` of shape
            `(windows, horizon)`, float32 and scaled. With features that are known in
            advance `x` has `horizon` further steps.

        Raises:
            ValueError: If a column is missing, a cell is empty or no number, the dates
                repeat, jump or run backwards, are at another distance than those that
                the model was fitted to, a series is too short, or all are constant.

        Examples:
            >>> from kerasseq.models import Forecaster
            >>> model = Forecaster("gru", horizon=2, units=3)
            >>> x, y = model.prepare(np.sin(np.arange(20.0)), length=7)
            >>> x.shape, y.shape
            ((12, 7, 1), (12, 2))
        """
        columns = Columns(value, date, group)
        return self._prepare(data, columns, missing, season, length)[:2]

    def _prepare(self, data, columns, missing=None, season=None, length=None):
        """Makes the windows of a table; the first sets constants of the layers."""
        table = self._read(data, columns, missing)
        first = self._fitted is None
        if first:
            self._check_fresh()
            self._fitted = self._start(table, missing, season, length, data)
        try:
            return self._windows(table, first)
        except ValueError:
            if first:
                self._fitted = None
            raise

    def read(
        self,
        data: Any,
        *,
        value: Any = None,
        date: Any = None,
        group: Any = None,
        missing: str | None = None,
    ) -> SeriesTable:
        """Reads and checks the series of a table, as `prepare` does first.

        Args:
            data: The table.
            value: The column to forecast.
            date: The column of dates.
            group: The column that tells several series apart.
            missing: What to do about empty cells and missing dates.

        Returns:
            The series: `table.series` is a list, `table.until(times)` a part of it.

        Examples:
            >>> from kerasseq.models import Forecaster
            >>> Forecaster("gru", units=3).read([1.0, 2.0, 4.0]).series[0].values
            array([1., 2., 4.])
        """
        return self._read(data, Columns(value, date, group), missing)

    def _windows(self, table, first):
        fitted = self._fitted
        windows = self._gather(table)
        fitted.trained |= {one.name: len(one.values) for one in table.series}
        fitted.keep(table, self._arguments["horizon"])
        if first:
            self._standardize(windows.x)
            self._set_baseline(windows.x, windows.y, windows.values)
            if self._arguments["baseline"] == "ar":
                start_at_zero(self)
        return windows

    def _gather(self, table):
        """Gathers windows of all series that vary, as `TableWindows`."""
        fitted, horizon = self._fitted, self._arguments["horizon"]
        check_length(table, fitted.length, horizon)
        self._set_scales(table)
        pairs, values = [], []
        for one in table.series:
            if not fitted.scales[one.name].deviation:
                continue
            rows = self._features(one, fitted.scales[one.name])
            time = len(one.values)
            values.append(rows[:time, 0])
            sizes = time, fitted.length, horizon
            pairs.append(training_windows(rows, *sizes, self._ahead()))
        if not pairs:
            raise _constant(table.series)
        x, y = (np.concatenate(part) for part in zip(*pairs, strict=True))
        return TableWindows(x, y, [len(y) for _, y in pairs], values)

    def _held_out(self, data):
        """Returns the windows of a further table, which the model is not trained on."""
        self._check_fitted()
        table = self._read(data, Columns(), None)
        return self._gather(table)[:2]

    def _set_scales(self, table):
        """Sets the scale of each series that is new."""
        scales = self._fitted.scales
        for one in table.series:
            if one.name not in scales:
                scales[one.name] = Scale.of(one)

    def _scale_of(self, one: OneSeries) -> Scale:
        """Returns the scale of a series: of its own values if it was constant."""
        scale = self._fitted.scales[one.name]
        return scale if scale.deviation else Scale.of(one)

    def _start(self, table, missing, season, length, data):
        frequency = table.frequency
        if season is None:
            season = 1 if frequency is None else frequency.season
        season = checks.whole_number("season", season)
        horizon = self._arguments["horizon"]
        if length is None:
            length = window_length(table, season, horizon)
        return Fitted(
            columns=table.columns,
            kind=table.kind,
            index=getattr(getattr(data, "index", None), "name", None),
            frequency=frequency,
            length=checks.whole_number("length", length),
            season=season,
            missing=missing or "error",
        )

    def _read(self, data, columns, missing):
        """Reads a table: the first with the columns given, others with the same."""
        data = as_table(data)
        if self.awaits_fit:
            self._learn_categories(data)
        arguments = self._arguments
        if self._fitted is None:
            named = {name: tuple(arguments[name]) for name in ("past", "known")}
            named["categories"] = arguments["categories"]
            columns = dataclasses.replace(columns, **named)
        else:
            missing = missing or self._fitted.missing
            data, columns = self._as_before(data, columns)
        like = None if self._fitted is None else self._fitted.frequency_of
        table = read_series(data, columns, missing or "error", like)
        if self._fitted is not None:
            self._check_frequency(table)
        if arguments["calendar"] and table.frequency is None:
            raise ValueError(
                f"calendar={tuple(arguments['calendar'])} needs dates, but the table "
                "has none. Name their column with date=, or set them as the index"
            )
        for one in table.series:
            if not len(one.values):
                raise ValueError(
                    f"{one.title} must have at least one value, received none"
                )
        return table

    def _learn_categories(self, data):
        """Sets the categories from the first table, and builds the layers."""
        if isinstance(data, SeriesTable):
            categories = data.columns.categories
        elif is_frame(data):
            categories = learned_categories(data, self._arguments["categories"])
        else:
            raise TypeError(
                "categories are columns of a table, received "
                f"{checks.short(data)}. Pass a table, or name the categories: "
                'categories={"holiday": ["easter", "none"]}'
            )
        args, options = self._compile_arguments
        self._build_layers({**self._arguments, "categories": categories}, self._named())
        if args or options:
            self.compile(*args, **options)

    def _named(self):
        named = {"name": self.name}
        return named if self.trainable else {**named, "trainable": False}

    def _check_frequency(self, table):
        """Raises if the dates are at another distance than those of the first table."""
        before, frequency = self._fitted.frequency, table.frequency
        if before is None or (frequency is None and table.kind == "array"):
            return
        if frequency is None:
            raise ValueError(
                f"the model was fitted to dates {before}, but the table has none. Set "
                "them as the index, as there"
            )
        for one in table.series:
            if not one.frequency.equals(before):
                raise ValueError(
                    f"the model was fitted to dates {before}, but those of {one.title} "
                    f"are {one.frequency}. Make another model for them, or resample "
                    "the table"
                )

    def _as_before(self, data, columns):
        """Returns a further table, with the columns of the first one."""
        before = self._fitted.columns
        for name in ("value", "date", "group"):
            new, old = getattr(columns, name), getattr(before, name)
            if new is not None and new != old:
                raise ValueError(
                    f"the model has been fitted with {name}={old!r}, received "
                    f"{name}={new!r}. Leave it out, or make another model"
                )
        if is_frame(data):
            if not hasattr(data, "columns"):
                data = data.rename(before.value)
            return data, before
        if len(self._fitted.scales) > 1 or before.others:
            return data, before
        return data, Columns()  # an array continues a single series

    def _check_fresh(self):
        """Raises if arrays have set the scale before."""
        features, named = self._arguments["features"], named_features(self._arguments)
        if features != named:
            raise ValueError(
                f"the model has features={features}, but a table gives {named}: the "
                "value, and the columns past, known and calendar. "
                "Name the columns when the model is made, as in "
                'Forecaster("gru", known=["price"])'
            )
        if not self.get_layer("restore").fresh:
            raise ValueError(
                "the model has been fitted to arrays, so that it has a scale. Make "
                "another model for the table"
            )

    def _standardize(self, x):
        """Sets the scale of the features from the windows of the first table."""
        length, ahead = self._fitted.length, self._ahead()
        count = x.shape[-1] - ahead
        parts = [x[:, :length, :count]]
        if ahead:
            parts.append(x[:, length:, count:])
        mean, spread = map(np.concatenate, zip(*map(moments, parts), strict=True))
        if self._arguments["baseline"] == "ar":
            # The network gets the values less the last one, on another scale.
            values = parts[0][..., :1]
            spread[:1] = moments(values - values[:, -1:])[1]
            self.get_layer("subtract_last").switch_on()
        self.get_layer("standardize").set_constants(mean, spread)

    def _set_baseline(self, x, y, values):
        """Sets the baseline, and the scale of what the network adds to it.

        Args:
            x: Windows.
            y: Targets.
            values: Scaled values of each series, `(time,)`.

        Returns:
            The quantiles of its errors, `(horizon, quantiles)`; None without quantiles.
        """
        fitted, horizon = self._fitted, self._arguments["horizon"]
        layer = self.get_layer("baseline")
        longest = min(fitted.length, MAX_LAG)
        season, fitted.order, regression = 0, 0, None
        if self._arguments["baseline"] == "ar":
            regression = fit_shared(values, fitted.season, longest)
        if regression is None or fitted.season > MAX_LAG:
            season = best_baseline(values, fitted.length, horizon, fitted.season)
        layer.set(season)
        errors = y - layer.forecasts_of(x[:, : fitted.length])
        if regression is not None:
            layer.set_map(*forecast_map(regression, horizon))
            others = y - layer.forecasts_of(x[:, : fitted.length])
            if season > MAX_LAG and np.abs(errors).mean() < np.abs(others).mean():
                layer.set(season)
            else:
                errors, fitted.order = others, regression.order
        if self._arguments["baseline"] == "season":
            self.get_layer("restore").set(errors[..., None])
            return None
        self.get_layer("restore").set_constants(np.zeros(1), np.array([errors.std()]))
        quantiles = self._arguments["quantiles"]
        if not quantiles:
            return None
        of_steps = np.quantile(errors, quantiles, axis=0).T
        of_steps[:, quantiles.index(0.5)] = 0.0  # the forecast is the baseline
        layer.set_errors(of_steps)
        return of_steps

    def _ahead(self):
        """Returns the number of features that are known in advance, the last ones."""
        return number_ahead(self._arguments)

    def last_example(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the last window of the first series, and its target.

        Returns:
            `x` of shape `(1, length, features)`, or `(1, length + horizon, features)`
            with features known in advance, and `y` of shape `(1, horizon)`.

        Raises:
            ValueError: If the model has not been fitted to a table.
        """
        self._check_fitted()
        one, fitted = self._fitted.history[0], self._fitted
        sizes = (len(one.values), fitted.length, self._arguments["horizon"])
        rows = self._features(one, self._scale_of(one))
        x, y = training_windows(rows, *sizes, self._ahead())
        return x[-1:], y[-1:]

    def _check_fitted(self):
        if self._fitted is None:
            raise ValueError(
                "expected a model that was fitted to a table, received one that was "
                "not. Call fit(table) first, or pass the values so far, as in "
                "forecast(history, steps)"
            )

    def _features(self, one: OneSeries, scale: Scale) -> np.ndarray:
        rows = features(one, scale, tuple(self._arguments["calendar"]))
        scaled = rows[: len(one.values), 0]
        if len(scaled) and np.abs(scaled).max() > LARGEST_SCALED:
            column = self._fitted.columns.value
            title = one.title if column is None else f"the column {column!r}"
            value = one.values[np.abs(scaled).argmax()]
            raise ValueError(
                f"{title} must have values like those that the model was fitted to, of "
                f"mean {scale.mean:.3g} and standard deviation {scale.deviation:.3g}, "
                f"received {value:g} in {one.title}, which is too large for float32 on "
                "this scale. Correct it, or fit another model"
            )
        return rows


def _constant(series):
    value = f"{series[0].values[0]:g} at every step"
    if len(series) > 1:
        value = f"as are the {len(series) - 1} others"
    return ValueError(
        f"{series[0].title} is constant, {value}: there is nothing to forecast, and "
        "MASE is undefined. Choose another column"
    )

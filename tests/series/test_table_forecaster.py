"""`Forecaster` on a table: fitted, used, saved and tested."""

import keras
import numpy as np
import pandas as pd
import pytest

import kerasseq
from kerasseq.models import Forecaster
from kerasseq.series.columns import Columns
from kerasseq.series.dates import as_frequency
from kerasseq.series.quantile_loss import QuantileLoss
from kerasseq.series.windows import Fitted, training_windows

pytestmark = pytest.mark.once("the table is read by pandas")

rng = np.random.default_rng(0)


def table(rows=41, shop=None, level=100.0, rng=rng):
    """Months with a season, a price and a holiday, far from 0."""
    index = pd.date_range("2020-01-01", periods=rows, freq="MS", name="month")
    season = 10 * np.sin(np.arange(rows) * np.pi / 6)
    columns = {"price": rng.normal(5, 1, rows), "holiday": rng.integers(0, 2, rows)}
    sales = level + season + rng.normal(size=rows) + columns["holiday"]
    frame = pd.DataFrame({"sales": sales, **columns}, index=index)
    return frame if shop is None else frame.assign(shop=shop)


FRAME = table()


def small(horizon=3, **options):
    model = Forecaster("elman", horizon=horizon, units=3, **options)
    model.compile(run_eagerly=True)  # no compiling for short fits
    return model


def fitted(model, data, **options):
    return model, model.fit(data, epochs=1, verbose=0, batch_size=64, **options)


def test_windows_are_those_of_the_equation():
    model = small(past=["holiday"], known=["price"], calendar=["month"])
    x, y = model.prepare(FRAME, value="sales", length=7, season=5)
    scaled = (FRAME.sales - FRAME.sales.mean()) / FRAME.sales.std(ddof=0)
    assert x.shape == (32, 10, 4) and y.shape == (32, 3)
    for n in (0, 31):
        np.testing.assert_allclose(y[n], scaled[n + 7 : n + 10], rtol=1e-5)
        np.testing.assert_allclose(x[n, :7, 0], scaled[n : n + 7], rtol=1e-5)
        np.testing.assert_array_equal(x[n, 7:, :2], 0)
        np.testing.assert_allclose(x[n, :7, 1], FRAME.holiday[n : n + 7])
        np.testing.assert_allclose(x[n, :, 2], FRAME.price[n : n + 10], rtol=1e-6)
        month = (FRAME.index[n : n + 10].month - 1) / 11
        np.testing.assert_allclose(x[n, :, 3], month, atol=1e-6)


def test_targets_end_with_the_last_value():
    rows = np.arange(26.0).reshape(13, 2)  # the last two are the future
    for ahead, size in ((0, 3), (1, 5)):
        x, y = training_windows(rows, 11, length=3, horizon=2, ahead=ahead)
        assert x.shape == (7, size, 2) and y.shape == (7, 2)
        np.testing.assert_array_equal(y[-1], [18, 20])


@pytest.mark.parametrize("season", [0, 1, 5])
def test_an_untrained_model_forecasts_its_baseline(season):
    model = small(horizon=7)
    model.prepare(FRAME.sales, length=11)
    model.get_layer("baseline").set(season)
    model.get_layer("output").kernel.assign(np.zeros((3, 7)))
    model.get_layer("restore").mean.assign([0.0])
    last = FRAME.sales.to_numpy()[-season:] if season else [FRAME.sales.mean()]
    found = model.forecast(13)
    expected = np.resize(np.resize(last, 7), 13) if season < 2 else np.concatenate(
        [np.resize(last, 7), np.resize(np.resize(last, 7)[-5:], 6)])  # fmt: skip
    np.testing.assert_allclose(found["sales"], expected, rtol=1e-5)
    after = pd.date_range("2023-06-01", periods=13, freq="MS")
    np.testing.assert_array_equal(found.index, after)
    assert found.index.name == "month"


def test_known_columns_of_the_future_change_the_forecast():
    model, _ = fitted(small(known=["price"]), FRAME[:-3], value="sales")
    found = model.forecast(known=FRAME[-3:])
    dear = model.forecast(known=FRAME[-3:].assign(price=[5.0, 9.0, 5.0]))
    same = found.sales.to_numpy() == pytest.approx(dear.sales.to_numpy(), abs=1e-6)
    assert not same
    blank = FRAME.assign(sales=[*FRAME.sales[:-3], *[np.nan] * 3])
    model.set_history(blank)
    pd.testing.assert_frame_equal(model.forecast(3), found)
    with pytest.raises(ValueError, match="needs the known columns price for 4 steps, "
                       "from 2023-06-01 on"):  # fmt: skip
        model.forecast(4)
    with pytest.raises(ValueError, match="from 2023-04-01 on"):
        model.forecast(3, known=FRAME[-3:-1].drop(index="2023-04-01"))
    with pytest.raises(TypeError, match="known must be a pandas DataFrame"):
        model.forecast(3, known=[1.0, 2.0, 3.0])


def test_categories_are_columns_of_zeros_and_ones(tmp_path):
    kinds = ["rain", "snow", "sun"]
    names = np.resize(kinds, len(FRAME)).astype(object)
    names[[4, 9]] = "sun", None
    data = FRAME.assign(weather=names, day=np.arange(len(FRAME)) % 2)
    data["sales"] = [*FRAME.sales[:-3], *[np.nan] * 3]
    filled = data.weather.ffill()  # a kind is not interpolated
    columns = {f"{kind}{n}": filled.eq(kind) * 1.0 for n in "ab" for kind in kinds}
    days = {f"day{n}": data.day.eq(n) * 1.0 for n in (0, 1)}
    dummies = FRAME[[]].assign(sales=data.sales, **columns, **days)
    few, found = {"past": ["day"], "known": ["weather"]}, []
    for table, make in (
        (data, {**few, "categories": ["weather", "day"]}),
        (data.astype({"weather": "category"}), {**few, "categories": {
            "weather": kinds, "day": ["0", "1"]}}),
        (dummies, {"past": [*days], "known": [f"{kind}a" for kind in kinds]}),
    ):  # fmt: skip
        keras.utils.set_random_seed(3)
        model = small(**make)
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        model.fit(table, value="sales", missing="interpolate", epochs=1, verbose=0)
        found.append((model.get_weights(), model.forecast(3)))
        if make.get("categories"):
            known = model
    for weights, forecast in found[:2]:
        for a, b in zip(weights, found[2][0], strict=True):
            np.testing.assert_array_equal(a, b)
        pd.testing.assert_frame_equal(forecast, found[2][1])
    known.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == known.get_config()
    future = data[-3:][["weather"]]
    pd.testing.assert_frame_equal(loaded.forecast(3, known=future), found[0][1])
    message = (
        r"one of its categories, \['rain', 'snow', 'sun'\], but .* has 'son'\. Did"
    )
    with pytest.raises(ValueError, match=message):
        loaded.forecast(3, known=future.assign(weather=["sun", "son", "rain"]))
    awaiting = small(**few, categories=["weather", "day"])
    with pytest.raises(ValueError, match="has not learned its categories. Call fit"):
        awaiting.get_weights()
    assert awaiting.layers == []
    with pytest.raises(ValueError, match="learned from a table, received windows"):
        awaiting.fit(np.ones((2, 5, 3)), np.ones((2, 3)))
    options = {"value": "sales", "epochs": 1, "verbose": 0, "missing": "forward"}
    scores = awaiting.backtest(data[:-3], origins=2, steps=2, **options)
    assert np.isfinite(scores.MAE).all() and awaiting.awaits_fit
    with pytest.raises(ValueError, match=r"make the model with categories=\['weather'"):
        small(known=["weather"]).fit(data, value="sales")
    with pytest.raises(ValueError, match='"wether" is not one of "weather"'):
        small(known=["weather"], categories=["wether"])
    with pytest.raises(TypeError, match="columns of a table, received"):
        awaiting.fit(np.arange(30.0))


@pytest.mark.everywhere("trained, saved, loaded")
def test_a_loaded_model_forecasts_at_once(tmp_path):
    both = pd.concat([table(shop="b"), table(shop="a", level=9000.0)]).reset_index()
    model = Forecaster(
        "elman", horizon=3, units=3, calendar=True, quantiles=[0.1, 0.5, 0.9]
    )
    columns = {"value": "sales", "date": "month", "group": "shop"}
    fitted(model, both, **columns)
    found = model.forecast(5)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    pd.testing.assert_frame_equal(loaded.forecast(5), found)
    assert list(found) == ["shop", "month", "sales", "sales_0.1", "sales_0.9"]
    assert found["shop"].tolist() == ["a"] * 5 + ["b"] * 5
    assert found.sales[:5].mean() > 8900 > 200 > found.sales[5:].mean() > 50
    assert (found["sales_0.1"] <= found.sales).all()
    assert (found.sales <= found["sales_0.9"]).all()
    again = loaded.forecast(both, 5)  # the same table, given
    pd.testing.assert_frame_equal(again, found)
    assert loaded.get_config() == model.get_config()


def days_of(name, first, count):
    """Rows of a shop in months, counted from the first date."""
    dates = [pd.Timestamp(first) + pd.DateOffset(months=n) for n in range(count)]
    sales = 50 + 10 * np.sin(np.arange(count)) + rng.normal(size=count)
    price = rng.normal(5, 1, count)
    return pd.DataFrame({"shop": name, "day": dates, "sales": sales, "price": price})


def test_each_series_goes_on_at_its_own_day(tmp_path):
    parts = {"a": "2020-01-01", "b": "2019-06-15T06", "c": "2020-05-30"}
    full = [days_of(name, first, 17) for name, first in parts.items()]
    table = pd.concat([part[:12] for part in full]).sort_values("day")
    future = pd.concat([part[12:] for part in full]).sort_values("day")
    model = small(known=["price"])
    fitted(model, table, value="sales", date="day", group="shop", length=5)
    model.save(tmp_path / "model.keras")
    expected = pd.concat(part[12:] for part in full).reset_index(drop=True)
    for each in (model, kerasseq.load_model(tmp_path / "model.keras")):
        for written in (future, future.assign(day=future.day.astype(str))):
            found = each.forecast(5, known=written)
            assert found.day.tolist() == expected.day.tolist()
            assert found["shop"].tolist() == expected["shop"].tolist()
    # The day of a series is kept, though another could be read from few rows.
    february = days_of("c", "2021-02-28", 1).assign(sales=1.0)
    model.set_history(pd.concat([table, days_of("d", "2021-02-28", 7)]))
    for name, day in (("c", 30), ("d", 28), ("a", 1)):
        rows = february.assign(shop=name)
        assert model._fitted.frequency_of(name).day == day
        assert model._read(rows, Columns(), None).series[0].frequency.day in (day, 31)
    model.set_history(table)
    with pytest.raises(ValueError, match="from 2021-01-01 on"):
        model.forecast(5, known=future[future["shop"] != "a"])
    with pytest.raises(
        ValueError, match="known: each date must occur once, but at row"
    ):
        model.forecast(5, known=pd.concat([future, future[:1]]))
    holes = future.assign(price=np.where(future["shop"] == "b", np.nan, 1.0))
    with pytest.raises(ValueError, match="known: the column 'price' is empty at row"):
        model.forecast(5, known=holes)


def dated(freq, rows=23, first="2020-01-01"):
    values = np.random.default_rng(0).normal(size=rows)
    return pd.Series(values, pd.date_range(first, periods=rows, freq=freq))


@pytest.mark.parametrize(
    ("freq", "other", "message"),
    [
        ("MS", "D", "fitted to dates every month, but those of the series are every d"),
        ("MS", "QS", "are every 3 months. Make another model"),
        ("D", "B", "are every business day"),
        ("h", "30min", "fitted to dates every hour, but.*are every 30 minutes"),
        ("500ms", "s", "fitted to dates every 0.5 seconds, but.*are every second"),
        ("D", None, "fitted to dates every day, but the table has none"),
    ],
)
@pytest.mark.parametrize("missing", ["error", "forward"])
def test_another_distance_of_dates_is_an_error(freq, other, message, missing):
    model, _ = fitted(small(), dated(freq), missing=missing, length=7)
    wrong = dated(freq).reset_index(drop=True) if other is None else dated(other)
    if missing == "forward" and (freq, other) == ("D", "B"):
        # Weekends are dates that are missing.
        assert len(model.read(wrong).series[0].values) == 31
        return
    for use in (model.set_history, model.forecast, model.prepare):
        with pytest.raises(ValueError, match=message):
            use(wrong)
    with pytest.raises(ValueError, match=message):
        model.backtest(wrong, origins=1, refit="never")
    later = dated(freq, 19, "2031-05-01")
    after = pd.date_range(later.index[-1], periods=4, freq=freq)[1:]
    assert model.forecast(later, 3).index.tolist() == after.tolist()
    assert model.forecast(later.to_numpy(), 3).shape == (3,)


def test_a_short_table_is_read_as_the_one_before():
    model, _ = fitted(small(), dated("B"), length=3)
    found = model.forecast(dated("B", 5, "2024-01-01"), 2)  # Monday to Friday
    assert found.index.strftime("%m-%d").tolist() == ["01-08", "01-09"]
    months = [f"01/{n:02d}/2021" for n in range(1, 13)]  # could be days of January
    year = pd.DataFrame({"day": months, "sales": np.sin(np.arange(12.0))})
    model, _ = fitted(small(), days_of(0, "2019-01-01", 24)[["day", "sales"]], length=3)
    found = model.forecast(year, 2)
    assert found.day.astype(str).tolist() == ["2022-01-01", "2022-02-01"]
    values = FRAME.sales.to_numpy()
    model, _ = fitted(small(), values)  # a model without dates continues those of any
    found = model.forecast(FRAME.sales, 2)
    assert found.index.strftime("%Y-%m").tolist() == ["2023-06", "2023-07"]


def test_files_of_earlier_versions_keep_the_dates_of_each_series():
    table = pd.concat([
        days_of("a", "2020-01-15T06", 12), days_of("b", "2020-01-31", 12)
    ])  # fmt: skip
    model = small()
    fitted(model, table, value="sales", date="day", group="shop", length=5)
    plain = model.get_config()
    history = [
        {k: v for k, v in one.items() if k != "frequency"}
        for one in plain["fitted"]["history"]
    ]
    offset = 14 * 86_400 + 6 * 3600
    before = {"frequency": ["month", 1, offset], "history": history}
    loaded = Forecaster.from_config({**plain, "fitted": {**plain["fitted"], **before}})
    loaded.set_weights(model.get_weights())
    pd.testing.assert_frame_equal(loaded.forecast(3), model.forecast(3))
    old = {
        ("month end", 3, 0): ("month", 3, 31), ("month", 1, offset): ("month", 1, 15),
        ("second", 60, 0): ("microsecond", 60 * 10**6, 0),
        ("business day", 1, 0): ("business day", 1, 0),
    }  # fmt: skip
    assert all(as_frequency(list(k)) == v for k, v in old.items())


def test_a_constant_series_stops_no_other():
    both = pd.concat([
        days_of("a", "2020-01-01", 30).assign(sales=0.1), days_of("b", "2020-01-01", 30)
    ])  # fmt: skip
    columns = {"value": "sales", "date": "day", "group": "shop"}
    model = small(quantiles=[0.1, 0.5, 0.9])
    x, _ = model.prepare(both, **columns, length=7)
    assert len(x) == 30 - 7 - 3 + 1  # of the other series
    found = model.forecast(4).set_index("shop")
    assert (found.loc["a", ["sales", "sales_0.1", "sales_0.9"]] == 0.1).all(axis=None)
    assert found.loc["b"].sales.between(20, 80).all()
    assert model._fitted.plain() == Fitted.of_plain(model._fitted.plain()).plain()
    scores = small().backtest(both, **columns, origins=2, epochs=1, verbose=0)
    assert scores.notna().all(axis=None) and "AR" in scores.index
    # Its scale is set when it changes.
    model.set_history(both.assign(sales=both.sales + 7 * (both.day > "2022-02-01")))
    assert model.forecast(4).set_index("shop").loc["a"].sales.nunique() == 4
    alone = small()
    with pytest.raises(ValueError, match="series 'a' is constant, as are the 1 others"):
        alone.fit(both.assign(sales=3.0), **columns)
    assert alone._fitted is None


def test_arrays_and_series_without_dates():
    values = FRAME.sales.to_numpy()
    model, _ = fitted(small(), values, season=12)
    found = model.forecast(5)
    assert isinstance(found, np.ndarray) and found.shape == (5,)
    np.testing.assert_allclose(model.forecast(values, 5), found, rtol=1e-6)
    keras.utils.set_random_seed(0)
    model, _ = fitted(small(), pd.Series(values))
    found = model.forecast(2)
    assert found.index.tolist() == [41, 42] and list(found) == ["value"]
    assert model.forecast(pd.Series(values, name="other"), 2).equals(found)


def test_backtest_trains_a_copy_before_the_first_origin(monkeypatch):
    seen = []
    before = Forecaster.fit

    def fit(self, x=None, y=None, **kwargs):
        seen.append([len(one.values) for one in x.series])
        return before(self, x, y, **kwargs)

    model = small()
    monkeypatch.setattr(Forecaster, "fit", fit)
    options = {"value": "sales", "origins": 4, "epochs": 1, "verbose": 0}
    found = model.backtest(FRAME, stride=2, length=7, **options)
    assert seen == [[41 - 3 - 6]] and model._fitted is None
    assert found.index[:3].tolist() == ["elman", "naive", "seasonal naive"]
    assert list(found) == ["MAE", "RMSE", "MASE"]
    y = FRAME.sales.to_numpy()
    errors = [np.abs(y[o : o + 3] - y[o - 1]) for o in (32, 34, 36, 38)]
    scale = np.mean(np.abs(y[12:32] - y[:20]))
    assert found.MAE["naive"] == pytest.approx(np.mean(errors))
    assert found.MASE["naive"] == pytest.approx(np.mean(errors) / scale)
    model.backtest(FRAME, refit="always", **options)
    assert seen[1:] == [[29], [32], [35], [38]]


def test_a_backtest_without_training_must_not_have_seen_the_values():
    model, _ = fitted(small(), FRAME[:-6], value="sales")
    found = model.backtest(FRAME, origins=2, refit="never")
    assert found.notna().all(axis=None)
    with pytest.raises(ValueError, match="received one trained on 35"):
        model.backtest(FRAME, origins=3, refit="never")
    with pytest.raises(ValueError, match="Choose fewer origins"):
        model.backtest(FRAME, origins=30)


def test_quantile_loss_is_least_at_the_quantile():
    y = rng.normal(size=(401, 1)).astype("float32")
    loss, grid = QuantileLoss([0.2, 0.5]), np.linspace(-2, 2, 81)
    for n, q in enumerate(loss.quantiles):
        found = []
        for c in grid:
            forecast = np.zeros((401, 1, 2), "float32")
            forecast[..., n] = c
            found.append(float(loss(y, forecast)))
        assert grid[np.argmin(found)] == pytest.approx(np.quantile(y, q), abs=0.06)


def test_a_known_effect_and_a_season_are_learned():
    keras.utils.set_random_seed(0)
    # Its own numbers: with those of few draws the holidays imitate a season.
    frame = table(90, rng=np.random.default_rng(0))
    frame["sales"] += 20 * frame.holiday
    model = Forecaster("gru", horizon=3, units=7, known=["holiday"])
    model.compile(keras.optimizers.Adam(0.01))
    found = model.backtest(frame, value="sales", origins=4, verbose=0, epochs=60)
    assert found.MASE["gru"] < 0.7 * found.MASE["seasonal naive"]


def test_the_plot_has_the_forecast_and_its_dates():
    pytest.importorskip("matplotlib")
    model, _ = fitted(small(quantiles=[0.1, 0.5, 0.9]), FRAME.sales, length=7)
    axes = model.plot(5).axes[0]
    values, forecast = axes.lines
    np.testing.assert_allclose(values.get_ydata(), FRAME.sales[-10:])
    np.testing.assert_allclose(forecast.get_ydata()[1:], model.forecast(5).sales)
    assert axes.get_title(loc="left") == "sales" and len(axes.collections) == 1


@pytest.mark.parametrize(
    ("make", "data", "options", "message"),
    [
        ({}, FRAME[:4], {}, "horizon of 3 needs at least 5 values"),
        ({}, FRAME, {"length": 39}, "too few for windows of length 39"),
        ({}, FRAME.assign(sales=5.0), {}, "constant, 5 at every step.*MASE is undef"),
        ({"calendar": True}, FRAME.reset_index(drop=True), {}, "needs dates"),
        ({"features": 2}, FRAME, {}, "features=2, but a table gives 1"),
        ({"known": ["prize"]}, FRAME, {}, "no column 'prize'. Did you mean \"price\""),
    ],
)
def test_mistakes_in_tables(make, data, options, message):
    model = small(**make)
    with pytest.raises(ValueError, match=message):
        model.fit(data, value="sales", verbose=0, **options)
    assert model._fitted is None


@pytest.mark.parametrize("huge", [1e308, 3e38, 1e20])
def test_values_too_large_for_the_scale_are_named(huge):
    model, _ = fitted(small(), FRAME, value="sales")
    forecast = model.forecast(3)["sales"]
    frame = FRAME.assign(sales=[*FRAME["sales"][:-1], huge])
    message = "column 'sales' must have (values like those|numbers of at most)"
    for call in (model.forecast, model.fit, model.evaluate):
        with pytest.raises(ValueError, match=message):
            call(frame)
    np.testing.assert_array_equal(model.forecast(3)["sales"], forecast)


def test_messages():
    with pytest.raises(TypeError, match=r'Forecaster\("gru", known=\[\'price\'\]\)'):
        small().fit(FRAME, known=["price"])
    with pytest.raises(ValueError, match="must contain 0.5"):
        small(quantiles=[0.1, 0.9])
    with pytest.raises(ValueError, match='Did you mean "month"'):
        small(calendar=["months"])
    with pytest.raises(ValueError, match="features must be 2"):
        small(known=["price"], features=5)
    with pytest.raises(ValueError, match="fitted to a table"):
        small().forecast(12)
    model, _ = fitted(small(past=["holiday"]), FRAME, value="sales")
    with pytest.raises(ValueError, match="not known beyond the horizon 3"):
        model.forecast(4)
    with pytest.raises(ValueError, match="fitted with value='sales'"):
        model.fit(FRAME, value="price")
    windows = small()
    windows.fit(np.ones((2, 5, 1)), np.full((2, 3), 7.0), verbose=0)
    with pytest.raises(ValueError, match="has been fitted to arrays"):
        windows.fit(FRAME, value="sales")

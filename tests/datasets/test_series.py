import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerasseq.datasets import calendar_features, season_features, series, windows


@pytest.mark.parametrize("coefficients", [(0.6, -0.3), (1.5, -0.9), (-0.7,)])
def test_least_squares_finds_the_coefficients_again(coefficients):
    x = series("ar", length=10_000, coefficients=coefficients, seed=1).values
    p = len(coefficients)
    past, y = windows(x, p)
    found, *_ = np.linalg.lstsq(past[:, ::-1, 0], y[:, 0])  # the latest step first
    np.testing.assert_allclose(found, coefficients, atol=0.02)


def test_generated_series_starts_in_its_steady_state():
    # The variance of AR(1) is noise² / (1 - a²); without a burn-in the first is noise².
    first = [
        series("ar", length=1, coefficients=[0.9], noise=2.0, seed=s).values[0]
        for s in range(400)
    ]
    assert 0.75 < np.var(first) / (4 / (1 - 0.81)) < 1.25


def test_generated_series():
    one = series("ar", seed=3)
    assert one.values.shape == (1000,)
    assert one.values.dtype == np.float32
    assert one.dates is None
    assert one.name == "ar"
    np.testing.assert_array_equal(one.values, series("ar", seed=3).values)
    assert (one.values != series("ar", seed=4).values).any()
    assert not series("ar", noise=0, length=7).values.any()
    assert np.isfinite(series("ar", coefficients=[0.0], length=7).values).all()


def test_sunspots():
    pytest.importorskip("statsmodels")
    data = series("sunspots")
    assert data.values.shape == data.dates.shape == (309,)
    assert str(data.dates[0]) == "1700-01-01"
    assert str(data.dates[-1]) == "2008-01-01"
    np.testing.assert_allclose(data.values[[0, -1]], [5.0, 2.9], rtol=1e-6)
    assert "public domain" in data.source
    assert series("sunspots", length=11).values.shape == (11,)
    with pytest.raises(ValueError, match="310.*309 values only"):
        series("sunspots", length=310)


def test_co2():
    pytest.importorskip("statsmodels")
    data = series("co2")
    assert data.values.shape == (2284,)
    assert data.values.dtype == np.float32
    assert np.isfinite(data.values).all()
    assert set(np.diff(data.dates).astype(int)) == {7}
    at = {str(d): v for d, v in zip(data.dates, data.values, strict=True)}
    assert at["1958-05-03"] == np.float32(316.9)
    # 10 May is missing: half way between 3 May and 17 May.
    assert at["1958-05-10"] == np.float32((316.9 + 317.5) / 2)


def test_without_statsmodels_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    monkeypatch.setitem(sys.modules, "statsmodels.datasets", None)
    with pytest.raises(ImportError, match="pip install statsmodels"):
        series("co2")


def test_market_is_a_random_walk():
    market = series("market", length=20_000, noise=2.0, seed=1)
    steps = np.diff(np.log(market.values.astype("float64")))
    np.testing.assert_allclose(steps.std(), 0.02, rtol=0.03)
    # Neighboring steps are not correlated: 4 standard errors of 20,000.
    assert abs(np.corrcoef(steps[1:], steps[:-1])[0, 1]) < 4 / np.sqrt(20_000)
    assert market.dates is None and market.values.min() > 0
    assert (series("market", length=5, noise=0).values == 100).all()
    for name in ("market", "weather"):
        one, same, other = (series(name, seed=seed).values for seed in (1, 1, 2))
        assert (one == same).all() and (one != other).any() and len(one) == 1000
    with pytest.raises(ValueError, match="received 100000.0: the price exceeds"):
        series("market", noise=1e5, seed=0)
    with pytest.raises(ValueError, match="must be zero or a positive number"):
        series("market", noise=-1)


def test_weather_has_a_year_and_deviations_that_fade():
    quiet = series("weather", length=104, noise=0).values
    np.testing.assert_allclose(quiet[:52], quiet[52:], atol=1e-5)
    assert (quiet[0], quiet[26]) == pytest.approx((2, 20))
    seasons = np.resize(quiet[:52], 20_000)
    apart = series("weather", length=20_000, seed=1).values - seasons
    assert np.corrcoef(apart[1:], apart[:-1])[0, 1] == pytest.approx(0.7, abs=0.03)


def test_wrong_series():
    with pytest.raises(ValueError, match='Did you mean "sunspots"'):
        series("sunspot")
    with pytest.raises(ValueError, match="sizes 1.100, .*below 1"):
        series("ar", coefficients=[1.1])
    with pytest.raises(ValueError, match="sizes 1.049, 1.049"):  # √1.1, complex roots
        series("ar", coefficients=[1.5, -1.1])
    with pytest.raises(ValueError, match="1.000"):
        series("ar", coefficients=[1.0])
    for bad in ([], 0.5, [np.nan], [[0.5]]):
        with pytest.raises(ValueError, match="`coefficients`"):
            series("ar", coefficients=bad)
    with pytest.raises(ValueError, match="`noise`"):
        series("ar", noise=-1)
    with pytest.raises(ValueError, match="^length"):
        series("ar", length=0)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(*[st.integers(1, 7)] * 4, st.integers(0, 29), st.data())
def test_windows_follow_their_definition(length, horizon, stride, features, more, data):
    time = length + horizon + more
    table = np.arange(time * features).reshape(time, features)
    target = data.draw(st.integers(-features, features - 1))
    x, y = windows(table, length, horizon, stride=stride, target=target)
    starts = [s for s in range(0, time, stride) if s + length + horizon <= time]
    assert x.shape == (len(starts), length, features)
    assert y.shape == (len(starts), horizon)
    assert x.dtype == y.dtype == np.float32
    for row, answer, s in zip(x, y, starts, strict=True):
        np.testing.assert_array_equal(row, table[s : s + length])
        expected = table[s + length : s + length + horizon, target]
        np.testing.assert_array_equal(answer, expected)


def test_windows_of_one_feature():
    x, y = windows(range(11), 5, 2)
    assert x.shape == (5, 5, 1)
    assert y[0].tolist() == [5, 6]
    x[0] = -1  # a copy: neighbors share no memory
    assert x[1, 0, 0] == 1
    assert windows([1, 2, 3], 2)[1].tolist() == [[3]]


def test_wrong_windows():
    with pytest.raises(ValueError, match="has 3 steps, fewer than .* = 4"):
        windows([1, 2, 3], 3)
    with pytest.raises(ValueError, match="has 0 steps"):
        windows([], 3)
    with pytest.raises(ValueError, match="missing or infinite at step 1"):
        windows([1, np.nan, 3], 1)
    with pytest.raises(ValueError, match="`values` must have the shape"):
        windows(np.zeros((5, 3, 2)), 1)
    with pytest.raises(ValueError, match="`target` is 2"):
        windows(np.zeros((5, 2)), 1, target=2)
    for argument in ("length", "horizon", "stride"):
        with pytest.raises(ValueError, match=f"^{argument}"):
            windows([1, 2, 3], **{"length": 1, argument: 0})


def test_calendar_features():
    dates = np.array(["2000-01-01", "2015-10-02", "1958-12-31"], "datetime64[D]")
    expected = [[0, 0, 0], [1 / 30, 9 / 11, 0.15], [1, 1, -0.42]]
    np.testing.assert_allclose(calendar_features(dates), expected, atol=1e-7)
    assert calendar_features(dates).dtype == np.float32
    np.testing.assert_array_equal(
        calendar_features(dates.astype("datetime64[ns]")), calendar_features(dates)
    )
    for bad in (np.array(["NaT"], "datetime64[D]"), "2000-01-01"):
        with pytest.raises(ValueError, match="`dates`"):
            calendar_features(bad)


def test_rows_of_the_course():
    dates = np.array(["2015-10-02", "2015-10-03", "2015-10-04"], "datetime64[D]")
    values = np.array([1500, 1205, 1820])
    table = np.column_stack([calendar_features(dates), values])
    x, y = windows(table, 2, target=-1)
    assert x.shape == (1, 2, 4)
    assert x[0, :, 3].tolist() == [1500, 1205]
    assert y.tolist() == [[1820]]


def test_season_features_are_continuous_over_the_end_of_the_year():
    days = np.arange("1958-01-01", "2002-01-01", dtype="datetime64[D]")
    columns = season_features(days)
    assert columns.shape == (len(days), 2)
    assert columns.dtype == np.float32
    np.testing.assert_allclose((columns**2).sum(axis=1), 1, rtol=1e-6)
    steps = np.linalg.norm(np.diff(columns.astype("float64"), axis=0), axis=1)
    np.testing.assert_allclose(steps, 2 * np.pi / 365.25, rtol=4e-3)
    first = [str(day)[5:] == "01-01" for day in days]
    np.testing.assert_allclose(columns[first], [[0, 1]] * 44, atol=1e-6)
    with pytest.raises(ValueError, match="`dates` must be dates, received 'x'"):
        season_features("x")


def test_a_linear_model_learns_the_season_from_season_features():
    pytest.importorskip("statsmodels")
    data = series("co2")
    errors = {}
    for function in (calendar_features, season_features):
        rows = np.column_stack([function(data.dates), data.values - 350])
        x, y = windows(rows, length=7, horizon=23, target=-1)
        x = np.pad(x.reshape(len(x), -1), ((0, 0), (0, 1)), constant_values=1)
        weights, *_ = np.linalg.lstsq(x[:1801], y[:1801], rcond=None)
        errors[function] = np.sqrt(np.mean((x[1831:] @ weights - y[1831:]) ** 2))
    assert errors[season_features] < 0.6 * errors[calendar_features]

"""Scores of forecasts, beside their definitions and statsmodels."""

import numpy as np
import pytest

from kerasseq.series import forecast_scores

pytestmark = pytest.mark.once("NumPy")

rng = np.random.default_rng(0)
Y = np.cumsum(rng.normal(size=97)) + 20


@pytest.mark.parametrize("season", [1, 7])
def test_mase_is_its_definition(season):
    training, actual = Y[:83], Y[83:]
    forecast = actual + rng.normal(size=14)
    errors = [abs(training[t] - training[t - season]) for t in range(season, 83)]
    expected = np.mean(np.abs(actual - forecast)) / np.mean(errors)
    found = forecast_scores.mase(actual, forecast, training, season)
    assert found == pytest.approx(expected, rel=1e-12)
    # The seasonal naive forecast of the training part itself has 1.
    later, before = training[season:], training[:-season]
    naive = forecast_scores.mase(later, before, training, season)
    assert naive == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    ("training", "season"),
    [(np.full(23, 0.1), 1), (np.sin(np.arange(60) * np.pi / 6), 12), (Y[:7], 7)],
)
def test_mase_is_undefined(training, season):
    with pytest.raises(ValueError, match="MASE is undefined"):
        forecast_scores.mase([1.0], [2.0], training, season)


def test_scores_of_several_series_and_origins():
    values = [Y, 10 * Y[:91] + 3]
    ends, training = [[80, 70], [83, 73]], [80, 70]
    forecasts = rng.normal(size=(2, 2, 5)) + 30
    found = forecast_scores.compare("mine", forecasts, values, ends, training, 7)
    rows = {"MAE": [], "RMSE": [], "MASE": []}
    for n, y in enumerate(values):
        errors = [y[e[n] : e[n] + 5] - forecasts[n, o] for o, e in enumerate(ends)]
        mae, part = np.mean(np.abs(errors)), y[: training[n]]
        rows["MAE"].append(mae)
        rows["RMSE"].append(np.sqrt(np.mean(np.square(errors))))
        rows["MASE"].append(mae / np.mean(np.abs(part[7:] - part[:-7])))
    scores = found.scores()
    assert list(scores) == ["mine", "naive", "seasonal naive", "AR"]
    assert scores["mine"]["MAE"] == pytest.approx(np.mean(rows["MAE"]))
    assert scores["mine"]["MASE"] == pytest.approx(np.mean(rows["MASE"]))
    rmse = np.sqrt(np.mean(np.square(rows["RMSE"])))
    assert scores["mine"]["RMSE"] == pytest.approx(rmse)
    naive = np.array([[np.full(5, y[e[n] - 1]) for e in ends]
                      for n, y in enumerate(values)])  # fmt: skip
    np.testing.assert_array_equal(found.forecasts["naive"], naive)
    season = values[1][73 - 7 : 73 - 2]
    np.testing.assert_array_equal(found.forecasts["seasonal naive"][1, 1], season)


def test_autoregression_is_that_of_statsmodels():
    from statsmodels.tsa.ar_model import AutoReg

    season = 7
    model = forecast_scores.fit_autoregression(Y, season)
    theirs = AutoReg(Y, model.order).fit().forecast(5)
    found = forecast_scores.peers(Y, season)[f"AR({model.order})"](Y, 5)
    np.testing.assert_allclose(found, theirs, rtol=1e-6)
    assert forecast_scores.fit_autoregression(np.ones(50)) is None
    sine = np.sin(np.arange(60) * np.pi / 6)  # which AR(2) continues exactly
    found = forecast_scores.peers(sine[:50])["AR(2)"](sine[:50], 10)
    np.testing.assert_allclose(found, sine[50:], atol=1e-9)
    assert list(forecast_scores.peers(Y[:4], 7)) == ["naive"]


def test_errors_by_step():
    values, ends = np.arange(50.0), [[40], [41], [47]]
    last = np.array([[np.full(3, end - 1.0) for (end,) in ends]])
    found = forecast_scores.compare("mine", last, [values], ends, [40]).errors_by_step()
    for name in ("mine", "naive"):
        np.testing.assert_allclose(found[name], [1, 2, 3])

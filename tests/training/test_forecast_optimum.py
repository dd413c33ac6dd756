"""Forecasts beside the best possible ones: the paired difference of their errors."""

import keras
import numpy as np
import pytest

from kerasseq import datasets, models, training
from kerasseq.tracing import plots

pytestmark = pytest.mark.once("one forward pass, and NumPy")
DATA = datasets.series("ar", length=3000, seed=5)
PROCESS = DATA.process
X, Y = datasets.windows(DATA.values, length=7, horizon=3)


def test_the_best_forecasts_have_no_excess():
    found = training.forecast_excess(PROCESS.forecast(X, 3), PROCESS, X, Y)
    assert found.excess == found.error == 0 and not found.leaks
    least = PROCESS.least_errors(3).mean()
    assert found.mse == found.optimum == pytest.approx(least, rel=0.1)


def test_the_excess_is_the_squared_distance_to_the_best():
    other = datasets.AutoregressiveProcess([0.4, -0.1]).forecast(X, 3)
    found = training.forecast_excess(other, PROCESS, X, Y)
    distance = np.mean((other - PROCESS.forecast(X, 3)) ** 2)
    assert abs(found.excess - distance) < 3 * found.error < distance
    assert found.mse - found.optimum == pytest.approx(found.excess)
    assert not found.leaks


def test_intervals_cover_the_truth_though_windows_overlap():
    other, below = datasets.AutoregressiveProcess([0.5, -0.3]), 0
    far, errors = [], []
    for seed in range(60):
        x, y = datasets.windows(PROCESS.sample(900, seed=seed), length=2, horizon=6)
        found = training.forecast_excess(other.forecast(x, 6), PROCESS, x, y)
        distance = np.mean((other.forecast(x, 6) - PROCESS.forecast(x, 6)) ** 2)
        far.append((found.excess - distance) / found.error)
        errors.append(found.error)
        below += found.leaks
    assert below == 0
    assert 0.7 < np.std(far) < 1.35


def test_a_leak_is_found():
    """A hundredth of what comes, which no forecast can know."""
    best = PROCESS.forecast(X, 3)
    told = training.forecast_excess(best + 0.05 * (Y - best), PROCESS, X, Y)
    assert told.leaks and told.excess < -10 * told.error


@pytest.mark.everywhere("fit and predict of each backend")
def test_fit_draws_the_optimum_and_warns_of_a_leak():
    model = models.Forecaster("gru", horizon=3, units=3)
    model.compile("adam")
    optimum = training.ForecastOptimum(PROCESS, X[2000:], Y[2000:])
    options = {"epochs": 2, "batch_size": 500, "verbose": 0}
    history = model.fit(X[:2000], Y[:2000], callbacks=[optimum], **options).history
    found = training.forecast_excess(
        model.predict(X[2000:], verbose=0), PROCESS, X[2000:], Y[2000:]
    )
    assert history["held_out_mse"][1] == pytest.approx(found.mse, rel=1e-4)
    assert history["excess_error"][1] == pytest.approx(found.error, rel=1e-4)
    figure = plots.plot_history(history, metric="held_out_mse")
    assert figure.axes[0].lines[-1].get_label().startswith("optimum: 1.")
    inputs = keras.Input((3,))
    layer = keras.layers.Dense(3, kernel_initializer="identity")
    tells = keras.Model(inputs, layer(inputs))
    tells.compile("sgd", "mse")
    optimum = training.ForecastOptimum(PROCESS, X, Y, inputs=Y)
    with pytest.warns(UserWarning, match="tell what they must predict"):
        tells.fit(Y, Y, callbacks=[optimum], verbose=0)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"forecasts": Y[:, :1]}, ValueError, "must have the shape"),
        ({"forecasts": Y[..., None]}, ValueError, "pass the median"),
        ({"x": X[:5]}, ValueError, "a row for each"),
        ({"forecasts": Y[:5], "x": X[:5], "y": Y[:5]}, ValueError, "at least 6"),
        ({"forecasts": [["a"]]}, TypeError, "must be numbers"),
    ],
)
def test_wrong_forecasts_are_named(change, error, words):
    arguments = {"forecasts": Y, "process": PROCESS, "x": X, "y": Y, **change}
    with pytest.raises(error, match=words):
        training.forecast_excess(**arguments)

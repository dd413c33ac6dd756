"""Autoregressive processes: their best forecasts, and how good these are."""

import numpy as np
import pytest

from kerasseq.datasets import AutoregressiveProcess, series, windows

pytestmark = pytest.mark.once("NumPy alone")


def test_the_least_errors_are_those_of_the_best_forecasts():
    process = AutoregressiveProcess([0.6, -0.3], noise=1.5)
    x, y = windows(process.sample(60_000, seed=1), length=3, horizon=5)
    errors = np.mean((process.forecast(x, 5) - y) ** 2, axis=0)
    np.testing.assert_allclose(errors, process.least_errors(5), rtol=0.03)
    assert process.least_errors(1)[0] == process.optimum == 2.25
    # Other linear forecasts are worse, at each step.
    design = np.concatenate([x[..., 0], np.ones((len(x), 1))], axis=1)
    for step in range(5):
        weights = np.linalg.lstsq(design, y[:, step], rcond=None)[0]
        fitted = np.mean((design @ weights - y[:, step]) ** 2)
        assert fitted == pytest.approx(errors[step], rel=2e-3)


def test_far_ahead_the_least_error_is_the_variance_of_the_series():
    process = AutoregressiveProcess([0.9], noise=2.0)
    assert process.least_errors(200)[-1] == pytest.approx(4 / (1 - 0.81))
    np.testing.assert_allclose(
        process.least_errors(3), 4 * np.cumsum(0.81 ** np.r_[:3])
    )


def test_forecasts_continue_from_forecasts():
    process = AutoregressiveProcess([0.5, 0.2, 0.1])
    x = np.array([[1.0, 4.0, 2.0, 3.0], [0.0, -1.0, 1.0, 5.0]])
    first = x[:, -3:] @ [0.1, 0.2, 0.5]
    second = 0.5 * first + 0.2 * x[:, -1] + 0.1 * x[:, -2]
    np.testing.assert_allclose(process.forecast(x, 2), np.stack([first, second], 1))
    np.testing.assert_allclose(process.forecast(x[..., None], 1)[:, 0], first)


def test_a_series_knows_its_process():
    one = series("ar", coefficients=[0.9], noise=2.0, length=7, seed=3)
    assert one.optimum == one.process.optimum == 4.0
    np.testing.assert_array_equal(
        one.values, one.process.sample(7, seed=3).astype("float32")
    )
    assert one._replace(process=None).optimum is None


@pytest.mark.parametrize(
    ("x", "horizon", "error", "words"),
    [
        ([[1.0]], 1, ValueError, "at least 2 steps"),
        ([1.0, 2.0], 1, ValueError, "received the shape"),
        (np.ones((3, 5, 2)), 1, ValueError, "received the shape"),
        ([["a", "b"]], 1, TypeError, "must be numbers"),
        ([[1.0, 2.0]], 0, ValueError, "horizon"),
        ([[1.0, 2.0]], 1.5, TypeError, "horizon"),
    ],
)
def test_wrong_windows_are_named(x, horizon, error, words):
    with pytest.raises(error, match=words):
        AutoregressiveProcess([0.5, 0.2]).forecast(x, horizon)

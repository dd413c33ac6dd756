import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerasseq.datasets import series
from kerasseq.text import AutoRegression

METHODS = ["least_squares", "yule_walker"]


def known(coefficients, intercept=0.0, noise_variance=1.0, history=None):
    """A model with these numbers, not learned from anything."""
    p = len(coefficients)
    config = AutoRegression(p).get_config() | {
        "coefficients": list(coefficients),
        "intercept": intercept,
        "noise_variance": noise_variance,
        "history": [0.0] * p if history is None else list(history),
    }
    return AutoRegression.from_config(config)


@pytest.mark.parametrize("method", METHODS)
def test_ar2_is_found_on_ten_thousand_points(method):
    x = series("ar", length=10_000, coefficients=(0.6, -0.3), noise=2.0, seed=0).values
    model = AutoRegression(2, method).fit(x + 7.0)
    np.testing.assert_allclose(model.coefficients, [0.6, -0.3], atol=0.02)
    assert abs(model.intercept - 7 * (1 - 0.6 + 0.3)) < 0.2
    assert abs(model.noise_variance - 4) < 0.15
    assert model.is_stationary


@pytest.mark.parametrize("intercept", [True, False])
def test_least_squares_solves_the_normal_equations(intercept):
    x, p = np.random.default_rng(0).normal(3, 2, 41).cumsum(), 3
    model = AutoRegression(p, fit_intercept=intercept).fit(x)
    rows = [
        [x[t - i] for i in range(1, p + 1)] + [1.0] * intercept for t in range(p, 41)
    ]
    table = np.array(rows)
    weights = np.linalg.solve(table.T @ table, table.T @ x[p:])
    np.testing.assert_allclose(model.coefficients, weights[:p], rtol=1e-6)
    c = weights[p] if intercept else 0
    assert math.isclose(model.intercept, c, rel_tol=1e-6, abs_tol=1e-12)
    errors = x[p:] - table @ weights
    np.testing.assert_allclose(model.residuals(x), errors, atol=1e-8)
    freedom = 41 - p - p - intercept
    assert math.isclose(model.noise_variance, errors @ errors / freedom, rel_tol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_yule_walker_solves_its_equations(intercept):
    x, p = np.random.default_rng(0).normal(3, 2, 41), 5
    model = AutoRegression(p, "yule_walker", fit_intercept=intercept).fit(x)
    mean = sum(x) / 41 if intercept else 0
    r = [
        sum((x[t] - mean) * (x[t + k] - mean) for t in range(41 - k)) / 41
        for k in range(p + 1)
    ]
    R = [[r[abs(i - j)] for j in range(p)] for i in range(p)]
    phi = np.linalg.solve(R, r[1:])
    np.testing.assert_allclose(model.coefficients, phi, rtol=1e-9)
    assert math.isclose(model.noise_variance, r[0] - phi @ r[1:], rel_tol=1e-9)
    assert math.isclose(model.intercept, mean * (1 - sum(phi)), abs_tol=1e-12)


@given(
    st.lists(st.integers(-9, 9), min_size=6, max_size=30).filter(
        lambda x: len(set(x)) > 1
    ),
    st.integers(1, 5),
)
def test_yule_walker_is_always_stationary(x, order):
    model = AutoRegression(order, "yule_walker").fit(x)
    assert model.is_stationary
    assert model.coefficients.shape == model.roots.shape == (order,)
    assert model.noise_variance > 0
    # Far ahead, the mean of the series is all that is left.
    assert abs(model.roots).max() < 1
    if abs(model.roots).max() < 0.95:
        assert math.isclose(model.forecast(1009).mean[-1], np.mean(x), abs_tol=1e-6)


def test_growth_is_found_by_least_squares_alone():
    x = 1.5 ** np.arange(23)
    grown = AutoRegression(1, fit_intercept=False).fit(x)
    assert not grown.is_stationary
    np.testing.assert_allclose(grown.coefficients, [1.5])
    np.testing.assert_allclose(grown.forecast(5).mean, 1.5 ** np.arange(23, 28))
    assert AutoRegression(1, "yule_walker", fit_intercept=False).fit(x).is_stationary
    for use in (grown.forecast, grown.sample):
        with pytest.raises(ValueError, match="Step 17.. is too large.*yule_walker"):
            use(2003)


def test_roots_in_closed_form():
    model = known([0.6, -0.3])
    expected = [(0.6 + s * np.sqrt(0.36 - 1.2 + 0j)) / 2 for s in (1, -1)]
    np.testing.assert_allclose(np.sort(model.roots), np.sort(expected))
    np.testing.assert_allclose(np.sort(known([0.5, 0.0]).roots), [0, 0.5])
    assert not known([0.5, 0.5]).is_stationary  # a root of exactly 1
    assert not known([0.0, -1.1]).is_stationary


def test_forecast_of_ar1_in_closed_form():
    phi, mu, variance, last = 0.8, 5.0, 4.0, 11.0
    model = known([phi], mu * (1 - phi), variance, [last])
    h = np.arange(1, 8)
    found = model.forecast(7, level=0.9)
    np.testing.assert_allclose(found.mean, mu + phi**h * (last - mu))
    deviation = np.sqrt(variance * (1 - phi ** (2 * h)) / (1 - phi**2))
    np.testing.assert_allclose(found.upper - found.mean, 1.6448536 * deviation)
    np.testing.assert_allclose(found.mean - found.lower, 1.6448536 * deviation)


def test_forecast_of_ar3_by_hand():
    phi, c, past = [0.5, -0.2, 0.1], 1.0, [3.0, 5.0, 7.0]
    found = known(phi, c, 1.0, past).forecast(3)
    one = 1 + 0.5 * 7 - 0.2 * 5 + 0.1 * 3
    two = 1 + 0.5 * one - 0.2 * 7 + 0.1 * 5
    three = 1 + 0.5 * two - 0.2 * one + 0.1 * 7
    np.testing.assert_allclose(found.mean, [one, two, three])
    psi = [1, 0.5, 0.5 * 0.5 - 0.2]
    deviation = np.sqrt(np.cumsum(np.square(psi)))
    np.testing.assert_allclose(found.upper, found.mean + 1.9599640 * deviation)


def test_intervals_hold_what_they_promise():
    rng = np.random.default_rng(0)
    phi, steps, gap = (0.6, -0.3), 5, 11
    model = AutoRegression(2).fit(series("ar", length=5003, seed=1).values)
    x = series("ar", length=22_013, coefficients=phi, seed=2).values.astype("float64")
    inside = []
    for t in range(2, len(x) - steps, gap):
        _, lower, upper = model.forecast(steps, history=x[t - 2 : t])
        inside.append((lower < x[t : t + steps]) & (x[t : t + steps] < upper))
    share = np.mean(inside, axis=0)
    assert len(inside) > 1999
    np.testing.assert_allclose(share, 0.95, atol=0.015)  # each step on its own
    half = model.forecast(3, level=0.5, history=[0.3, -0.7])
    ends = np.array([
        model.sample(3, history=[0.3, -0.7], seed=rng) for _ in range(2003)
    ])  # fmt: skip
    share = ((half.lower < ends) & (ends < half.upper)).mean(axis=0)
    np.testing.assert_allclose(share, 0.5, atol=0.03)


@pytest.mark.parametrize("method", METHODS)
def test_a_forecast_goes_on_with_the_series(method):
    x = series("ar", length=97, seed=0).values
    model = AutoRegression(3, method).fit(x)
    for found, given_ in zip(model.forecast(5), model.forecast(5, history=x),
                             strict=True):  # fmt: skip
        np.testing.assert_array_equal(found, given_)
    longer = model.forecast(4, history=np.append(x, model.forecast(1).mean))
    np.testing.assert_allclose(model.forecast(5).mean[1:], longer.mean)
    expected = model.forecast(5).mean
    kept = x.astype("float64")
    model.fit(kept)
    kept[:] = 1e6  # what becomes of the array later is not the model's business
    np.testing.assert_array_equal(model.forecast(5).mean, expected)
    # One step ahead, what the forecast missed is the residual.
    missed = x[-1] - model.forecast(1, history=x[:-1]).mean[0]
    assert math.isclose(missed, model.residuals(x)[-1], abs_tol=1e-12)


def test_samples():
    model = known([0.6, -0.3], 2.0, 4.0, [50.0, 50.0])
    x = model.sample(10_007, seed=0)
    again = AutoRegression(2).fit(x[100:])
    np.testing.assert_allclose(again.coefficients, [0.6, -0.3], atol=0.03)
    assert abs(again.intercept - 2) < 0.1
    assert abs(again.noise_variance - 4) < 0.2
    assert abs(x[0] - (2 + 0.3 * 50)) < 10  # it continues from 50
    np.testing.assert_array_equal(model.sample(17, seed=7), model.sample(17, seed=7))
    assert (model.sample(17, seed=7) != model.sample(17, seed=8)).any()
    assert model.sample(0).shape == (0,)


def test_equals_statsmodels():
    ar_model = pytest.importorskip("statsmodels.tsa.ar_model")
    x = series("sunspots").values.astype("float64")
    theirs = ar_model.AutoReg(x, 3).fit()
    ours = AutoRegression(3).fit(x)
    np.testing.assert_allclose(
        [ours.intercept, *ours.coefficients], theirs.params, rtol=1e-8
    )
    np.testing.assert_allclose(ours.forecast(7).mean, theirs.forecast(7), rtol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_the_file_brings_every_bit_back(tmp_path, method):
    model = AutoRegression(3, method).fit(series("ar", length=97, seed=0).values)
    model.save(tmp_path / "a.json")
    loaded = AutoRegression.load(tmp_path / "a.json")
    assert loaded.get_config() == model.get_config()
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.forecast(7), model.forecast(7))
    fresh = AutoRegression.from_config(AutoRegression(2, method).get_config())
    assert repr(fresh) == f"<AutoRegression: order=2, {method}, not fitted>"
    with pytest.raises(ValueError, match="Call `fit"):
        fresh.save(tmp_path / "b.json")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"coefficients": [0.5]}, "`coefficients` has 1 values, but order 2"),
        ({"coefficients": [0.5, 0.1, 0.1]}, "must have 2 numbers each"),
        ({"coefficients": ["a", 0.1]}, r"coefficients\[0\]: expected a number"),
        ({"coefficients": None}, "Call `fit"),
        ({"history": [[0.5, 0.1]]}, r"history\[0\]: expected a number"),
        ({"history": [math.nan, 1]}, r"history\[0\]: expected a number, .* nan"),
        ({"intercept": math.inf}, "intercept: expected a number, .* inf"),
        ({"noise_variance": -1}, "`noise_variance` must be zero or a positive"),
        ({"noise_variance": "1"}, "noise_variance: expected a number"),
        ({"method": "burg"}, 'method="burg" is not one of'),
        ({"fit_intercept": 1}, "fit_intercept: expected true or false"),
        ({"extra": 1}, "expected the key"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, message):
    path = tmp_path / "a.json"
    known([0.5, 0.1]).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=f"a.json is damaged: .*{message}"):
        AutoRegression.load(path)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="^order must be at least 1"):
        AutoRegression(0)
    with pytest.raises(TypeError, match="^order must be a whole"):
        AutoRegression(1.5)
    with pytest.raises(ValueError, match='Did you mean "yule_walker"'):
        AutoRegression(1, "yule-walker")
    model = AutoRegression(2)
    for use in (model.forecast, model.sample, model.residuals):
        with pytest.raises(ValueError, match="Call `fit"):
            use(5)
    for x, message in (
        ([], "0 values, but least_squares of order 2 needs at least 6"),
        ([1, 2, 4, 3, 1], "5 values, .* at least 6"),
        ([[1, 2]], r"one row of numbers, received \(1, 2\)"),
        ([1, 2, math.nan, 1, 3, 2], "missing or infinite at step 2"),
        (["a"] * 6, "must be one row of numbers"),
        ([0.1] * 7, "0.1 at every step"),
    ):
        with pytest.raises(ValueError, match=f"`series`.*{message}"):
            model.fit(x)
    with pytest.raises(ValueError, match="at least 5"):
        AutoRegression(2, fit_intercept=False).fit([1, 2, 4, 3])
    with pytest.raises(ValueError, match="2 values, .* at least 3"):
        AutoRegression(2, "yule_walker").fit([1, 2])
    with pytest.raises(ValueError, match="0.0 at every step"):
        AutoRegression(1, "yule_walker", fit_intercept=False).fit([0, 0, 0])
    AutoRegression(1, "yule_walker", fit_intercept=False).fit([1, 1, 1])
    model.fit([1, 2, 4, 3, 1, 5])
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="level must lie between 0 and 1"):
            model.forecast(1, level=level)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        model.forecast(0)
    for use in (model.forecast, model.sample):
        with pytest.raises(ValueError, match="`history` has 1 values, but order 2"):
            use(3, history=[1])
    with pytest.raises(ValueError, match="`series` has 2 values"):
        model.residuals([1, 2])

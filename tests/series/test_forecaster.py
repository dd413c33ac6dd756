"""Forecasts of a series, in its own units, and fed back to reach further."""

import keras
import numpy as np
import pytest

import kerasseq
from kerasseq.models import Forecaster
from kerasseq.tasks.architectures import ARCHITECTURES
from kerasseq.tasks.transformer_stack import NEVER_CAUSAL

pytestmark = pytest.mark.full("combinations of what is tested everywhere")

CAUSAL = [name for name in ARCHITECTURES if name not in NEVER_CAUSAL]
rng = np.random.default_rng(0)


def ar_1(size, a=0.8, mean=50.0, noise=3.0):
    """A series that forgets: x_t = a x_(t-1) + noise, around a mean far from 0."""
    x = [0.0]
    for e in rng.normal(size=size - 1) * noise:
        x.append(a * x[-1] + e)
    return np.array(x) + mean


def windows(series, width, horizon=1):
    count = len(series) - width - horizon + 1
    places = np.arange(count)[:, None]
    x = series[places + np.arange(width)][..., None]
    return x, series[places + width + np.arange(horizon)]


def test_an_autoregressive_series_is_learned_to_near_its_noise():
    keras.utils.set_random_seed(0)
    x, y = windows(ar_1(1500), width=5)
    model = Forecaster("gru", units=7)
    model.compile(keras.optimizers.Adam(0.02))
    model.fit(x[:1200], y[:1200], epochs=15, verbose=0)
    mse, _ = model.evaluate(x[1200:], y[1200:], verbose=0)
    assert mse < 1.15 * np.mean((y[1200:, 0] - 10 - 0.8 * x[1200:, -1, 0]) ** 2)
    assert mse < 0.6 * np.var(y[1200:])


@pytest.mark.parametrize("horizon", [1, 3])
def test_a_forecast_is_fed_back(horizon):
    model = Forecaster("lstm", horizon=horizon, units=3)
    x, y = windows(ar_1(30), width=5, horizon=horizon)
    model.get_layer("standardize").set(x)
    model.get_layer("restore").set(y[..., None])
    history = ar_1(5)
    values = list(history)
    for _ in range(-(-7 // horizon)):
        window = np.array(values[-5:], "float32")[None, :, None]
        values += keras.ops.convert_to_numpy(model(window))[0].tolist()
    forecast = model.forecast(history, steps=7)
    np.testing.assert_allclose(forecast, values[5:12], rtol=1e-4)
    both = model.forecast(np.stack([history, history + 1])[..., None], steps=7)
    np.testing.assert_allclose(both[0], forecast, rtol=1e-4)


def test_the_first_data_set_mean_and_spread_once(tmp_path):
    model = Forecaster("elman", features=2, units=3)
    model.compile(run_eagerly=True)  # no compiling for three short fits
    x = np.stack([np.arange(8.0) * 10 + 5, np.full(8, 3.0)], axis=-1)[None]
    y = np.array([[-1.0], [1.0]])  # of mean 0
    model.fit(np.concatenate([x, x]), y, verbose=0)
    names = ("standardize", "restore")
    before = [w.numpy() for n in names for w in model.get_layer(n).weights]
    np.testing.assert_allclose(before[0], [40, 3])
    np.testing.assert_allclose(before[1], [np.std(x[..., 0]), 1])  # a constant: not 0
    np.testing.assert_allclose(before[2:], [[0], [1]])
    model.fit(x + 100, y[:1] + 100, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    loaded.compile(run_eagerly=True)
    loaded.fit(x - 100, y[:1] - 100, verbose=0)
    for m in (model, loaded):
        after = [w.numpy() for n in names for w in m.get_layer(n).weights]
        for old, new in zip(before, after, strict=True):
            np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("name", CAUSAL)
def test_every_name(name):
    model = Forecaster(name, features=2, horizon=5, units=4)
    assert model.output_shape == (None, 5)


@pytest.mark.everywhere("trained, saved, loaded")
def test_any_layer_and_a_round_trip(tmp_path):
    x = rng.normal(size=(2, 7, 1)).astype("float32")
    for layer in (keras.layers.GRU(3), keras.layers.Conv1D(3, 2)):
        model = Forecaster(layer, horizon=2)
        y = keras.ops.convert_to_numpy(model(x))
        assert y.shape == (2, 2)
        model.save(tmp_path / "model.keras")
        loaded = kerasseq.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(loaded(x)), y)


def test_messages():
    with pytest.raises(ValueError, match="horizon must be at least 1"):
        Forecaster("gru", horizon=0)
    with pytest.raises(ValueError, match='Did you mean "gru"'):
        Forecaster("grru")
    with pytest.raises(ValueError, match="steps must be at least 1"):
        Forecaster("gru", units=3).forecast(np.ones(5), steps=0)
    with pytest.raises(
        ValueError, match="needs features=1, received a model with features=2"
    ):
        Forecaster("gru", features=2, units=3).forecast(np.ones((1, 5, 2)), steps=3)

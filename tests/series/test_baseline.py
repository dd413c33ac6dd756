"""A forecaster adds to an autoregression, and says if that helps."""

import pathlib

import keras
import numpy as np
import pandas as pd
import pytest

import kerasseq
from kerasseq.models import Forecaster
from kerasseq.series import table_training
from kerasseq.series.autoregression import fit_autoregression, fit_shared, forecast_map
from kerasseq.series.forecaster_layers import MAX_LAG
from kerasseq.series.intervals import conformal_shifts, coverage
from kerasseq.series.selection import Selection, split_counts
from kerasseq.text.classical.autoregression import AutoRegression

pytestmark = pytest.mark.once("tables, and numbers of NumPy")

FILES = pathlib.Path(__file__).parent / "files"
QUANTILES = (0.1, 0.5, 0.9)


def wave(rows=83, seed=0, level=300.0):
    """Values of AR(2), far from 0."""
    y, rng = [0.0, 1.0], np.random.default_rng(seed)
    for e in rng.normal(size=rows - 2):
        y.append(1.4 * y[-1] - 0.7 * y[-2] + e)
    return np.array(y) + level


def small(horizon=5, **options):
    model = Forecaster("elman", horizon=horizon, units=3, **options)
    model.compile(run_eagerly=True)  # no compiling for short fits
    return model


@pytest.fixture
def few_steps(monkeypatch):
    monkeypatch.setattr(table_training, "STEPS", 12)
    monkeypatch.setattr(table_training, "CHECKS", 3)


@pytest.mark.everywhere("weights of the baseline, saved, loaded, of earlier files")
def test_an_untrained_model_forecasts_the_autoregression(tmp_path):
    y = wave()
    expected = fit_autoregression(y)
    model = Forecaster("elman", horizon=5, units=3, quantiles=QUANTILES)
    model.prepare(y)
    assert model.baseline == f"AR({expected.order})" and expected.order > 1
    model.save(tmp_path / "model.keras")
    for each in (model, kerasseq.load_model(tmp_path / "model.keras")):
        found = each.forecast(13)  # fed back
        np.testing.assert_allclose(found[:, 1], expected.forecast(13).mean, rtol=1e-5)
        assert (np.diff(found[:5]) > 0).all() and each.baseline == model.baseline
    before = kerasseq.load_model(FILES / "forecaster_of_season.keras")
    assert before.baseline == "seasonal naive" and before.selection is None
    np.testing.assert_allclose(
        before.forecast(3),
        [[104.7927, 104.7745, 104.8472], [99.4535, 99.4267, 99.5139],
         [94.8905, 94.8691, 94.9962]],
        rtol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_the_baseline_is_exact_in_each_precision(policy):
    before, y = keras.config.dtype_policy(), wave(level=0.0)
    try:
        keras.config.set_dtype_policy(policy)
        model = small()
        model.fit(y, epochs=1, verbose=0, batch_size=89)
        model.get_layer("output").kernel.assign(np.zeros((3, 5)))
        model.get_layer("output").bias.assign(np.zeros(5))
        expected = fit_autoregression(y).forecast(5).mean
        np.testing.assert_allclose(model.forecast(5), expected, rtol=1e-4, atol=1e-5)
    finally:
        keras.config.set_dtype_policy(before)


def test_the_map_is_the_forecast_fed_back():
    y = wave()
    for order in (1, 2, 7):
        model = AutoRegression(order).fit(y)
        coefficients, constants = forecast_map(model, 11)
        found = y[-order:] @ coefficients + constants
        np.testing.assert_allclose(found, model.forecast(11).mean, rtol=1e-12)


def test_one_autoregression_for_several_series():
    parts = [wave(41, 1, 0.0), wave(7, 2, 0.0), wave(59, 3, 0.0)]
    found = fit_shared(parts)
    p = found.order
    rows = [row[t - p : t + 1] for row in parts for t in range(p, len(row))]
    x = np.array([[*row[-2::-1], 1.0] for row in rows])
    expected = np.linalg.lstsq(x, np.array([row[-1] for row in rows]), rcond=None)[0]
    np.testing.assert_allclose(found.coefficients, expected[:-1], rtol=1e-8)
    np.testing.assert_allclose(found.intercept, expected[-1], atol=1e-8)
    assert fit_shared(parts, longest=1).order == 1
    assert fit_shared([np.ones(9), np.ones(11)]) is None
    table = pd.DataFrame({"sales": np.concatenate(parts) * 10 + 500})
    table["shop"] = np.repeat(["a", "b", "c"], [41, 7, 59])
    model = small(horizon=2)
    model.prepare(table, value="sales", group="shop", length=3)
    scaled = [(part - part.mean()) / part.std() for part in parts]
    order = fit_shared(scaled, longest=3).order
    assert model.baseline == f"AR({order})" and order <= 3
    a = model.forecast(2).query("shop == 'a'").sales
    own = fit_shared(scaled, longest=3).forecast(2, history=scaled[0]).mean
    np.testing.assert_allclose(a, (own * parts[0].std() + parts[0].mean()) * 10 + 500,
                               rtol=1e-5)  # fmt: skip


def test_a_season_that_is_too_long_for_an_autoregression_is_repeated():
    season = MAX_LAG + 3
    y = np.tile(np.random.default_rng(0).normal(size=season), 5)
    model = small()
    model.prepare(y, season=season)
    assert model.baseline == "seasonal naive" and not model._fitted.order
    np.testing.assert_allclose(model.forecast(7), y[:7], atol=1e-5)


def test_a_further_series_with_another_autoregression_is_named(few_steps, capsys):
    model, sine = small(), np.sin(np.arange(101) / 5)
    history = model.fit(sine, verbose=0).history
    assert model.baseline == "AR(2)" and history["loss"][0] < 1e-10
    options = {"epochs": 1, "verbose": 2}
    model.fit(sine, **options)
    assert "first table" not in capsys.readouterr().out
    model.fit(np.arange(61.0), **{**options, "verbose": 0})
    assert not capsys.readouterr().out
    model.fit(np.arange(61.0), **options)
    verdict = "AR(2) was fitted to the first table: AR(1) of this one would make errors"
    assert f"{verdict} 100% smaller" in capsys.readouterr().out


def test_a_network_that_does_not_help_stays_at_zero(few_steps, tmp_path):
    noise = np.random.default_rng(0).normal(size=151) + 50
    model = small(quantiles=QUANTILES)
    model.fit(noise, verbose=0)
    chosen = model.selection
    assert chosen.steps == 0 and chosen.gain < 0.03
    assert not model.get_layer("output").kernel.numpy().any()
    verdict = model.training_verdict()
    assert verdict.startswith(f"elman adds nothing to {model.baseline} here: on the va")
    expected = fit_autoregression(noise).forecast(5).mean
    found = model.forecast(5)
    np.testing.assert_allclose(found[:, 1], expected, rtol=1e-5)
    shifts = model._fitted.shifts
    assert shifts.shape == (5, 3) and (shifts[:, 1] == 0).all() and shifts.any()
    model.save(tmp_path / "model.keras")
    loaded = kerasseq.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.forecast(5), found)
    assert loaded.training_verdict() == verdict
    assert loaded.get_config() == model.get_config()
    # The intervals are the errors of the baseline on the validation part.
    values, held = (noise - noise.mean()) / noise.std(), chosen.windows
    ends = range(len(noise) - held - 4, len(noise) - 4)
    first = fit_autoregression(values[: ends[0]])
    errors = np.sort([values[e : e + 5] - first.forecast(5, history=values[:e]).mean
                      for e in ends], axis=0)  # fmt: skip
    rank = -(-(held + 1) * 9 // 10)
    for n, end in ((0, held - rank), (2, rank - 1)):
        expected = noise.std() * errors[end]
        np.testing.assert_allclose(found[:, n] - found[:, 1], expected, rtol=1e-3)


@pytest.mark.everywhere("variables set back between two trainings")
def test_a_network_that_helps_is_trained_for_as_many_steps(monkeypatch):
    """With a column that is known in advance, which autoregression ignores."""
    monkeypatch.setattr(table_training, "STEPS", 60)
    monkeypatch.setattr(table_training, "CHECKS", 6)
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    holiday = rng.integers(0, 2, 131)
    table = pd.DataFrame({"sales": rng.normal(size=131) + 7 * holiday, "day": holiday})
    model = small(horizon=3, known=["day"], quantiles=QUANTILES)
    model.compile(keras.optimizers.Adam(0.03))
    sizes, epochs = [], []
    train, draw = table_training.train_on, table_training.drawn_windows

    def counted(*arguments, **options):
        epochs.append(arguments[5])
        return train(*arguments, **options)

    def drawn(x, *arguments):
        sizes.append((len(x), arguments[2]))
        return draw(x, *arguments)

    monkeypatch.setattr(table_training, "train_on", counted)
    monkeypatch.setattr(table_training, "drawn_windows", drawn)
    history = model.fit(table, value="sales", verbose=0, length=5, batch_size=31)
    chosen = model.selection
    assert chosen.steps >= 10 and chosen.gain > 0.3
    windows = 131 - 5 - 3 + 1
    parts = [(windows - windows // 5 - 2, 10), (windows, 10)]
    assert sizes == parts and [*epochs, len(history.epoch)] == [6, chosen.steps // 10]
    assert "elman reduces the errors of AR(" in model.training_verdict()
    known = pd.DataFrame({"day": [0, 1, 0]})
    low, high, again = model.forecast(known=known).sales
    assert high - low > 4 and high - again > 4


def test_training_as_told():
    model = small()
    model.fit(wave(), epochs=1, verbose=0)
    assert model.selection is None and model.training_verdict() == ""
    assert model._fitted.shifts is None
    assert keras.ops.convert_to_numpy(model.get_layer("output").bias).any()


def test_steps_for_a_training_loop_of_ones_own(few_steps):
    model = small()
    x, y = model.prepare(wave())
    before = model.get_weights()
    chosen = model.choose_steps(wave())
    assert chosen == model.selection and chosen.windows == len(x) // 5
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    assert not model.optimizer.iterations.numpy()


@pytest.mark.parametrize("quantiles", [None, QUANTILES])
def test_eight_values(few_steps, quantiles):
    model = small(horizon=2, quantiles=quantiles)
    model.fit(wave(8), verbose=0)
    assert model.baseline == "AR(1)" and np.isfinite(model.forecast(4)).all()
    model = small(horizon=3, quantiles=quantiles)
    model.fit(wave(8), verbose=0)
    assert model.training_verdict().startswith("elman was not trained: the series is")
    assert np.isfinite(model.forecast(4)).all()
    model = small(horizon=1, quantiles=quantiles)
    model.fit([3.0, 5.0, 4.0], verbose=0)
    assert model.baseline in ("mean", "naive") and np.isfinite(model.forecast()).all()


def test_short_series_are_held_out_as_a_whole():
    assert split_counts([2] * 11, 3) == ([(2, 2)] * 4 + [(0, 0)]) * 2 + [(2, 2)]
    count, horizon = 53, 7
    ((trained, start),) = split_counts([count], horizon)
    # The last target before has no value of the first one after.
    assert trained - 1 + horizon == start and count - start == count // 5


def test_sentences():
    for gain, part in ((-0.1, "does not reduce"), (0.02, "by 2 %, less than 3 %"),
                       (0.3, "by 30 %, no more than chance does")):  # fmt: skip
        assert part in Selection(0, gain).sentence("gru", "AR(2)")


def test_shifted_intervals_hold_their_part_of_the_values():
    rng = np.random.default_rng(0)
    y, forecasts = rng.normal(size=(999, 2)) * [1, 3], np.zeros((999, 2, 3))
    shifts = conformal_shifts(y[:499], forecasts[:499], QUANTILES)
    found = coverage(y[499:], (forecasts[499:] + shifts)[..., [0, 2]])
    assert found == pytest.approx(0.8, abs=0.03)
    ranked = np.sort(y[:499], axis=0)  # 500 times 0.9 is 450, and 50 from the other end
    np.testing.assert_array_equal(shifts, np.stack(
        [ranked[49], [0, 0], ranked[449]], axis=1))  # fmt: skip
    assert conformal_shifts(y[:3], forecasts[:3], QUANTILES)[0, 2] == y[:3, 0].max()


def test_a_backtest_has_the_coverage_of_the_intervals(few_steps):
    model = small(quantiles=QUANTILES)
    found = model.backtest(wave(), origins=4, stride=3, verbose=0)
    assert list(found) == ["MAE", "RMSE", "MASE", "coverage", "nominal"]
    assert 0.3 < found.coverage["elman"] <= 1 and found.nominal["elman"] == 0.8
    assert found[["coverage", "nominal"]][1:].isna().all(axis=None)
    assert found.attrs["training"].startswith("elman adds nothing to AR(")
    assert "coverage" not in small().backtest(wave(), origins=2, verbose=0)


def test_a_baseline_of_the_season(tmp_path):
    """As in files of earlier versions: the network is added as it is."""
    y = np.sin(np.arange(47) * np.pi / 6) + 0.01 * np.arange(47)
    model = Forecaster("gru", horizon=3, units=5, baseline="season")
    history = model.fit(y, season=12, verbose=0)
    assert model.baseline == "seasonal naive" and model.training_verdict() == ""
    assert len(history.epoch) >= 3 and model.get_config()["baseline"] == "season"
    model.save(tmp_path / "m.keras")
    same = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(same.forecast(5), model.forecast(5), rtol=1e-6)
    assert not np.allclose(model.forecast(3), y[-12:-9])
    with pytest.raises(ValueError, match="choose_steps needs a network that starts"):
        Forecaster("gru", baseline="season").choose_steps(y)
    with pytest.raises(TypeError, match="choose_steps has no argument epochs"):
        Forecaster("gru").choose_steps(y, epochs=3)
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        Forecaster("gru").choose_steps(y, batch_size=0)
    with pytest.raises(ValueError, match='baseline="arima" is not one of "ar"'):
        Forecaster("gru", baseline="arima")


@pytest.mark.parametrize("baseline", ["ar", "season"])
def test_patience_stops_on_the_end_of_the_series(baseline):
    seen, y = {}, np.random.default_rng(3).normal(size=61)

    class Seen(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["val_loss"] = [2.0, 1.0, 3.0, 4.0][epoch]
            seen[epoch] = self.model.get_weights()

    model = Forecaster("gru", horizon=3, units=3, baseline=baseline)
    history = model.fit(y, epochs=9, patience=2, verbose=0, callbacks=[Seen()])
    assert len(history.epoch) == 4 and model.selection is None
    for best, kept in zip(seen[1], model.get_weights(), strict=True):
        np.testing.assert_array_equal(best, kept)
    windows, losses = len(model.prepare(y)[0]), []
    for weight in (1, 0):  # of the windows at the end, on which it is validated
        weights = np.where(np.arange(windows) < windows // 2, 1, weight)
        fitted = model.fit(y, patience=1, sample_weight=weights, verbose=0)
        losses += fitted.history["val_loss"]
    assert losses[0] > 0 == losses[-1]
    x, y = np.ones((17, 5, 1)), np.ones((17, 2))
    model = Forecaster("gru", horizon=2, units=3)
    assert "val_loss" in model.fit(x, y, patience=1, verbose=0).history
    with pytest.raises(ValueError, match="patience=1 needs windows for validation"):
        Forecaster("gru", horizon=3, units=3).fit(
            np.arange(5.0) ** 2, patience=1, verbose=0
        )

"""The second part of the lab Memory race: a series, its forecasts and their errors."""

import dataclasses
import hashlib
import json

import numpy as np
import pytest

from parts import forecasts, places, races
from tests.apps import pages

pytestmark = pytest.mark.once("pages are drawn on one backend")

BROWSER = "7" * 32
SIZES = {"steps": 20, "horizon": 3, "units": 5}


@pytest.fixture
def run(folder):
    """A finished run on the sunspots, in the folder of a browser."""
    import keras

    import kerasseq

    keras.utils.set_random_seed(0)
    model = kerasseq.models.Forecaster("gru", horizon=3, units=5, quantiles=(0.1, 0.5))
    model.compile("adam")
    series = kerasseq.datasets.series("sunspots")
    table = model.read(series)
    model.prepare(table.until([248]), season=11)
    model.set_history(table)
    owner = hashlib.sha256(BROWSER.encode()).hexdigest()[:16]
    path = places.runs() / owner / "race_forecast-1"
    path.mkdir(parents=True)
    model.save(path / "model.keras")
    line = {"state": "finished", "step": 20, "steps": 20, "loss": 0.5}
    (path / "progress.jsonl").write_text(json.dumps(line) + "\n")
    request = forecasts.request("gru", "GRU", "sunspots", 11, **SIZES)
    content = json.dumps(dataclasses.asdict(request))
    path.with_suffix(".json").write_text(content)
    return path


def test_forecasts_know_only_what_is_before_them(run):
    import kerasseq

    values = kerasseq.datasets.series("sunspots").values.astype("float64")
    found = forecasts.forecast(run, "sunspots", 11, 7, 0.5)
    origin = found["origin"]
    assert 248 < origin < len(values) - 7
    first = found["first"]
    np.testing.assert_allclose(found["values"], values[first : origin + 7])
    gru, naive, seasonal, ar = found["forecasts"]
    assert (gru, naive, seasonal, ar[:3]) == ("gru", "naive", "seasonal naive", "AR(")
    expected = [values[origin - 1]] * 7
    np.testing.assert_allclose(found["forecasts"]["naive"], expected)
    expected = values[origin - 11 : origin - 4]
    np.testing.assert_allclose(found["forecasts"]["seasonal naive"], expected)
    model = kerasseq.load_model(run / "model.keras")
    before = kerasseq.datasets.series("sunspots", length=origin)
    expected = model.forecast(before, 7)[:, 1]  # the median
    np.testing.assert_allclose(found["forecasts"]["gru"], expected, rtol=1e-4)
    assert found["errors"]["gru"].shape == (7,)


def test_the_page_draws_forecasts_and_errors_of_a_finished_run(run):
    page = pages.open_lab("race", browser=BROWSER, view="forecast")
    shown = " ".join(line.value for line in page.markdown)
    assert "Forecasts of held-out values" in shown and "error by step" in shown
    pages.control(page, "ahead").set_value(5)
    pages.checked(pages.control(page, "begin").set_value(1.0).run())
    # Another series has no run yet.
    other = pages.open_lab("race", browser=BROWSER, view="forecast", series="co2")
    shown = " ".join(line.value for line in other.markdown)
    assert "Forecasts of held-out values" not in shown


def test_runs_of_the_two_parts_are_apart(run):
    page = pages.open_lab("race", browser=BROWSER)
    shown = " ".join(line.value for line in page.markdown)
    assert "appear here when the first network" in shown


def test_the_command_takes_what_the_page_asks_for(folder):
    from kerasseq.cli.main import parse

    for source in ("co2", str(folder / "curve.csv")):
        request = forecasts.request("lstm", "LSTM", source, 13, **SIZES)
        parsed = parse(["train", *request.words, "--run", "x"])
        assert (parsed.season, parsed.horizon, parsed.units) == (13, 3, 5)
        assert (parsed.data or parsed.file) == source
    assert races.name_of(type("Run", (), {"request": request, "id": "a"})) == "lstm#a"


def test_a_curve_is_a_wave_a_line_and_noise():
    plain = np.array(forecasts.curve(2.0, 20, 0.0, 0.0))
    assert len(plain) == forecasts.LENGTH and abs(plain).max() == pytest.approx(2)
    np.testing.assert_allclose(plain[:-20], plain[20:], atol=1e-4)
    sloped = np.array(forecasts.curve(2.0, 20, 10.0, 0.0))
    np.testing.assert_allclose(np.diff(sloped - plain), 0.1, atol=2e-4)
    noisy = np.array(forecasts.curve(0.0, 20, 0.0, 3.0))
    assert noisy.std() == pytest.approx(3, rel=0.15)


def test_a_generated_series_has_a_line_of_the_least_errors(folder):
    import keras

    import kerasseq

    keras.utils.set_random_seed(0)
    series = kerasseq.datasets.series("ar", seed=0)
    model = kerasseq.models.Forecaster("gru", horizon=3, units=5)
    model.compile("adam")
    table = model.read(series)
    model.prepare(table.until([800]), season=6)
    model.set_history(table)
    path = folder / "ar"
    path.mkdir(parents=True)
    model.save(path / "model.keras")
    found = forecasts.forecast(path, "ar", 6, 7, 0.5)
    least = np.sqrt(series.process.least_errors(7))
    np.testing.assert_allclose(found["optimum"], least)
    assert (found["errors"]["naive"] > 1.1 * least).all()
    np.testing.assert_allclose(found["errors"]["AR(2)"], least, rtol=0.5)
    request = forecasts.request("gru", "GRU", "ar", 6, **SIZES)
    assert "--data=ar" in request.words


def test_the_page_draws_the_least_errors_of_a_generated_series(folder):
    import keras

    import kerasseq

    keras.utils.set_random_seed(0)
    owner = hashlib.sha256(BROWSER.encode()).hexdigest()[:16]
    path = places.runs() / owner / "race_forecast-1"
    path.mkdir(parents=True)
    model = kerasseq.models.Forecaster("gru", horizon=3, units=5)
    model.compile("adam")
    table = model.read(kerasseq.datasets.series("ar", seed=0))
    model.prepare(table.until([800]), season=6)
    model.set_history(table)
    model.save(path / "model.keras")
    line = {"state": "finished", "step": 20, "steps": 20, "loss": 0.5}
    (path / "progress.jsonl").write_text(json.dumps(line) + "\n")
    request = forecasts.request("gru", "GRU", "ar", 6, **SIZES)
    path.with_suffix(".json").write_text(json.dumps(dataclasses.asdict(request)))
    for language, words in (("en", "best possible"), ("fr", "le mieux possible")):
        page = pages.open_lab(
            *("race",), browser=BROWSER, view="forecast", series="ar", lang=language
        )
        specs = [figure.proto.spec for figure in page.get("vega_lite_chart")]
        assert sum(words in spec for spec in specs) == 1
        assert "process.least_errors" in page.code[0].value

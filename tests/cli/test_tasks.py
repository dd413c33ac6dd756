"""The race and the forecast."""

import json

import pytest

from kerasseq.cli import race
from tests.cli.conftest import snapshot

RACE = ["train", "parentheses", "--units", "3", "--steps", "4", "--checkpoint-every",
        "2", "--examples", "90", "--test-examples", "20", "--model",
        "elman,gru"]  # fmt: skip


@pytest.mark.parametrize("plain", [[], ["--plain"]])
def test_a_race(command, plain, tmp_path):
    done = command(*RACE, *plain, "--seeds", "0,1", "--run", "r", "--json")
    results = json.loads(done.out)
    for name in ("elman", "gru"):
        assert list(results["accuracy"][name]) == ["balanced", "training", "hard"]
        for found in results["accuracy"][name].values():
            assert len(found) == 2 and all(0 <= a <= 1 for a in found)
        assert (tmp_path / "r" / f"{name}-seed1" / "model.keras").exists()
    assert (tmp_path / "r" / "race.png").exists()
    assert "mean of 2 seeds" in done.err
    text = "1 -1 1 -1" if plain else "2 0 9 7"
    done = command("inspect", "r/gru-seed0", "--text", text, "--out", "o")
    assert "gru/update_gate" in done.out
    assert set(snapshot(tmp_path / "o")) == {"gates.png", "gradient_flow.png"}


def test_a_killed_race_trains_no_model_twice(command, refused, monkeypatch, tmp_path):
    trained = []
    build = race.build

    def counted(settings, name, seed):
        trained.append(name)
        if trained == ["elman", "gru"]:
            raise KeyboardInterrupt
        return build(settings, name, seed)

    monkeypatch.setattr(race, "build", counted)
    assert "--resume r" in command(*RACE, "--run", "r", code=130).err
    assert "several models" not in refused("generate", "r/gru-seed0")
    assert "Name one: r/elman-seed0" in refused("inspect", "r")
    done = command("train", "--resume", "r", "--json")
    assert trained == ["elman", "gru", "gru"]
    resumed = json.loads(done.out)["accuracy"]
    assert resumed == json.loads(command(*RACE, "--json").out)["accuracy"]
    (tmp_path / "r" / "results.json").unlink()
    (tmp_path / "r" / "race.json").write_text('{"elman-seed0": {}}')
    assert "race.json is damaged" in refused("train", "--resume", "r")


def test_a_string_that_is_none(command, refused):
    command(*RACE, "--run", "r", "--model", "elman", "--steps", "1")
    assert "0 to 9" in refused("inspect", "r/elman-seed0", "--text", "2 11")
    assert "in numbers" in refused("inspect", "r/elman-seed0", "--text", "(())")
    assert "no language model" in refused("generate", "r/elman-seed0")


def test_a_forecast(command, refused, tmp_path):
    words = ["train", "forecast", "--data", "ar", "--units", "3", "--steps", "5"]
    words += ["--checkpoint-every", "2", "--ahead", "3", "--sequence-length"]
    done = command(*words, 7, "--run", "r", "--json")
    results = json.loads(done.out)
    assert len(results["errors"]) == len(results["errors_of_last_value"]) == 3
    assert "last value repeated" in done.err
    assert "lstm/forget_gate" in command("inspect", "r").out
    assert "reads no text" in refused("inspect", "r", "--text", "a b")
    assert "too few" in refused(*words, 900, "--run", "s")
    assert not (tmp_path / "s").exists()


def test_the_error_of_a_forecast_is_that_of_the_values_held_out():
    import numpy as np

    from kerasseq.cli.forecast import errors_by_distance

    class LastValue:
        def forecast(self, history, steps):
            return np.repeat(history[:, -1:, 0], steps, axis=1)

    values = np.arange(50.0)
    found = errors_by_distance(LastValue(), values, cut=40, length=5, ahead=3)
    assert found["errors"] == found["errors_of_last_value"] == [1.0, 2.0, 3.0]

"""`kerasseq train parentheses` and `kerasseq train forecast`."""

import json

import pytest

from kerasseq.cli import race
from tests.cli.conftest import snapshot

pytestmark = pytest.mark.once("the command line")

RACE = ["train", "parentheses", "--units", "3", "--steps", "4", "--checkpoint-every",
        "2", "--examples", "90", "--test-examples", "20", "--model",
        "elman,gru"]  # fmt: skip


@pytest.mark.parametrize("colors", [5, 1])
def test_race(command, refused, colors, tmp_path, drawn):
    names, seeds = (("gru",), "0") if colors == 1 else (("elman",), "0,1")
    words = ["--colors", colors, "--seeds", seeds, "--model", ",".join(names)]
    done = command(*RACE, *words, "--run", "r", "--json")
    results = json.loads(done.out)
    for name in names:
        assert list(results["accuracy"][name]) == ["balanced", "training", "hard"]
        for found in results["accuracy"][name].values():
            assert len(found) == len(seeds.split(","))
            assert all(0 <= a <= 1 for a in found)
        assert (tmp_path / "r" / f"{name}-seed{seeds[-1]}" / "model.keras").exists()
    assert (tmp_path / "r" / "race.png").exists()
    assert f"mean of {len(seeds.split(','))} seed" in done.err
    text = "1 -1 1 -1" if colors == 1 else "2 0 9 7"
    done = command("inspect", f"r/{names[-1]}-seed0", "--text", text, "--out", "o")
    assert f"{names[-1]}/hidden_state" in done.out
    assert set(snapshot(tmp_path / "o")) == {"gates.png", "gradient_flow.png"}
    trained = f"r/{names[-1]}-seed0"
    assert "the symbols are" in refused("inspect", trained, "--text", "2 11")
    assert "in numbers" in refused("inspect", trained, "--text", "(())")
    assert "expected a language model" in refused("generate", trained)


def test_resumed_race_trains_no_model_twice(command, refused, monkeypatch, tmp_path):
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
    assert "Choose one: r/elman-seed0" in refused("inspect", "r")
    done = command("train", "--resume", "r", "--json")
    assert trained == ["elman", "gru", "gru"]
    assert list(json.loads(done.out)["accuracy"]) == ["elman", "gru"]
    (tmp_path / "r" / "results.json").unlink()
    (tmp_path / "r" / "race.json").write_text('{"elman-seed0": {}}')
    assert "race.json is damaged" in refused("train", "--resume", "r")


def test_forecast(command, refused, tmp_path, drawn):
    words = ["train", "forecast", "--data", "ar", "--units", "3", "--steps", "5"]
    words += ["--checkpoint-every", "2", "--horizon", "3", "--sequence-length"]
    done = command(*words, 7, "--run", "r", "--json")
    results = json.loads(done.out)
    assert len(results["errors"]) == len(results["naive_errors"]) == 3
    assert "naive: last value" in done.err
    assert "lstm/forget_gate" in command("inspect", "r").out
    assert "reads no text" in refused("inspect", "r", "--text", "a b")
    assert "too few" in refused(*words, 900, "--run", "s")
    assert not (tmp_path / "s").exists()


def test_race_with_a_transformer(command, tmp_path, drawn):
    words = ["--model", "transformer", "--run", "r", "--seeds", "0"]
    command(*RACE, *words)
    done = command("inspect", "r/transformer-seed0", "--output-dir", "o")
    assert "TransformerStack" in done.out
    assert set(snapshot(tmp_path / "o")) == {"attention.png"}


def test_forecast_with_a_transformer(command, tmp_path, drawn):
    words = ["--data", "ar", "--architecture", "transformer", "--units", "6"]
    words += ["--steps", "2", "--horizon", "3", "--run", "r"]
    command("train", "forecast", *words)
    assert {"attention.png", "loss.png"} < set(snapshot(tmp_path / "r"))

"""`kerasseq train parentheses` and `kerasseq train forecast`."""

import json
import threading
import time

import numpy as np
import pytest

import kerasseq
from kerasseq.cli import competitor, contest, forecast_scores, options, race
from kerasseq.core.progress import ProgressFile
from kerasseq.runs import read_state, request_stop
from tests.cli.conftest import snapshot

pytestmark = pytest.mark.once("the command line")

RACE = ["train", "parentheses", "--units", "3", "--steps", "4", "--checkpoint-every",
        "2", "--examples", "90", "--test-examples", "20", "--model",
        "elman,gru"]  # fmt: skip


def competitor_settings(colors):
    return options.Settings(
        colors=colors, lengths=None, kind="training", test_examples=20, flipped=0.0
    )


def test_race_with_flipped_labels(command, refused, monkeypatch, tmp_path, drawn):
    def knows(model, test):
        return np.mean(test.balanced == test.labels)

    monkeypatch.setattr(competitor, "accuracy", knows)
    words = [*RACE, "--model", "gru", "--flipped", "0.2"]
    done = command(*words, "--run", "r", "--json")
    results = json.loads(done.out)
    assert results["optimum"] == 0.8
    for found in results["accuracy"]["gru"].values():
        assert 0.5 < found[0] < 1
    assert "best possible" in done.err and "told somewhere" not in done.err
    monkeypatch.setattr(competitor, "accuracy", lambda model, test: 1.0)
    words[words.index("--test-examples") + 1] = "80"
    leaking = " ".join(command(*words, "--run", "leaking").out.split())
    assert "accuracy 1.000 on test strings (hard) is above the best possible" in leaking
    assert "0 to 0.5" in refused(*words, "--flipped", "0.6")


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
    made = [
        competitor.strings(competitor_settings(colors), "training", 90, int(s))
        for s in seeds.split(",")
    ]
    tests = competitor.evaluation_sets(competitor_settings(colors))
    text = " ".join(done.err.split())
    for kind, test in tests.items():
        known = [set(map(bytes, competitor.keys(part))) for part in made]
        count = sum(key in part for part in known for key in competitor.keys(test))
        assert results["repeated"][kind] == count
        name = f"of the {20 * len(made)} test strings ({competitor.TITLES[kind]}) are"
        assert (f"{count} {name} in the training part" in text) == (count > 0)
    assert (results["repeated"]["balanced"] > 0) == (colors == 1)
    assert (tmp_path / "r" / "race.png").exists()
    assert f"mean of {len(seeds.split(','))} seed" in done.err
    typed, numbers = ("(())", "1 1 -1 -1") if colors == 1 else ("{ ()}", "2,0,9 7")
    done = command("inspect", f"r/{names[-1]}-seed0", "--text", typed, "--out", "o")
    assert f"{names[-1]}/hidden_state" in done.out
    assert set(snapshot(tmp_path / "o")) == {"gates.png", "gradient_flow.png"}
    trained = f"r/{names[-1]}-seed0"
    for wrong in ("2 11", "(a)", "‹›"):
        for word in ("inspect", "predict"):
            assert "of brackets, ()" in refused(word, trained, "--text", wrong)
    assert "expected a language model" in refused("generate", trained)
    (tmp_path / "two.txt").write_text(f"{typed}\n\n{numbers}\n")
    words = ["predict", trained, "--file", "two.txt"]
    first, second = json.loads(command(*words, "--json").out)
    assert first["text"] == typed and second["text"] == numbers
    assert first["probabilities"] == pytest.approx(second["probabilities"])
    x = competitor.as_ids([1, 1, -1, -1] if colors == 1 else [2, 0, 9, 7], colors)[None]
    p = kerasseq.load_model(f"{trained}/model.keras").classify(x)[0].probabilities
    assert list(first["probabilities"].values()) == pytest.approx(list(p.values()))
    assert list(first["probabilities"]) == ["not balanced", "balanced"]
    best = max(first["probabilities"], key=first["probabilities"].get)
    assert first["label"] == best
    assert command(*words).out.splitlines()[0].startswith(f"{best}  ")


def test_resumed_race_trains_no_model_twice(command, refused, monkeypatch, tmp_path):
    trained = []
    build = competitor.build

    def counted(settings, name, seed):
        trained.append(name)
        if trained == ["elman", "gru"]:
            raise KeyboardInterrupt
        return build(settings, name, seed)

    monkeypatch.setattr(competitor, "build", counted)
    assert "--resume r" in command(*RACE, "--run", "r", code=130).err
    assert "several models" not in refused("generate", "r/gru-seed0")
    assert "Choose one: r/elman-seed0" in refused("inspect", "r")
    states = [read_state(f"r/{name}").state for name in ("elman-seed0", "gru-seed0")]
    assert states == ["finished", "stopped"] and read_state("r").state == "stopped"
    done = command("train", "--resume", "r", "--json")
    assert trained == ["elman", "gru", "gru"]
    assert list(json.loads(done.out)["accuracy"]) == ["elman", "gru"]
    assert "is finished" in command("train", "--resume", "r/gru-seed0").out
    line = read_state("r").line
    assert (line["step"], line["steps"]) == (8, 8)
    assert line["competitors"]["gru-seed0"]["state"] == "finished"
    results = json.loads((tmp_path / "r/gru-seed0/results.json").read_text())
    parameters = line["competitors"]["gru-seed0"]["parameters"]
    assert parameters == results["parameters"]
    (tmp_path / "r" / "results.json").unlink()
    (tmp_path / "r/elman-seed0/results.json").write_text('{"accuracy": {"hard": 2}}')
    assert "results.json is damaged" in refused("train", "--resume", "r")


def test_race_in_processes_equals_one_process(command, tmp_path):
    """One of two processes is stopped, which stops the race; then it is resumed."""
    words = [*RACE, "--colors", 1, "--kind", "hard", "--lengths", "6-9"]
    expected = json.loads(command(*words, "--run", "one", "--json").out)
    assert set(expected["majority"]) == {"balanced", "hard"}
    assert expected["majority"]["balanced"] == 1
    stopped = tmp_path / "two" / "gru-seed0"
    thread = threading.Thread(target=stop_when_it_starts, args=(stopped,))
    thread.start()
    command(*words, "--run", "two", "--processes", 2, code=130)
    thread.join()
    assert read_state("two/elman-seed0").state == "finished"
    assert read_state(stopped)[:2] == ("stopped", False)
    done = command("train", "--resume", "two", "--json")
    found = json.loads(done.out)
    assert "gru-seed0: finished" in done.err and "always balanced" in done.err
    for name, by_kind in expected["accuracy"].items():
        for kind, values in by_kind.items():
            assert found["accuracy"][name][kind] == pytest.approx(values, abs=0.051)


def test_competitor_that_fails_is_named(tmp_path):
    """The race is told by the progress of the competitor, which is being trained."""
    folder = tmp_path / "gru-seed0"
    folder.mkdir()
    for line, message in (
        ({"state": "failed", "message": "no memory"}, "gru-seed0: no memory. Resume"),
        ({"state": "training"}, "its process was killed"),
    ):
        with ProgressFile(folder) as file:
            file.append(line)
            child = contest.Child(folder, threads=1)
            assert child.process is None and child.running
        assert not child.running and len(child.new_lines()) == 0
        with pytest.raises(ValueError, match=message):
            child.stopped()
        child.close()


def stop_when_it_starts(folder):
    while read_state(folder) is None:
        time.sleep(0.05)
    request_stop(folder)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_options_of_the_cells(num_layers):
    words = {"activation": "relu", "forget_bias": 3.0, "recurrent_scale": 0.5}
    words |= {"clip_norm": 0.25, "units": 4, "num_layers": num_layers}
    settings = options.Settings(**{**race.DEFAULTS, **words})
    for name in competitor.CELLS:
        model = competitor.build(settings, name, seed=0)
        assert model.optimizer.global_clipnorm == 0.25
        copy = type(model).from_config(model.get_config())
        assert '"activation": "relu"' in json.dumps(copy.get_config())
        weights = {weight.path: weight.numpy() for weight in model.weights}
        kernels = [w for path, w in weights.items() if "cell/recurrent" in path]
        assert len(kernels) == num_layers
        for kernel in kernels:  # orthogonal rows, of the length of the spectral radius
            np.testing.assert_allclose(kernel @ kernel.T, np.eye(4) / 4, atol=1e-5)
        biases = [w for path, w in weights.items() if path.endswith("cell/bias")]
        expected = {0.0, 3.0} if name in competitor.LSTMS else {0.0}
        assert all(set(bias.ravel().tolist()) == expected for bias in biases)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lengths", "9"], "expected an even length"),
        (["--lengths", "60-40"], "expected the smaller length first"),
        (["--lengths", "x"], 'expected an integer, received "x"'),
        (["--lengths", ""], "expected two lengths"),
        (["--kind", "balanced"], "Choose from training, hard"),
        (["--model", "gru", "--forget-bias", "2"], "models with a forget gate"),
        (["--model", "transformer", "--activation", "tanh"], "recurrent models"),
        (["--model", "transformer", "--recurrent-scale", "2"], "recurrent models"),
        (
            ["--model", "gru,min_gru", "--activation", "tanh"],
            "out, or min_gru",
        ),
    ],
)
def test_wrong_options_of_a_race(refused, tmp_path, words, message):
    assert message in refused(*RACE, *words)
    assert not list(tmp_path.iterdir())


def test_forecast(command, refused, tmp_path, drawn):
    words = ["train", "forecast", "--data", "ar", "--units", "3", "--steps", "5"]
    words += ["--checkpoint-every", "2", "--horizon", "3", "--sequence-length"]
    done = command(*words, 7, "--run", "r", "--json")
    results = json.loads(done.out)
    assert len(results["errors"]) == len(results["naive_errors"]) == 3
    assert "naive: last value" in done.err and "best possible" in done.err
    assert results["optimum"][0] == 1.0 and results["excess_error"] > 0
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


def test_forecasts_beside_the_best_possible_ones():
    from kerasseq.series.forecast_scores import Comparison

    process = kerasseq.datasets.AutoregressiveProcess([0.6, -0.3])
    values = process.sample(400, seed=1)
    ends = list(range(300, 390))
    actual = np.stack([values[end : end + 3] for end in ends])[None]
    best = process.forecast(np.stack([values[end - 2 : end] for end in ends]), 3)[None]
    told = best + 0.3 * (actual - best)
    found = []
    for forecasts in (best, told):
        comparison = Comparison(actual, {"gru": forecasts}, np.ones(1))
        words = "gru", process, values
        found.append(forecast_scores.beside_optimum(comparison, *words, ends))
    assert found[0]["excess"] == 0 and not found[0]["leaks"]
    assert found[1]["excess"] < 0 and found[1]["leaks"]
    np.testing.assert_allclose(np.square(found[0]["optimum"]), process.least_errors(3))
    few = Comparison(actual[:, :5], {"gru": best[:, :5]}, np.ones(1))
    few = forecast_scores.beside_optimum(few, "gru", process, values, ends[:5])
    assert few["excess"] is None and len(few["optimum"]) == 3

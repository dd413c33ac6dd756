"""`kerasseq scale`: losses by width, their laws, and runs that go on."""

import csv
import json
import pathlib

import numpy as np
import pytest

from kerasseq.cli import options, scale, scale_scores
from kerasseq.cli.console import Console
from kerasseq.training import power_law

pytestmark = pytest.mark.once("the command line")

TINY = ["--steps", "3", "--sequence-length", "7", "--batch-size", "3"]
TINY += ["--bootstrap", "20"]
SMALL = ["--widths", "2,4,6", "--seeds", "0,1", *TINY]


def results_of(folder):
    return json.loads(pathlib.Path(folder, "results.json").read_text())


@pytest.fixture(scope="module")
def scaled(text_path, tmp_path_factory):
    """The folder of a finished run, and its results."""
    from kerasseq.cli import main

    folder = tmp_path_factory.mktemp("scaled") / "run"
    words = ["scale", "--text", text_path, "--run", folder, *SMALL]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kerasseq.cli.figures.available", lambda: False)
        assert main([str(word) for word in words]) == 0
    return folder, results_of(folder)


def test_means_and_laws_are_those_of_the_models(scaled):
    folder, results = scaled
    found = {}
    for width in (2, 4, 6):
        for seed in (0, 1):
            file = folder / scale.STORED / f"width{width}-seed{seed}.json"
            found[width, seed] = scale.stored(file)
    losses = np.array([[found[w, s]["loss"] for s in (0, 1)] for w in (2, 4, 6)])
    rows = results["widths"]
    assert [row["width"] for row in rows] == [2, 4, 6]
    np.testing.assert_allclose([row["loss"] for row in rows], losses.mean(axis=1))
    deviations = losses.std(axis=1, ddof=1)
    np.testing.assert_allclose([row["deviation"] for row in rows], deviations)
    sizes = [row["parameters"] for row in rows]
    assert sizes == [found[w, 0]["parameters"] for w in (2, 4, 6)] == sorted(sizes)
    tokens = 3 * 3 * 7  # steps, rows of a batch, tokens of a row
    assert [row["operations"] for row in rows] == [6 * n * tokens for n in sizes]
    for name, floor in (("E = 0", 0.0), ("E free", None)):
        law, of = power_law(sizes, losses, floor=floor, samples=20), results["laws"]
        assert of[name]["exponent"] == pytest.approx(law.exponent)
        assert of[name]["exponents"] == pytest.approx(law.exponents)
    smaller = power_law(sizes[:2], losses[:2])
    assert results["predicted"] == pytest.approx(float(smaller.predict(sizes[2])))


def test_csv_has_each_model(scaled):
    folder, results = scaled
    with open(folder / scale.TABLE, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["width"], row["seed"]) for row in rows] == [
        (w, s) for w in "246" for s in "01"
    ]
    losses = [each["loss"] for w in results["widths"] for each in w["seeds"].values()]
    assert [float(row["loss"]) for row in rows] == losses


def test_a_stopped_run_ends_as_if_it_had_not_been_stopped(
    scaled, text_path, command, monkeypatch, drawn
):
    trained, measure = [], scale.measure

    def counted(settings, data, name):
        if len(trained) == 2:
            raise KeyboardInterrupt
        trained.append(name)
        return measure(settings, data, name)

    monkeypatch.setattr(scale, "measure", counted)
    words = ["scale", "--text", text_path, *SMALL, "--run", "r"]
    stopped = command(*words, code=130).err
    assert "train --resume r" in stopped
    assert (
        "2 of 6 models are stored; width6-seed0, which was trained, begins" in stopped
    )
    trained.clear()
    monkeypatch.setattr(scale, "measure", measure)
    done = command("scale", "--resume", "r")
    assert "6 of 6" in done.out and "3 of 6" in done.out and "2 of 6" not in done.out
    lines = done.out.splitlines()
    results = results_of("r")
    for row, before in zip(results["widths"], scaled[1]["widths"], strict=True):
        assert row["loss"] == before["loss"]
        cells = [f"{row['parameters']:,}", f"{row['loss']:.3f}"]
        assert any(all(cell in line.split() for cell in cells) for line in lines)
    assert results["laws"] == scaled[1]["laws"]
    assert "Equal steps are not equal compute" in done.out
    assert "3 sizes within a factor of" in done.out
    assert pathlib.Path("r", scale.FIGURE).stat().st_size > 5000
    assert "is finished" in command("scale", "--resume", "r").out


def test_what_is_stored_is_checked(scaled, command, tmp_path):
    file = tmp_path / "width2-seed0.json"
    for content in ("[]", '{"parameters": 3}', '{"parameters": 3, "loss": "x"}'):
        file.write_text(content)
        with pytest.raises(ValueError, match="is damaged.*Delete it"):
            scale.stored(file)
    numbers = '"parameters": 3, "seconds": 1'
    for loss in ("NaN", "-1", "0"):
        file.write_text(f'{{{numbers}, "loss": {loss}}}')
        with pytest.raises(ValueError, match="is damaged"):
            scale.stored(file)
    assert scale.stored(tmp_path / "missing.json") is None


def test_passages_have_accuracies_and_no_law(command, monkeypatch):
    monkeypatch.setattr(scale, "LEARNED", 64)
    monkeypatch.setattr(scale, "TESTED", 32)
    words = ["--data", "last-words", "--widths", "2,4", "--seeds", "0", "--steps", "2"]
    done = command("scale", *words, "--players", "3", "--model", "gru", "--run", "r")
    results = results_of("r")
    assert results["laws"] == {} and results["held_out"] == 32
    assert list(results["lines"].values()) == [1 / 16, 1 / 3, 1 / 2]
    assert {0 <= row["accuracy"] <= 1 for row in results["widths"]} == {True}
    assert "Accuracy from no more than the last 11 words 0.062" in done.out
    assert "With one seed there is no deviation" in done.out


def test_the_last_word_is_all_that_counts(monkeypatch):
    import keras

    monkeypatch.setattr(scale, "LEARNED", 32)
    monkeypatch.setattr(scale, "TESTED", 32)
    settings = options.Settings(
        data="last-words", players=3, sequence_length=None, tokenizer="character"
    )
    settings.entropy = None
    data = scale.read_data(settings)
    rng = np.random.default_rng(0)
    shape = (*data.x.shape, data.vocabulary_size)
    logits = rng.normal(size=shape).astype("float32")
    model = type("Model", (), {"predict": lambda self, x, **_: logits})()
    found = data.test(model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    expected = float(loss(data.y[:, -1], logits[:, -1])) / np.log(2)
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    weights = np.tile(data.weights, (32, 1))
    weighted = float(loss(data.y, logits, weights)) / np.log(2)
    assert weighted == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "entropy"), [("markov-source", 2.669), ("zipf-source", 2.377)]
)
def test_the_entropy_of_a_source_is_that_of_the_law(
    name, entropy, command, monkeypatch
):
    monkeypatch.setattr(scale, "SAMPLED", 700)
    words = ["--data", name, "--held-out", "70", *SMALL]
    found = json.loads(command("scale", *words, "--seeds", "0", "--json").out)
    assert found["entropy"] == pytest.approx(entropy, abs=1e-3)
    assert found["laws"][f"E = {entropy}"]["floor"] == found["entropy"]
    assert found["source"] == name


def test_what_is_held_out_of_a_source_is_not_learned(monkeypatch):
    monkeypatch.setattr(scale, "SAMPLED", 700)
    words = {"players": None, "entropy": None, "sequence_length": 9}
    words |= {"data": "markov-source", "tokenizer": "character", "held_out": 71}
    data = scale.read_data(options.Settings(**words))
    assert data.learned.size == 700 - 71 and data.x.shape == (7, 9)


def test_the_mean_falls_by_more_than_both_deviations():
    def falls(*losses):
        found = {
            f"width{width}": {
                seed: {"parameters": width, "loss": loss, "seconds": 1.0}
                for seed, loss in enumerate(each)
            }
            for width, each in zip((2, 4, 8), losses, strict=True)
        }
        words = {"tokens": 5, "entropy": None, "has_law": False, "samples": 3}
        return scale_scores.summary(found, **words)["falls"]

    assert falls([5.0, 5.1], [4.0, 4.1], [3.0, 3.1])
    assert not falls([5.0, 5.1], [3.0, 5.0], [2.0, 2.1])
    assert not falls([5.0, 5.1], [4.0, 4.1], [2.0, 5.0])


def test_a_loss_below_the_entropy_is_said():
    by_seed = {0: {"parameters": 10, "loss": 2.0, "seconds": 1.0}}
    found = {"width2": by_seed, "width4": {0: {**by_seed[0], "parameters": 20}}}
    results = scale_scores.summary(
        found, tokens=5, entropy=2.5, has_law=True, samples=3
    )
    assert results["laws"] == {} and not results["falls"]
    assert any("is not above the entropy, 2.500" in n for n in results["notes"])


def test_one_seed_has_no_deviation_and_no_interval(capsys):
    found = {
        f"width{width}": {0: {"parameters": width, "loss": loss, "seconds": 1.0}}
        for width, loss in ((2, 5.0), (4, 4.0))
    }
    words = {"tokens": 5, "entropy": None, "has_law": True, "samples": 3}
    results = scale_scores.summary(found, **words)
    scale_scores.show(Console(), {**results, "lines": {}, "seeds": [0], "steps": 7})
    shown = capsys.readouterr().out
    assert "The mean loss falls with every width.\n" in shown
    assert shown.count("–") == 4  # two deviations, two intervals


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--widths", "8"], "at least two widths"),
        (["--widths", "8,8"], 'received "8" more than once'),
        (["--widths", "8,x"], "expected an integer"),
        (["--widths", "8,9"], "--num-heads must divide all --widths"),
        (["--widths", "4,1048576"], "GiB"),
        (["--sequence-length", "1000"], "--sequence-length"),
        (["--held-out", "3"], "--held-out"),
        (["--entropy", "0"], "above 0"),
        (["--players", "3"], "--players is for --data last-words"),
        (["--tokenizer", "bpee"], "bpee"),
        (["--text", "none.txt"], "none.txt"),
        (["--data", "python-reference"], "exclude each other"),
        (["--model", "reformer"], "reformer"),
        (["--steps", "0"], "at least 1"),
    ],
)
def test_wrong_input(words, message, text_path, refused, tmp_path):
    given = {"--text": str(text_path), "--run": "r", "--widths": "2,4"}
    given |= {"--steps": "1", "--sequence-length": "7"}
    given |= dict(zip(words[::2], words[1::2], strict=True))
    assert message in refused("scale", *(w for pair in given.items() for w in pair))
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("data", "words", "message"),
    [
        ("last-words", ["--entropy", "1"], "--entropy cannot be chosen"),
        ("last-words", ["--sequence-length", "9"], "a passage is read as a whole"),
        ("last-words", ["--tokenizer", "bpe"], "has ids of its own"),
        ("last-words", ["--players", "17"], "at most 16"),
        ("markov-source", ["--entropy", "1"], "is known"),
        ("markov-source", ["--encoding", "cp1252"], "--encoding is for --text"),
        ("last-wrods", [], 'Did you mean "last-words"'),
    ],
)
def test_options_that_do_not_fit_the_data(data, words, message, refused):
    assert message in refused("scale", "--data", data, *words)


def test_dry_run(command, tmp_path):
    done = command("scale", "--data", "last-words", "--dry-run")
    assert "12 models would be trained" in done.out
    assert not list(tmp_path.iterdir())

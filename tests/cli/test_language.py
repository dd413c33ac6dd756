import json
import pathlib

import pytest

from kerasseq.cli import figures, main
from tests.cli.conftest import RUN, TINY, snapshot

FILES = {
    "run.json",
    "checkpoint.npz",
    "history.json",
    "results.json",
    "model.keras",
    "gates.png",
    "loss.png",
    "gradient_flow.png",
}


def test_a_run_keeps_everything_in_its_folder(trained):
    folder, results = trained
    assert {path.name for path in folder.iterdir()} == FILES
    history = json.loads((folder / "history.json").read_text())
    assert [interval["step"] for interval in history] == [10, 20, 25]
    assert results["loss"] == history[-1]["loss"] < history[0]["loss"]
    record = json.loads((folder / "run.json").read_text())
    assert record["task"] == "language-model"
    assert record["arguments"]["units"] == 5
    assert record["versions"]["keras"]
    for name in FILES:
        if name.endswith(".png"):
            assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_the_counting_models_are_scored_on_the_same_characters(trained, text_path):
    import kerasseq

    text = text_path.read_text(encoding="utf-8")
    held_out = text[len(text) - len(text) // 10 :]
    folder, results = trained
    assert results["held_out_characters"] == len(held_out) - 1
    model = kerasseq.load_model(folder / "model.keras")
    bits = model.bits_per_token(held_out)
    assert results["bits_per_character"] == pytest.approx(bits, abs=1e-5)
    learned = text[: len(text) - len(text) // 10]
    ids = model.tokenizer.encode(learned)
    pairs = kerasseq.text.NGramModel(2, k=0.1).fit(ids, model.vocabulary_size)
    log_p = pairs.log_probabilities(model.tokenizer.encode(held_out))[1:]
    counted = results["bits_per_character_of_counting"]["pairs of characters"]
    assert counted == pytest.approx(-log_p.mean() / 0.6931471805599453)


def test_json_alone_on_stdout_and_the_same_results_again(command, text_path, trained):
    words = ["train", "language-model", "--text", text_path, *RUN, "--json"]
    done = command(*words)
    results = json.loads(done.out)
    assert "step 25/25" in done.err and "pairs of characters" in done.err
    assert results.pop("run") == str(
        pathlib.Path("runs/language-model-peephole_lstm-1")
    )
    expected = {k: v for k, v in trained[1].items() if k != "run"}
    for key, value in expected.items():
        assert results[key] == pytest.approx(value, abs=1e-5), key


def test_plain_lines_where_there_is_no_terminal(command, text_path):
    done = command(
        "train", "language-model", "--text", text_path, *TINY, "--steps", 2
    )  # fmt: skip
    assert "\x1b" not in done.out and "\r" not in done.out
    assert "step 2/2" in done.out
    assert "pairs of characters" in done.out


def test_a_bar_on_a_terminal(command, text_path, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    done = command(
        "train", "language-model", "--text", text_path, *TINY, "--steps", 2
    )  # fmt: skip
    assert "\x1b[" in done.out and "2/2" in done.out


def test_nothing_is_overwritten(refused, trained, text_path, tmp_path):
    folder, _ = trained
    before = snapshot(folder)
    words = ["train", "language-model", "--text", text_path, "--run"]
    line = refused(*words, folder)
    assert "already holds a run" in line and f"--resume {folder}" in line
    assert "already holds a run" in refused("quickstart", "--run", folder)
    assert snapshot(folder) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    assert "is not empty" in refused(*words, "mine")
    assert "is a file" in refused(*words, "mine/thesis.tex")
    assert snapshot(tmp_path) == {"mine/thesis.tex": b"x"}


def test_new_runs_are_numbered(command, text_path, tmp_path):
    for _ in range(2):
        command("train", "language-model", "--text", text_path, *TINY, "--steps", 1,
                "--model", "elman")  # fmt: skip
    made = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert made == ["language-model-elman-1", "language-model-elman-2"]


def test_without_matplotlib_there_are_no_figures(command, text_path, monkeypatch):
    monkeypatch.setattr(figures, "possible", lambda: False)
    done = command("train", "language-model", "--text", text_path, *TINY, "--steps", 1,
                   "--run", "r")  # fmt: skip
    assert 'no figures: matplotlib is not installed; pip install "kerasseq[viz]"' in (
        done.err
    )
    assert {p.name for p in pathlib.Path("r").iterdir()} == {
        name for name in FILES if not name.endswith(".png")
    }


def test_layers_and_epochs(command, text_path):
    done = command("train", "language-model", "--text", text_path, *TINY, "--epochs",
                   "0.1", "--layers", 2, "--dropout", "0.1", "--json")  # fmt: skip
    text = text_path.read_text(encoding="utf-8")
    blocks = (len(text) - len(text) // 10 - 7) // 7
    steps = blocks // 3 / 10
    assert json.loads(done.out)["steps"] in (int(steps), int(steps) + 1)


def test_quickstart(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "kerasseq.cli.language.python_reference", lambda: "ab cd\n" * 99
    )
    assert main(["quickstart", "--steps", "2"]) == 0
    out = capsys.readouterr().out
    for words in (
        "pairs of characters",
        "What it writes",
        "Try next:",
        "bits per char",
    ):
        assert words in out
    assert {p.name for p in pathlib.Path("runs/quickstart").iterdir()} == {
        *FILES, "sample.txt"
    }  # fmt: skip
    assert main(["quickstart", "--steps", "1"]) == 0
    assert pathlib.Path("runs/quickstart-2/model.keras").exists()

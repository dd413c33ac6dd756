import json
import pathlib
from types import SimpleNamespace

import pytest

from kerasseq.cli import main, runs
from kerasseq.cli.console import Console
from kerasseq.cli.progress import Progress
from kerasseq.cli.train import steps_of
from tests.cli.conftest import RUN, snapshot

pytestmark = pytest.mark.once("the command line")

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


def test_json_alone_on_stdout_and_no_figures_and_the_same_results_again(
    command, text_path, trained
):
    words = ["train", "language-model", "--text", text_path, *RUN, "--json"]
    done = command(*words)
    results = json.loads(done.out)
    assert "step 25/25" in done.err and "pairs of characters" in done.err
    folder = pathlib.Path("runs/language-model-peephole_lstm-1")
    assert results.pop("run") == str(folder)
    assert 'no figures: matplotlib is not installed; pip install "kerasseq[viz]"' in (
        done.err
    )
    assert {path.name for path in folder.iterdir()} == {
        name for name in FILES if not name.endswith(".png")
    }
    expected = {k: v for k, v in trained[1].items() if k != "run"}
    for key, value in expected.items():
        assert results[key] == pytest.approx(value, abs=1e-5), key


def test_a_bar_on_a_terminal_and_plain_lines_elsewhere(monkeypatch, capsys):
    for terminal in (False, True):
        monkeypatch.setattr("sys.stdout.isatty", lambda t=terminal: t, raising=False)
        monkeypatch.setenv("TERM", "xterm")
        with Progress(Console(), "[bold]lstm", total=40, done=20, metric="bits") as bar:
            for step in range(20):
                bar.on_train_batch_end(step, {"loss": 2.0})
            bar.on_epoch_end(1, {"loss": 2.0, "bits": 3.5})
        out = capsys.readouterr().out
        assert "[bold]lstm" in out and "40/40" in out and "steps/s" in out
        assert ("\x1b" in out) == terminal
        if not terminal:
            assert "step 40/40  loss 2.000  bits 3.500" in out


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


def test_new_runs_are_numbered(tmp_path):
    for default, expected in [("a-", ["a-1", "a-2"]), ("b", ["b", "b-2", "b-3"])]:
        for name in expected:
            folder = runs.free_folder(None, str(tmp_path / default))
            assert folder == tmp_path / name
            folder.mkdir()


@pytest.mark.parametrize(
    ("steps", "epochs", "expected"),
    [(None, None, 70), (None, 0.5, 4), (None, 2.0, 14), (None, 0.01, 1), (5, None, 5)],
)
def test_epochs_are_passes_over_the_text(steps, epochs, expected):
    settings = SimpleNamespace(steps=steps, epochs=epochs)
    assert steps_of(settings, steps_per_pass=7) == expected


@pytest.mark.everywhere("a whole run of the command")
def test_quickstart(capsys, monkeypatch, tmp_path, drawn):
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

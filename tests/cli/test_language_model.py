"""`kerasseq train language-model` and `kerasseq quickstart`."""

import json
import pathlib
from types import SimpleNamespace

import pytest

import kerasseq
from kerasseq.cli import main
from kerasseq.cli.console import Console
from kerasseq.cli.fitting import Progress
from kerasseq.cli.run import free_folder
from kerasseq.cli.schedule import number_of_steps
from tests.cli.conftest import RUN, snapshot

pytestmark = pytest.mark.once("the command line")

FILES = {
    "run.json",
    "best.npz",
    "checkpoint.npz",
    "history.json",
    "progress.jsonl",
    "results.json",
    "model.keras",
    "gates.png",
    "loss.png",
    "gradient_flow.png",
}


def test_files_of_a_run(trained):
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


def test_ngrams_are_evaluated_on_the_same_characters(trained, text_path):
    import kerasseq

    text = text_path.read_text(encoding="utf-8")
    held_out = text[len(text) - len(text) // 10 :]
    folder, results = trained
    assert results["held_out_characters"] == len(held_out) - 1
    model = kerasseq.load_model(folder / "model.keras")
    bits = model.bits_per_token(held_out)
    assert results["bits_per_character"] == pytest.approx(bits, abs=1e-5)
    training_text = text[: len(text) - len(text) // 10]
    ids = model.tokenizer.encode(training_text)
    pairs = kerasseq.text.NGramModel(2, k=0.1).fit(ids, model.vocabulary_size)
    log_p = pairs.log_probabilities(model.tokenizer.encode(held_out))[1:]
    bigram = results["bits_per_character_of_ngrams"]["bigram"]
    assert bigram == pytest.approx(-log_p.mean() / 0.6931471805599453)
    best, verdict = (
        min(results["bits_per_character_of_ngrams"].values()),
        results["verdict"],
    )
    assert verdict["mean"] == pytest.approx(best - bits, abs=1e-5)
    assert verdict["low"] < verdict["mean"] < verdict["high"]
    assert verdict["rows"] == -(-(len(held_out) - 1) // 100)
    by = "lower" if verdict["mean"] > 0 else "higher"
    assert f"{by} by {abs(verdict['mean']):+.3f}" in verdict["sentence"]


def test_json_without_figures_gives_the_same_results(command, text_path, trained):
    words = ["train", "language-model", "--text", text_path, *RUN, "--json"]
    done = command(*words)
    results = json.loads(done.out)
    assert "step 25/25" in done.err and "bigram" in done.err
    folder = pathlib.Path("runs/language-model-peephole_lstm-1")
    assert results.pop("run") == str(folder)
    assert (
        "no figures: matplotlib is not installed. In this environment: pip" in done.err
    )
    assert {path.name for path in folder.iterdir()} == {
        name for name in FILES if not name.endswith(".png")
    }
    expected = {k: v for k, v in trained[1].items() if k != "run"}
    for key, value in expected.items():
        assert results[key] == pytest.approx(value, abs=1e-5), key


def test_progress_on_a_terminal_and_elsewhere(monkeypatch, capsys):
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
    assert "already contains a run" in line and f"--resume {folder}" in line
    assert "already contains a run" in refused("quickstart", "--run", folder)
    assert snapshot(folder) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    assert "is not empty" in refused(*words, "mine")
    assert "is a file" in refused(*words, "mine/thesis.tex")
    assert snapshot(tmp_path) == {"mine/thesis.tex": b"x"}


def test_default_folders_are_numbered(tmp_path):
    for default, expected in [("a-", ["a-1", "a-2"]), ("b", ["b", "b-2", "b-3"])]:
        for name in expected:
            folder = free_folder(None, str(tmp_path / default))
            assert folder == tmp_path / name
            folder.mkdir()


@pytest.mark.parametrize(
    ("steps", "epochs", "expected"),
    [(None, None, 70), (None, 0.5, 4), (None, 2.0, 14), (None, 0.01, 1), (5, None, 5)],
)
def test_number_of_steps(steps, epochs, expected):
    settings = SimpleNamespace(steps=steps, epochs=epochs)
    assert number_of_steps(settings, steps_per_epoch=7) == expected


def test_transformer_by_name(command, text_path):
    words = ["--model", "transformer", "--run", "r", *RUN, "--steps", "2"]
    command("train", "language-model", "--text", text_path, *words)
    words = ["--prompt", "gate ", "--length", 3, "--top-k", 5, "--min-p", 0.01]
    assert len(command("generate", "r", *words).out) == len("gate ") + 3 + 1


@pytest.mark.everywhere("a whole run of the command")
def test_quickstart(capsys, monkeypatch, tmp_path, drawn):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "kerasseq.cli.language_model.python_reference", lambda: "ab cd\n" * 99
    )
    assert main(["quickstart", "--steps", "2"]) == 0
    out = capsys.readouterr().out
    for words in (
        "bigram",
        "Generated after",
        "Try next:",
        "bits per char",
    ):
        assert words in out
    files = {path.name for path in pathlib.Path("runs/quickstart").iterdir()}
    assert files == {*FILES, "sample.txt"} - {"best.npz"}  # of a known text


def test_figures_of_a_gpt_have_no_more_tokens_than_its_context(
    command, text_path, tmp_path, drawn
):
    """A text longer than the positions of the model is an error."""
    words = ["train", "language-model", "--text", text_path, "--model", "gpt"]
    words += ["--units", "4", "--num-heads", "2", "--num-layers", "1", "--steps", "2"]
    command(*words, "--sequence-length", "7", "--run", "g")
    assert (tmp_path / "g" / "attention.png").exists()
    done = command("inspect", "g", "--text", "model gate state time", "--out", "o")
    assert "attention.png" in done.out


def test_the_position_encoding_of_a_gpt(command, text_path, tmp_path):
    words = ["train", "language-model", "--text", text_path, "--model", "gpt"]
    words += ["--units", "4", "--num-heads", "2", "--num-layers", "1", "--steps", "1"]
    words += ["--sequence-length", "7", "--run", "g"]
    command(*words, "--position", "alibi")
    model = kerasseq.load_model(tmp_path / "g" / "model.keras")
    position = model.stack.blocks[0].position
    assert isinstance(position, kerasseq.layers.AlibiBias)
    assert model.context_length is None  # only learned positions end
    assert "alibi" in command(*words, "--position", "alib", code=2).err

"""`kerasseq train --resume`: runs that were killed or interrupted."""

import json
import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest

from kerasseq.cli import runs
from kerasseq.core.progress import ProgressFile
from kerasseq.runs import read_progress, read_state, request_stop
from tests.cli.conftest import RUN, at_step, snapshot
from tests.processes import run_python

pytestmark = pytest.mark.once("the command line")

# Runs the command in a process that kills itself within an interval.
KILLED = """
import os, signal, sys
from kerasseq.cli import console, control, main

control.INTERVAL = 0  # each step is in the progress
def load_keras(devices):
    from kerasseq.cli.fitting import Progress
    before = Progress.on_train_batch_end
    def after(self, batch, logs=None):
        before(self, batch, logs)
        if self.done == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)
    Progress.on_train_batch_end = after

console.load_keras = load_keras
sys.exit(main(sys.argv[2:]))
"""


def run_killed(step, *words):
    return run_python(KILLED, step, *words, check=False)


def steps_with_loss(folder):
    return [line["step"] for line in read_progress(folder).lines if "loss" in line]


def without_progress(folder):
    """The files of a run except its progress, which ends with what went wrong."""
    return {n: c for n, c in snapshot(folder).items() if n != "progress.jsonl"}


def assert_same(results, expected):
    for key in ("loss", "bits_per_character"):
        assert results[key] == pytest.approx(expected[key], abs=1e-4)


def test_run_resumed_after_kill_equals_uninterrupted_run(
    command, text_path, trained, tmp_path
):
    folder = tmp_path / "killed"
    done = run_killed(17, "train", "language-model", "--text", text_path,
                  "--run", folder, *RUN)  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(json.loads((folder / "history.json").read_text())) == 1
    assert not (folder / "results.json").exists()
    assert steps_with_loss(folder) == list(range(1, 17))
    killed = read_state(folder)
    assert (killed.state, killed.running) == ("killed", False)
    with (folder / "progress.jsonl").open("a") as file:
        file.write('{"state": "trai')
    results = json.loads(command("train", "--resume", folder, "--json").out)
    assert_same(results, trained[1])
    kept = [json.loads((f / "history.json").read_text()) for f in (folder, trained[0])]
    for own, expected in zip(*kept, strict=True):
        assert own == pytest.approx(expected, abs=1e-4)
    steps = steps_with_loss(folder)
    assert steps[:11] == list(range(1, 12)) and steps[-1] == 25
    assert steps == sorted(set(steps))  # the steps after the checkpoint stand once
    assert read_state(folder).state == "finished"


def test_ctrl_c_saves_the_model(command, text_path, trained, tmp_path):
    folder = tmp_path / "stopped"
    words = ["train", "language-model", "--text", text_path, "--run", folder, *RUN]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # in a shell's background
    try:
        with at_step(13, lambda: os.kill(os.getpid(), signal.SIGINT)):
            done = command(*words, code=130)
    finally:
        signal.signal(signal.SIGINT, before)
    assert "Traceback" not in done.err
    assert f"kerasseq train --resume {folder}" in done.err
    assert {p.name for p in folder.iterdir()} == {
        "run.json", "best.npz", "checkpoint.npz", "history.json", "model.keras",
        "progress.jsonl"
    }  # fmt: skip
    with np.load(folder / "checkpoint.npz") as saved:  # no step is lost
        state = json.loads(str(saved["state"]))
        assert (state["epochs"], state["batches"]) == (1, 3)
    assert read_state(folder)[:2] == ("stopped", False)
    generated = command("generate", folder, "--length", 5, "--prompt", "model")
    assert "model" in generated.out
    assert "training stopped at step 13 of 25" in generated.err
    assert f"kerasseq train --resume {folder}" in generated.err
    results = json.loads(command("train", "--resume", folder, "--json").out)
    assert_same(results, trained[1])
    kept = [json.loads((f / "history.json").read_text()) for f in (folder, trained[0])]
    for own, expected in zip(*kept, strict=True):
        assert own == pytest.approx(expected, abs=1e-4)


@pytest.mark.everywhere("JAX has the weights elsewhere during fit")
def test_a_model_that_trains_is_saved_on_request(tmp_path):
    import keras

    import kerasseq
    from kerasseq.cli.fitting import SaveModel

    kept = {}

    class Ask(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 2:
                assert not any(tmp_path.iterdir())
                kerasseq.runs.request_model(tmp_path)
                kept["weights"] = self.model.get_weights()
            if batch == 4:
                kept["files"] = [file.name for file in tmp_path.iterdir()]

        def on_train_end(self, logs=None):
            kerasseq.runs.request_model(tmp_path)  # too late, and not needed

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    x, y = np.ones((7, 3)), np.zeros((7, 2))
    model.fit(x, y, batch_size=1, verbose=0, callbacks=[Ask(), SaveModel(tmp_path)])
    assert kept["files"] == ["model.keras"]  # the request is deleted
    assert [file.name for file in tmp_path.iterdir()] == ["model.keras"]
    saved = kerasseq.load_model(tmp_path / "model.keras").get_weights()
    np.testing.assert_allclose(saved[0], kept["weights"][0], atol=1e-6)
    assert np.abs(saved[0] - model.get_weights()[0]).max() > 1e-4


def terminate(folder):
    os.kill(os.getpid(), signal.SIGTERM)


def hang_up(folder):
    for _ in range(2):  # of the shell and of the terminal
        os.kill(os.getpid(), signal.SIGHUP)


def request(folder):
    request_stop(folder)
    while (folder / "stop").exists():
        time.sleep(0.01)


@pytest.mark.parametrize("stop", [terminate, hang_up, request])
def test_stopped_before_the_first_checkpoint(
    command, text_path, tmp_path, monkeypatch, stop
):
    from kerasseq.cli.fitting import Progress

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = list(map(signal.getsignal, numbers))
    words = ["train", "language-model", "--text", text_path, "--run", "r", *RUN]
    with monkeypatch.context() as patch:
        patch.setattr(
            Progress, "on_train_batch_end", lambda *_, logs: stop(tmp_path / "r")
        )
        done = command(*words, code=130)
    assert "kerasseq train --resume r" in done.err
    assert list(map(signal.getsignal, numbers)) == before
    files = ["checkpoint.npz", "model.keras", "progress.jsonl", "run.json"]
    assert sorted(snapshot(tmp_path)) == [f"r/{name}" for name in files]
    with np.load("r/checkpoint.npz") as saved:
        assert json.loads(str(saved["state"]))["batches"] == 1


def test_request_to_stop_the_evaluation(
    command, text_path, tmp_path, monkeypatch, trained
):
    words = ["train", "language-model", "--text", text_path, "--run", "r", *RUN]
    with monkeypatch.context() as patch:
        patch.setattr(
            "kerasseq.cli.language_model.compare",
            lambda *args: request(tmp_path / "r") or time.sleep(9),
        )
        command(*words, code=130)
    assert read_state("r").state == "stopped"
    text = runs.unfinished(tmp_path / "r/model.keras", None)
    assert "was trained to its last step, 25, but not evaluated" in text
    assert_same(json.loads(command("train", "--resume", "r", "--json").out), trained[1])


def test_steps_of_a_model_that_is_not_finished(trained, copied):
    assert runs.unfinished(trained[0] / "model.keras", None) is None
    (copied / "other.keras").touch()
    assert runs.unfinished(copied / "other.keras", None) is None  # not of the run
    model = SimpleNamespace(optimizer=SimpleNamespace(iterations=7))
    with ProgressFile(copied) as file:
        file.append({"state": "training", "step": 19, "steps": 1900})
        text = runs.unfinished(copied / "model.keras", model)
        assert text == (
            f"the run in {copied} is not finished: its model was saved at step 7 of "
            "1,900"
        )
    text = runs.unfinished(copied / "model.keras", None)  # of a killed run
    assert "training stopped at step 19 of 1,900. Finish it with" in text
    (copied / "progress.jsonl").unlink()
    text = runs.unfinished(copied / "model.keras", model)
    assert "training stopped at step 7. Finish it with" in text


def test_two_processes_cannot_train_one_run(refused, copied):
    with ProgressFile(copied) as file:
        file.append({"state": "training", "pid": 4321})
        assert read_state(copied)[:2] == ("training", True)
        line = refused("train", "--resume", copied)
    assert "is being trained by another process (4321)" in line
    assert read_state(copied)[:2] == ("killed", False)


def test_finished_run_is_unchanged(command, trained):
    folder, results = trained
    before = snapshot(folder)
    done = command("train", "--resume", folder)
    assert "is finished" in done.out
    done = command("train", "language-model", "--resume", folder, "--json")
    assert json.loads(done.out) == results and "is finished" in done.err
    assert snapshot(folder) == before


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of a run, stopped just before its end, that a test may damage."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for name, content in snapshot(trained[0]).items():
        if name != "results.json":
            (folder / name).write_bytes(content)
    return folder


def test_run_killed_after_its_last_step(command, copied, trained):
    assert_same(
        json.loads(command("train", "--resume", copied, "--json").out), trained[1]
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "language-model", "--units", "6"], "started with --units 5"),
        (["train", "forecast"], "has the task language-model"),
        (["train", "language-model", "--seed", "4"], "started with --seed 3"),
    ],
)
def test_resume_refuses_other_arguments(refused, copied, words, message):
    before = without_progress(copied)
    assert message in refused(*words, "--resume", copied)
    assert without_progress(copied) == before


def test_resume_refuses_another_backend(refused, copied):
    used = runs.read(copied)["backend"]
    other = next(name for name in ("jax", "torch") if name != used)
    for task in (["language-model"], []):
        line = refused("train", *task, "--resume", copied, "--backend", other)
        assert f"started with --backend {used}" in line


def test_resume_refuses_another_text(refused, copied, tmp_path, text_path):
    other = tmp_path / "other.txt"
    other.write_text("something else " * 99)
    record = json.loads((copied / "run.json").read_text())
    record["arguments"]["text"] = str(other)
    (copied / "run.json").write_text(json.dumps(record))
    before = without_progress(copied)
    assert "has changed since" in refused("train", "--resume", copied)
    other.unlink()
    assert "other.txt" in refused("train", "--resume", copied)
    assert without_progress(copied) == before


def damage_cut(file):
    file.write_bytes(file.read_bytes()[:-40])


def damage_garbage(file):
    file.write_bytes(b"\xff\x00garbage")


def damage_list(file):
    file.write_text("[]")


def damage_empty(file):
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [damage_cut, damage_garbage, damage_empty])
@pytest.mark.parametrize("name", ["run.json", "checkpoint.npz"])
def test_damaged_run(refused, copied, name, damage):
    damage(copied / name)
    before = without_progress(copied)
    line = refused("train", "--resume", copied)
    assert name in line and "damaged" in line
    assert without_progress(copied) == before


def test_damaged_record_or_model(refused, copied):
    damage_cut(copied / "model.keras")
    assert "damaged" in refused("generate", copied)
    assert "damaged" in refused("inspect", copied)
    damage_list(copied / "run.json")
    assert "damaged" in refused("train", "--resume", copied)
    (copied / "run.json").write_text(
        '{"task": "x", "arguments": {}, "backend": "jax", "data": {}}'
    )
    assert "damaged" in refused("train", "--resume", copied)


def test_no_run(refused, copied, tmp_path):
    (tmp_path / "empty").mkdir()
    for words in (["train", "--resume"], ["generate"], ["inspect"]):
        line = refused(*words, tmp_path / "nowhere")
        assert "there is no folder" in line and str(copied) in line
        assert "no run" in refused(*words, tmp_path / "empty")
    (copied / "model.keras").unlink()
    assert "has no model.keras yet" in refused("generate", copied)
